"""A server that checks no drafts: it answers an offline answer again, and nothing is called verified.

The servers are played back from `tests/remote/openai/dialects`, or made of the same parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.events import AnsweredAgain, Judged
from app.reply.assistant import Assistant
from app.reply.judgement import own_judgement, stored_judgement
from app.tui.markdown.struck import Struck
from app.tui.turn import Turn
from storage import Message, Store
from tests.app.reply.conftest import Connect
from tests.support.chat_server import ChatServer, Script
from tests.support.commands import Outrider
from tests.support.conversing import ask_once, hear, stored_answer
from tests.support.dialects import PLAIN, Exchange, Playback, exchange
from tests.support.shells import served

DRAFT = "Run ls -l here"
NEVER = ("verif", "check", "tau", "τ", "target")
"""Words that mean nothing for a server that checks no drafts."""


def drafted(opened: Assistant, verified: int = 0, **more: Any) -> Message:
    """A stored answer that was written offline, but for its first tokens."""
    return stored_answer(opened, DRAFT, verified=verified, **more)


def service(*stream: Any, **more: Any) -> Exchange:
    """A service of our own making."""
    return Exchange("made up", "answers", {}, stream or PLAIN, **more)


def counted(kept: int, dropped: int) -> dict[str, Any]:
    details = {"accepted_prediction_tokens": kept, "rejected_prediction_tokens": dropped}
    return {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 8, "completion_tokens_details": details}}


COUNTING = service(*PLAIN[:2], counted(3, 2), "[DONE]")
SILENT = service()
REFUSING = exchange("openai", "a model without predicted outputs")
AGAIN, KEPT = "answered again by talker", "talker got the offline answer as a suggestion and kept 3 of 5 tokens"


@pytest.mark.parametrize(
    ("server", "asked", "again", "said"),
    [
        (Playback(COUNTING), [True], AnsweredAgain("talker", True, (3, 2)), KEPT),
        (Playback(SILENT), [True], AnsweredAgain("talker", True), f"{AGAIN}, with the offline answer as a suggestion"),
        (Playback(REFUSING), [True, False], AnsweredAgain("talker", False), AGAIN),
        (Playback(SILENT, owner="vllm"), [False], AnsweredAgain("talker", False), AGAIN),
    ],
    ids=["counts", "says nothing", "refuses", "is known to ignore it"],
)
async def test_the_question_is_answered_again_and_the_note_says_how(
    server: Playback, asked: list[bool], again: AnsweredAgain, said: str, connect: Connect
) -> None:
    server.asked.clear()
    async with connect(server, settings=Settings(), met=True) as opened:
        answer = drafted(opened)
        heard = await hear(opened.verify(answer.id))
        judged = heard.judged
        assert heard.failed is None and heard.done and heard.text == "ls -l"
        assert judged == Judged(answer.id, 2, 4, "Run\n\n… here", 5, again)
        assert str(judged) == f"{said}; 50 % of the words are the same"
        newer = opened.store.branches.thread(answer.conversation_id)[-1]
        assert (newer.id, newer.text, newer.tokens, newer.verifies) == (heard.message, "ls -l", (), answer.id)
        assert stored_judgement(newer, answer) == judged, "it is told the same when it is read again"
        assert newer.stats["tau"] is None and newer.stats["model"] == "talker"
        assert opened.store.messages.get(answer.id) == answer, "the offline answer stays as it was"
        branches = opened.store.messages.of(answer.conversation_id)
        [turn] = Turn.of_thread(opened.store.branches.thread(answer.conversation_id), branches)
        assert str(judged) in turn.note and turn.answered_again
        assert turn.dropped == (Struck(5, "Run\n\n… here"),)
        assert not any(word in turn.note.lower() for word in NEVER), turn.note
        assert [request.get("prediction") == {"type": "content", "content": DRAFT} for request in server.asked] == asked
        assert all([one["role"] for one in request["messages"]][-1] == "user" for request in server.asked)
        first = len(server.asked)
        await hear(opened.verify(drafted(opened).id))
        assert len(server.asked) == first + 1, "what it refused is remembered"


async def test_the_draft_stays_in_sight_until_the_first_words(connect: Connect) -> None:
    shown: list[tuple[str, str]] = []
    async with connect(Playback(SILENT), met=True) as opened:
        again = opened.verify(drafted(opened).id)
        await hear(again, lambda heard: shown.append((heard.reply.solid, heard.reply.ghost)))
    assert ("", DRAFT) in shown and shown[-1] == ("ls -l", "")
    assert not any(solid and ghost for solid, ghost in shown), "no part of the draft passes for the server's words"


async def test_one_that_was_checked_in_part_or_cut_off_is_answered_as_a_whole(connect: Connect) -> None:
    server = Playback(COUNTING)
    async with connect(server, met=True) as opened:
        heard = await hear(opened.verify(drafted(opened, verified=2).id))
        judged = heard.judged
        assert heard.text == "ls -l" and judged is not None and (judged.kept, judged.of) == (2, 4)
        assert server.asked[0]["prediction"]["content"] == DRAFT and len(server.asked[0]["messages"]) == 1
        heard = await hear(opened.resume(drafted(opened, status="stopped").id))
        judged = heard.judged
        assert heard.text == "ls -l" and judged is not None and judged.again == AnsweredAgain("talker", True, (3, 2))


@pytest.mark.parametrize("temperature", [0.0, 0.5])
async def test_a_chosen_field_of_the_sampling_that_is_not_taken_is_told(temperature: float, connect: Connect) -> None:
    server = Playback(exchange("openai", "a reasoning model takes no temperature"))
    heard = await ask_once(connect(server, settings=Settings(temperature=temperature)), "list files")
    assert heard.done and heard.text == "ls -l"
    told = heard.why
    assert told[-1].endswith("; the server does not accept temperature") == bool(temperature)


@pytest.mark.parametrize(("kept", "of"), [(5, 0), (0, 0), (-1, 2), (3, 2)])
async def test_figures_that_cannot_be_are_no_judgement(kept: int, of: int, connect: Connect) -> None:
    async with connect(None) as opened:
        begun, stats = drafted(opened), {"kept": kept, "of": of, "predicted": True, "withdrawn": None}
        newer = stored_answer(opened, "ls", stats=stats)
    assert stored_judgement(newer, begun) is None and own_judgement(newer) is None


# ---- `ask`, history and exports never say `verified` or `tau` of it --------------------------------------------------


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
