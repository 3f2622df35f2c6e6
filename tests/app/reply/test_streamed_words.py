"""The screen, `ask`, history and exports never say `verified` or `tau` of a server that verifies nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Message, Store
from tests.support.chat_server import ChatServer, Script
from tests.support.commands import Outrider
from tests.support.shells import served

CLAIM = re.compile(r"verif|\bchecked|tau\b|τ", re.IGNORECASE)
QUESTION = ("ask", "what is the capital of France")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    server = ChatServer([Script(["Paris", ", of course"])])
    with served(server) as address:
        monkeypatch.setenv("OUTRIDER_REMOTE", address)
        yield server


@pytest.fixture
def outrider(outrider: Outrider, monkeypatch: pytest.MonkeyPatch, server: ChatServer) -> Outrider:
    monkeypatch.delenv("OUTRIDER_MAX_TOKENS")
    return outrider


def test_ask_tells_what_came_and_claims_nothing(outrider: Outrider, server: ChatServer) -> None:
    code, out, talk = outrider(*QUESTION)
    said = "".join(line for line in talk.splitlines() if "connecting to" not in line)  # Who is there, nobody knows yet.
    assert (code, out) == (0, "Paris, of course\n") and not CLAIM.search(said)
    answer = outrider("ask", "--json", "and of Spain?").json
    assert answer["provenance"] == {"streamed": 2} and answer["tau"] is None
    assert (answer["token_ids"], answer["rounds"], answer["reason"], answer["cut"]) == ([], 0, "end", None)
    assert "max_tokens" not in server.asked[-1]


def test_ask_says_what_cut_an_answer(outrider: Outrider, server: ChatServer, tmp_path: Path) -> None:
    server.scripts = [Script(["Paris, of"], reason="length")]
    code, out, talk = outrider(*QUESTION, "--max-tokens", "3")
    assert (code, out) == (0, "Paris, of\n")
    assert "the answer is incomplete: cut at 3 tokens (max_tokens)" in talk and 'outrider ask -c "go on"' in talk
    told = outrider(*QUESTION, "--max-tokens", "3", "--json").json
    assert (told["reason"], told["cut"], told["cut_by"]) == ("length", "length", "cut at 3 tokens (max_tokens)")
    assert told["go_on"].endswith("a longer answer: --max-tokens")
    (tmp_path / "prompts").write_text('{"prompt": "list files"}\n{"prompt": "list them"}\n')
    each = outrider("ask", "--prompts", str(tmp_path / "prompts"), "--max-tokens", "3")
    assert each.err.count("the answer is incomplete") == 2
    server.scripts = [Script(["Paris, of"], cut=True)]
    code, out, talk = outrider(*QUESTION)
    assert (code, out) == (1, "Paris, of\n") and "is kept" in talk
    server.scripts = [Script(["Paris, of"], reason="network_error")]
    code, out, talk = outrider(*QUESTION)
    assert (code, out) == (1, "Paris, of\n") and "incomplete" in talk and "broke it off (network_error)" in talk
    server.scripts = [Script(["Paris, of"], reason="solar_flare")]
    code, out, talk = outrider(*QUESTION, "--json")
    assert (code, json.loads(out)["cut"]) == (0, "other") and "incomplete" in talk and "solar_flare" in talk


def answer_of(home: Path) -> Message:
    with Store.open(home / "data" / "outrider.db") as store:
        [conversation] = store.conversations.all()
        return store.branches.thread(conversation.id)[-1]


def test_history_log_exports_and_verify_claim_nothing_and_an_import_has_the_same(
    outrider: Outrider, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outrider(*QUESTION)
    code, out, talk = outrider("verify")
    assert code == 0 and out == "Paris, of course\n" and "That answer came from a server" in talk
    export = ("export", "--all", "--format")
    for command in (("history",), (*export, "md"), (*export, "html")):
        code, out, talk = outrider(*command)
        words = re.sub(r"<style>.*?</style>", "", out + talk, flags=re.DOTALL)
        assert code == 0 and words and not CLAIM.search(words), command
    log = (home / "logs" / "outrider.log").read_text()
    assert "2 streamed tokens" in log and " of them verified" not in log
    file, elsewhere = tmp_path / "all.json", tmp_path / "elsewhere"
    assert outrider(*export, "json", "-o", str(file)).code == 0
    monkeypatch.setenv("OUTRIDER_HOME", str(elsewhere))
    assert outrider("import", str(file)).code == 0
    one, other = answer_of(home), answer_of(elsewhere)
    assert (one.text, one.tokens, one.provenance, one.stats) == (other.text, (), (), other.stats)
    assert (one.stats["streamed"], one.stats["model"], one.stats["tau"]) == (2, "talker", None)
