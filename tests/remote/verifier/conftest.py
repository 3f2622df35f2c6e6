from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from remote.protocol import VERSION, Card, Limits, MemoryFormat
from remote.verifier.engine import Engine
from remote.verifier.engines.torch_engine import TorchEngine
from tests.remote.verifier.tiny import STOP, VOCABULARY, tiny_encoder, tiny_model
from tests.support.gguf_files import LlamaVocabulary

LIMITS = Limits(max_nodes=24, max_depth=16, max_tokens=300, max_body_bytes=4096)


@pytest.fixture(scope="session")
def target() -> Engine:
    """A tiny Llama with a memory encoder; tests keep their state in sessions, never in here."""
    return TorchEngine(tiny_model(), tiny_encoder())


@pytest.fixture
def llama_cpp() -> Iterator[Callable[[Path], LlamaVocabulary]]:
    """Opens llama.cpp's own tokenizer of a file. Skipped without the `gguf` extra."""
    pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install '.[gguf]'")
    with ExitStack() as opened:

        def vocabulary(path: Path) -> LlamaVocabulary:
            return opened.enter_context(closing(LlamaVocabulary(path)))

        yield vocabulary


@pytest.fixture
def card(target: Engine) -> Card:
    assert target.encoder is not None
    return Card(
        version=VERSION,
        target="tiny",
        vocabulary=VOCABULARY,
        tokenizer=b"t" * 16,
        chat_template="",
        stop_tokens=(STOP,),
        limits=LIMITS,
        memory=MemoryFormat(digest=target.encoder.digest, layers=target.encoder.layers),
    )
