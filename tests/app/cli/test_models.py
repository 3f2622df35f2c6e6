"""`outrider models`, and `--model` of `ask`: which model answers, now and when the conversation goes on."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from app.config import Folders
from app.remotes.registry import Remote, Remotes
from storage import Choices, Store
from storage.choices import ASKED
from tests.support.chat_server import ChatServer, Script
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY

NOBODY = "http://127.0.0.1:9"
Run = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
async def server() -> AsyncIterator[tuple[ChatServer, str]]:
    server = ChatServer([Script(["Paris"])])
    async with server.listening() as port:
        yield server, f"http://127.0.0.1:{port}"


@pytest.fixture
def outrider(tmp_path: Path, tiny_pair: Path, server: tuple[ChatServer, str]) -> Run:
    """Runs a command. The registry has the server as `mine`, and one that is away, which is in use."""
    own = {"OUTRIDER_HOME": str(tmp_path), "OUTRIDER_DRAFTER": str(tiny_pair / "drafter")}
    proxies = {name: "" for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")}
    remotes = Remotes(Folders.locate(own))
    remotes.put("mine", Remote(url=server[1], model="talker"))
    remotes.put("away", Remote(url=NOBODY))
    remotes.use("away")

    async def run(*arguments: str) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "app.start", *arguments, cwd=REPOSITORY, env={**os.environ, **proxies, **own},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, error = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), error.decode()

    return run


async def test_all_models_are_listed(outrider: Run, server: tuple[ChatServer, str]) -> None:
    code, out, talk = await outrider("models")
    assert code == 0 and "mine  talker  streams only\nmine  other  streams only\n" in out
    assert "bundled  " in out and "checks drafts" in out and "away: nothing listens" in talk
    code, out, talk = await outrider("models", "--remote", "mine", "--json")
    first, second = (json.loads(line) for line in out.splitlines())
    assert first == {"server": "mine", "model": "talker", "checks_drafts": False, "context": None, "images": None}
    assert (code, second["model"], talk) == (0, "other", "")
    assert (await outrider("models", "--remote", "away"))[0] == 3
    code, out, talk = await outrider("models", "--remote", "nobody")
    assert code == 2 and "there is no server 'nobody'" in talk
    code, out, talk = await outrider("models", "--remote", server[1])
    assert code == 0 and out.startswith(f"{server[1]}  talker")
    assert not server[0].asked


async def test_a_model_that_was_named_stays_with_its_conversation(
    outrider: Run, server: tuple[ChatServer, str], tmp_path: Path
) -> None:
    code, out, _ = await outrider("ask", "--remote", "mine", "--model", "other", "--json", "capital of France")
    assert code == 0 and json.loads(out)["model"] == "other" and server[0].asked[-1]["model"] == "other"
    code, out, talk = await outrider("ask", "-c", "and of Spain")  # The one in use is away, and is not asked.
    assert (code, out) == (0, "Paris\n") and server[0].asked[-1]["model"] == "other"
    code, out, _ = await outrider("ask", "-c", "--remote", "mine", "--model", "talker", "and of Italy")
    assert code == 0 and server[0].asked[-1]["model"] == "talker"
    with Store.open(tmp_path / "data" / "outrider.db") as store:
        (conversation,) = store.conversations.all()
        assert conversation.choices == Choices(remote="mine", model="other", origin=ASKED)
    Remotes(Folders.locate({"OUTRIDER_HOME": str(tmp_path)})).remove("mine")
    code, out, talk = await outrider("ask", "-c", "and of Greece")
    assert code == 3 and out == "" and "the server mine, which was chosen for this conversation" in talk
    assert len(server[0].asked) == 3


async def test_a_model_that_is_not_there_is_named(outrider: Run, server: tuple[ChatServer, str]) -> None:
    server[0].strict = True
    code, out, talk = await outrider("ask", "--remote", "mine", "--model", "third", "a")
    assert code == 3 and "No model third" in talk and "it lists talker, other" in talk
    asked = len(server[0].asked)
    code, out, talk = await outrider("ask", "--remote", "bundled", "--model", "third", "a")
    assert code == 2 and "the bundled server has one model" in talk
    code, out, talk = await outrider("ask", "--mode", "offline", "--model", "third", "a")
    assert code == 2 and "--model" in talk
    assert len(server[0].asked) == asked


async def test_doctor_and_test_claim_nothing(outrider: Run) -> None:
    for command in (("doctor", "--remote", "mine"), ("remote", "test", "mine")):
        _, out, talk = await outrider(*command)
        lines = [line for line in (out + talk).splitlines() if "OpenAI-compatible" in line or "mode" in line]
        assert lines and not any(word in line for line in lines for word in ("verified", "checked", "tau", "τ"))
