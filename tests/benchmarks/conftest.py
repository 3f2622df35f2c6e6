"""The tiny pair, opened the way the benchmarks open theirs."""

from __future__ import annotations

import pytest

from drafter.model import MemoryEncoder
from drafter.runtime import Drafter
from models.engines.engine import Engine
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine


@pytest.fixture(scope="module")
def engine(tiny_pair) -> Engine:
    return TorchEngine(load_target(str(tiny_pair / "target")).model, MemoryEncoder.load(tiny_pair / "drafter"))


@pytest.fixture(scope="module")
def drafter(tiny_pair) -> Drafter:
    return Drafter.load(tiny_pair / "drafter")


@pytest.fixture(scope="module")
def prompts(drafter) -> list[list[int]]:
    return [drafter.text.render([("user", question)]) for question in ("list all files", "unpack a tar archive")]
