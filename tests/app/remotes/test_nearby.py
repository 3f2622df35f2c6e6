"""What servers offer: the look at this device, and the lists of models; nothing that listens can hold them up."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

from app.config import Folders, Settings
from app.remotes import nearby
from app.remotes.models import list_models, servers
from app.remotes.nearby import PORTS, NearbyServer, Unusable, known_as, look
from app.remotes.registry import BUNDLED, Remote, Remotes
from tests.remote.openai.hostile_chat_peers import STREAMS, hostile
from tests.remote.toy_verifier import http, raw_peer
from tests.support import model_servers as dialects
from tests.support.chat_server import ChatServer, Script
from tests.support.model_servers import ModelServer
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

JSON = "application/json"


async def one(port: int, seconds: float = PATIENCE_SECONDS) -> NearbyServer | Unusable:
    found = await look([port], seconds)
    return found.servers[0] if found.servers else found.unusable[0]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearby, "PAGE_SECONDS", PATIENCE_SECONDS)


async def test_each_program_is_recognised() -> None:
    for pages, program, models in (
        (dialects.OLLAMA, nearby.OLLAMA, ["llama3.2:latest", "qwen3:8b"]),
        (dialects.EMPTY_OLLAMA, nearby.OLLAMA, []),
        (dialects.OWN_OLLAMA, nearby.OLLAMA, ["me/mine:latest"]),
        (dialects.LM_STUDIO, nearby.LM_STUDIO, ["qwen2.5-7b"]),
        (dialects.LATER_LM_STUDIO, nearby.LM_STUDIO, ["qwen2.5-7b"]),
        (dialects.LLAMA_CPP, nearby.LLAMA_CPP, ["tiny.gguf"]),
        (dialects.ROUTED_LLAMA_CPP, nearby.LLAMA_CPP, ["tiny.gguf"]),
        (dialects.VLLM, nearby.VLLM, ["Qwen/Qwen3-8B"]),
        (dialects.TRANSFORMERS, nearby.TRANSFORMERS, ["Qwen/Qwen3-0.6B"]),
        (dialects.BARE_TRANSFORMERS, nearby.TRANSFORMERS, []),
        (dialects.OTHER, nearby.UNKNOWN, ["talker"]),
    ):
        server = ModelServer(pages)
        async with server.listening() as port:
            found = await one(port)
        assert isinstance(found, NearbyServer) and found.program == program and not found.checks_drafts
        assert [model.id for model in found.models] == models
        assert all(line.startswith("GET ") for line in server.asked)
        remote = found.remote("m")
        assert (remote.url, remote.kind, remote.model) == (f"http://127.0.0.1:{port}/v1", "openai", "m")


async def test_only_loopback_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    loop = asyncio.get_running_loop()
    connect = loop.create_connection

    async def watched(factory: Any, host: str, port: int, **options: Any) -> Any:
        asked.append((host, port))
        return await connect(factory, host, port, **options)

    monkeypatch.setattr(loop, "create_connection", watched)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:3128")
    server = ModelServer(dialects.OLLAMA)
    async with server.listening() as port:
        await look([port], PATIENCE_SECONDS)
    assert server.asked and {host for host, _ in asked} == {"127.0.0.1"}
    assert set(PORTS) == {11434, 1234, 8080, 8000}


# ---- anything may listen ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["silence", "headers for ever", "a list of 100 MB", "nothing"])
async def test_what_never_answers_is_given_up(name: str) -> None:
    begun = time.monotonic()
    async with raw_peer(lambda number: None) if name == "silence" else hostile(STREAMS[name]) as port:
        found = await one(port, seconds=0.5)
    assert isinstance(found, Unusable) and found.why
    assert time.monotonic() - begun < PATIENCE_SECONDS


NOT_MODELS = (
    http(b"<html>It works!</html>", content_type="text/html"),
    http(b"", status="302 Found", extra="location: http://elsewhere.example/\r\n", content_type=None),
    http(b"[" * 100_000, content_type=JSON),
    http(b'{"data": [null, 3, {"id": {}}]}', content_type=JSON),
    http(b"garbage", content_type="application/vnd.outrider.v1+msgpack"),
    http(b'{"error": {"message": "Loading model", "code": 503}}', status="503 Unavailable", content_type=JSON),
    b"\x00\x01\x02\x03" * 50,
)


async def test_what_is_no_model_server_is_named_with_a_reason() -> None:
    for answer in NOT_MODELS:
        async with raw_peer(lambda number, answer=answer: answer) as port:
            found = await one(port)
        assert isinstance(found, Unusable) and found.port == port and found.why
        assert ("Loading model" in found.why) == (b"Loading" in answer)


def test_a_remote_of_the_same_server_and_model_is_known(tmp_path: Path) -> None:
    remotes = Remotes(Folders.locate({"OUTRIDER_HOME": str(tmp_path)}))
    server = NearbyServer(nearby.OLLAMA, 11434)
    assert known_as(server, "m", remotes) is None
    remotes.put("mine", Remote(url="http://localhost:11434/v1", kind="openai", model="m"))
    remotes.put("own", Remote(url="http://127.0.0.1:8000"))
    assert known_as(server, "m", remotes) == "mine"
    assert known_as(server, "other", remotes) is None
    assert known_as(NearbyServer(nearby.OUTRIDER, 8000, checks_drafts=True), None, remotes) == "own"


# ---- lists of models -------------------------------------------------------------------------------------------------


NOBODY = "http://127.0.0.1:9"


@pytest.mark.usefixtures("no_ring")
async def test_each_server_offers_its_models_or_says_why_not(verifier: VerifierProcess, folders: Folders) -> None:
    refused = http(b'{"error":{"message":"Wrong key."}}', status="401 Unauthorized", content_type="application/json")
    async with ChatServer([Script(["x"])]).listening() as port, raw_peer(lambda number: refused) as locked:
        remotes = Remotes(folders)
        remotes.put("mine", Remote(url=f"http://127.0.0.1:{port}"))
        remotes.put("checker", Remote(url=verifier.url))
        remotes.put("away", Remote(url=NOBODY))
        remotes.put("locked", Remote(url=f"http://127.0.0.1:{locked}/v1", kind="openai"))
        names = servers(Settings(), folders)
        lists = list_models(names, Settings(), folders, seconds=PATIENCE_SECONDS)
        found = {one.server: one async for one in lists}
    assert sorted(found) == sorted(names)
    assert [model.name for model in found["mine"].models] == ["talker", "other"]
    assert found["mine"].models[0].about == "streams only"
    (checker,) = found["checker"].models
    assert checker.checks and checker.about.startswith("checks drafts, context ")
    assert [(model.server, model.checks) for model in found[BUNDLED].models] == [(BUNDLED, True)]
    assert not found["away"].models and "nothing listens" in found["away"].trouble
    assert not found["locked"].models and "Wrong key." in found["locked"].trouble


@pytest.mark.usefixtures("no_ring")
async def test_a_silent_server_holds_up_no_other(folders: Folders) -> None:
    async with ChatServer([Script(["x"])]).listening() as port, raw_peer(lambda number: None) as away:
        remotes = Remotes(folders)
        remotes.put("silent", Remote(url=f"http://127.0.0.1:{away}"))
        remotes.put("mine", Remote(url=f"http://127.0.0.1:{port}"))
        lists = list_models(["silent", "mine"], Settings(), folders, seconds=PATIENCE_SECONDS)
        async with contextlib.aclosing(lists):
            assert (await anext(lists)).server == "mine"
        (one,) = [one async for one in list_models(["silent"], Settings(), folders, seconds=0.2)]
    assert not one.models and one.trouble
