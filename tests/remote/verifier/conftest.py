from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from models.engines.engine import Engine
from models.engines.target import Target, load_target
from models.engines.torch_engine import TorchEngine
from remote.protocol import VERSION, Card, Limits, MemoryFormat
from remote.verifier.http import create_app
from tests.remote.verifier.test_http import connected, running
from tests.remote.verifier.tiny import STOP, VOCABULARY, tiny_encoder, tiny_model

LIMITS = Limits(max_nodes=24, max_depth=16, max_tokens=300, max_body_bytes=4096)


@pytest.fixture(scope="session")
def target() -> Engine:
    """A tiny Llama with a memory encoder; tests keep their state in sessions, never in here."""
    return TorchEngine(tiny_model(), tiny_encoder())


@pytest.fixture(scope="module")
def loaded(tiny_pair: Path) -> Target:
    """The tiny pair's target as a server loads it. Its engine is `engine`."""
    return load_target(str(tiny_pair / "target"), device="cpu")


@pytest.fixture(scope="session")
def card(target: Engine) -> Card:
    memory = MemoryFormat(target.encoder.config.memory_digest, target.encoder.config.memory_layers)
    return Card(
        version=VERSION, target="tiny", vocabulary=VOCABULARY, tokenizer=b"t" * 16, chat_template="",
        stop_tokens=(STOP,), limits=LIMITS, memory=memory,
    )  # fmt: skip


@pytest.fixture
async def client(target: Engine, card: Card) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server of the tiny target, in this process."""
    async with connected(create_app(target, card)) as client:
        yield client


@pytest.fixture
def url(target: Engine, card: Card) -> Iterator[str]:
    """The address of such a server behind a real socket."""
    with running(create_app(target, card)) as url:
        yield url


@pytest.fixture
def forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let background processes keep their priority: at a lower one, tests of other workers leave them next to none."""
    (tmp_path / "forward").mkdir()
    (tmp_path / "forward/sitecustomize.py").write_text("import os\nos.nice = lambda by: 0\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "forward"), prepend=os.pathsep)
