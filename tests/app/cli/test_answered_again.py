"""`outrider ask` and `outrider verify` with servers that check no drafts, each in the dialect of a hosted service."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.commands import Outrider, runner
from tests.support.dialects import Exchange, Playback, exchange


@pytest.fixture
def outrider(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, tiny_pair: Path
) -> Outrider:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return runner(monkeypatch, capsys, tmp_path / "home", tiny_pair / "drafter")


@contextmanager
def serving(told: Exchange) -> Iterator[tuple[str, Playback]]:
    """The address of a service that plays this exchange, in a thread, and the service."""
    server, ready = Playback(told), threading.Event()
    found: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        ended = asyncio.Event()
        async with server.listening() as port:
            found.append((port, asyncio.get_running_loop(), ended))
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(60)
    port, loop, ended = found[0]
    try:
        yield f"http://127.0.0.1:{port}", server
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


@pytest.mark.parametrize(
    ("service", "name"),
    [
        ("openrouter", "comments keep the line alive, and reasoning comes apart"),
        ("mistral", "reasoning in parts of another type"),
        ("groq", "raw reasoning stands in the text"),
        ("gemini", "thoughts in tags"),
        ("vllm", "reasoning under its newer name"),
        ("ollama", "reasoning, and the count at the end"),
    ],
)
def test_ask_prints_the_text_alone_and_json_has_the_rest(outrider: Outrider, service: str, name: str) -> None:
    told = exchange(service, name)
    with serving(told) as (address, _):
        asked = outrider("ask", "how?", "--remote", address, "--json")
        plain = outrider("ask", "how?", "--remote", address)
    found, expected = json.loads(asked.out), told.expected
    assert asked.code == plain.code == 0 and plain.out == expected["text"] + "\n"
    assert (found["text"], found["reasoning"]) == (expected["text"], expected["reasoning"])
    assert found["tau"] is None and "verified" not in found["provenance"]
    if "usage" in expected:
        assert found["provenance"]["streamed"] == expected["usage"][1]
    assert bool(found["cut"]) is ("cut" in expected) and ("is not whole" in plain.err) is ("cut" in expected)


def test_verify_has_the_question_answered_again_and_says_which_way(outrider: Outrider) -> None:
    refuses = exchange("openai", "a model without predicted outputs")
    with serving(refuses) as (address, server):
        alone = outrider("ask", "list files", "--mode", "offline", "--max-tokens", "12")
        again = outrider("verify", "--remote", address)
        more = outrider("verify", "--remote", address)
    assert (again.code, again.out) == (0, "ls -l\n")
    assert "answered again by talker; no word is the same" in again.err
    assert "not in the new answer: " in again.err
    said = again.err.replace(address, "").replace(alone.out.strip(), "").split("not in the new answer")[0].lower()
    assert "verif" not in said and "checked" not in said and "target" not in said
    assert ["prediction" in request for request in server.asked] == [True, False], "and not a third time"
    assert (more.code, more.out) == (0, again.out)


def test_a_service_that_counts_is_quoted(outrider: Outrider) -> None:
    with serving(exchange("cerebras", "a prediction that was used")) as (address, server):
        outrider("ask", "how much memory is free?", "--mode", "offline", "--max-tokens", "12")
        again = outrider("verify", "--remote", address)
    assert (
        again.out == "free -h\n"
        and "talker got the offline answer as a suggestion and kept 31 of 35 tokens" in again.err
    )
    assert [request["prediction"]["type"] for request in server.asked] == ["content"]
