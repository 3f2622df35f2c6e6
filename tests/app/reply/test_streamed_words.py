"""The screen, `ask`, history and exports never say `verified` or `tau` of a server that verifies nothing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from app.events import Done, Started, Stats
from app.tui.metrics import SessionMetrics
from app.tui.widgets.panel import lines
from app.tui.widgets.status_bar import figures
from storage import Store
from tests.support.chat_server import ChatServer, Script
from tests.support.serving import REPOSITORY

PATIENCE = 60.0
CLAIM = re.compile(r"verif|\bchecked|tau\b|τ", re.IGNORECASE)
Run = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
async def server() -> AsyncIterator[tuple[ChatServer, int]]:
    server = ChatServer([Script(["Paris", ", of course"])])
    async with server.listening() as port:
        yield server, port


@pytest.fixture
def outrider(tmp_path: Path, tiny_pair: Path, server: tuple[ChatServer, int]) -> Run:
    own = {"OUTRIDER_HOME": str(tmp_path), "OUTRIDER_DRAFTER": str(tiny_pair / "drafter")}
    environment = {**os.environ, **own, "OUTRIDER_REMOTE": f"http://127.0.0.1:{server[1]}"}

    async def run(*arguments: str, **more: str) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "app.start", *arguments, cwd=REPOSITORY, env={**environment, **more},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(PATIENCE):
            out, error = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), error.decode()

    return run


def said(text: str) -> str:
    """Without the line that tells of connecting, before anybody knows who is there."""
    return "\n".join(line for line in text.splitlines() if "connecting to" not in line)


async def test_ask_tells_what_came_and_claims_nothing(outrider: Run, server: tuple[ChatServer, int]) -> None:
    code, out, talk = await outrider("ask", "what is the capital of France")
    assert (code, out) == (0, "Paris, of course\n") and not CLAIM.search(said(talk))
    code, out, talk = await outrider("ask", "--json", "and of Spain?")
    answer = json.loads(out)
    assert answer["provenance"] == {"streamed": 2} and answer["tau"] is None
    assert (answer["token_ids"], answer["rounds"], answer["reason"], answer["cut"]) == ([], 0, "end", None)
    assert "max_tokens" not in server[0].asked[-1]


async def test_ask_says_what_cut_an_answer_and_how_to_go_on(outrider: Run, server: tuple[ChatServer, int]) -> None:
    server[0].scripts = [Script(["Paris, of"], reason="length")]
    code, out, talk = await outrider("ask", "--max-tokens", "3", "what is the capital of France")
    assert (code, out) == (0, "Paris, of\n")
    assert "cut at 3 tokens (max_tokens)" in talk and 'outrider ask -c "go on"' in talk
    code, out, talk = await outrider("ask", "--json", "what is the capital of France")
    assert json.loads(out)["reason"] == "length" and json.loads(out)["cut_by"].startswith("cut at a limit of 127.0.0.1")


async def test_ask_fails_where_the_server_refuses(outrider: Run, server: tuple[ChatServer, int]) -> None:
    server[0].scripts = [Script(["Paris, of"], cut=True)]
    code, out, talk = await outrider("ask", "what is the capital of France")
    assert (code, out) == (1, "Paris, of\n") and "is kept" in talk
    server[0].strict = True
    code, out, talk = await outrider("ask", "what?", OUTRIDER_REMOTE_MODEL="third")
    assert code == 3 and out == "" and "No model third; it lists talker, other" in talk
    server[0].scripts = [Script(["Paris, of"], reason="network_error")]
    code, out, talk = await outrider("ask", "what is the capital of France")
    assert (code, out) == (1, "Paris, of\n") and "not whole" in talk and "broke it off (network_error)" in talk
    server[0].scripts = [Script(["Paris, of"], reason="solar_flare")]
    code, out, talk = await outrider("ask", "--json", "what is the capital of France")
    assert (code, json.loads(out)["cut"]) == (0, "other") and "not whole" in talk and "solar_flare" in talk


async def test_history_log_exports_and_verify_claim_nothing(outrider: Run, tmp_path: Path) -> None:
    await outrider("ask", "what is the capital of France")
    code, out, talk = await outrider("verify")
    assert code == 0 and out == "Paris, of course\n" and "That answer came from a server" in talk
    for command in (
        ("history",),
        ("export", "--all", "--format", "md"),
        ("export", "--all", "--format", "html"),
    ):
        code, out, talk = await outrider(*command)
        words = re.sub(r"<style>.*?</style>", "", out + talk, flags=re.DOTALL)
        assert code == 0 and words and not CLAIM.search(words), command
    log = (tmp_path / "logs" / "outrider.log").read_text()
    assert "2 streamed tokens" in log and " of them verified" not in log


async def test_an_exported_answer_is_the_same_where_it_is_imported(outrider: Run, tmp_path: Path) -> None:
    await outrider("ask", "what is the capital of France")
    file = tmp_path / "all.json"
    assert (await outrider("export", "--all", "--format", "json", "-o", str(file)))[0] == 0
    elsewhere = tmp_path / "elsewhere"
    assert (await outrider("import", str(file), OUTRIDER_HOME=str(elsewhere)))[0] == 0
    found = []
    for home in (tmp_path, elsewhere):
        store = Store.open(home / "data" / "outrider.db")
        [conversation] = store.conversations.all()
        found.append(store.branches.thread(conversation.id)[-1])
        store.close()
    one, other = found
    assert (one.text, one.tokens, one.provenance, one.stats) == (other.text, (), (), other.stats)
    assert (one.stats["streamed"], one.stats["model"], one.stats["tau"]) == (2, "talker", None)


STREAMED = Stats(seconds=2.0, streamed=40, rtt_ms=20.0, bytes_up=100, bytes_down=900)
VERIFIED = Stats(rounds=4, verified=14, seconds=2.0)


def test_the_status_bar_counts_what_was_streamed() -> None:
    assert figures(STREAMED, 80, short=True).plain == "20 tok/s  ~40 tokens"
    counted = Stats(seconds=2.0, streamed=38, counted=True)
    assert figures(counted, 80, short=False).plain == "19 tokens/s  38 tokens"
    assert figures(VERIFIED, 80, short=True).plain == "7 tok/s  14 checked"
    assert figures(VERIFIED, 80, short=False).plain == "7 tokens/s  14 tokens checked"


def panel(*answers: Stats) -> str:
    shown = SessionMetrics()
    for answer in answers:
        shown.apply(Started("c", "m"))
        shown.apply(Done(False, "end", (), (), answer))
    return "\n".join(line.plain for line in lines(shown, None))


def test_the_panel_has_rows_for_what_there_was() -> None:
    assert "streamed" in panel(STREAMED) and not CLAIM.search(panel(STREAMED))
    assert "checked" in panel(VERIFIED) and "streamed" not in panel(VERIFIED)
    both = panel(VERIFIED, STREAMED)
    assert "streamed" in both and "checked" in both and "40" in both
