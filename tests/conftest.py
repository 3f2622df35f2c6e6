"""Fixtures for every package: the tiny pair and its parts, and a process that serves it. And which tests are marked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.support.made_once import made_once
from tests.support.serving import VerifierProcess

if TYPE_CHECKING:
    from drafter.runtime import Drafter
    from models.engines.engine import Engine
    from tests.support.gguf_files import LlamaVocabulary

# Tiny models gain nothing from threads, and the tests run side by side. Torch reads it once, when it is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# GNU readline, which pytest's workers import, puts these there; a program would believe them and not its own terminal.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

# The folders whose every test bears the folder's name as its mark; other files name theirs in `pytestmark`.
MARKED = ("benchmarks", "bundled", "faults", "pty")
# What takes longest starts first, so that no worker is left alone with it at the end.
LONGEST_FIRST = ("training", "bundled", "benchmarks", "faults", "pty")
LONG = ("test_cut_layers.py", "test_nothing_leaves.py", "test_newer.py", "test_local_drafter.py", "test_starting.py")
"""Files that take longer than others without a mark."""

# The gate draws the same examples each time, and takes its time on a busy machine. To look for new ones:
# pytest --hypothesis-profile=explore
unhurried = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("gate", unhurried, derandomize=True)
hypothesis.settings.register_profile("explore", unhurried, max_examples=1000)
hypothesis.settings.load_profile("gate")


@pytest.hookimpl(tryfirst=True)  # Before `-m` chooses by marks.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    for item in items:
        name = item.path.relative_to(folder).parts[0]
        if name in MARKED:
            item.add_marker(name)

    def turn(item: pytest.Item) -> int:
        marks = (n for n, mark in enumerate(LONGEST_FIRST, 1) if item.get_closest_marker(mark))
        return 0 if item.path.name in LONG else min(marks, default=len(items))

    items.sort(key=turn)


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `target` (a transformers checkpoint) and `drafter` (an artefact that fits it)."""
    from tests.support.tiny import build_pair  # torch takes seconds; most tests need none of it.

    return made_once(tmp_path_factory, "tiny-pair", build_pair)


@pytest.fixture(scope="module")
def drafter(tiny_pair: Path) -> Drafter:
    from drafter.runtime import Drafter

    return Drafter.load(tiny_pair / "drafter")


@pytest.fixture(scope="module")
def engine(tiny_pair: Path) -> Engine:
    """The tiny target in PyTorch, with the encoder of its drafter's memory."""
    from drafter.model import MemoryEncoder
    from models.engines.target import load_target
    from models.engines.torch_engine import TorchEngine

    return TorchEngine(load_target(str(tiny_pair / "target")).model, MemoryEncoder.load(tiny_pair / "drafter"))


@pytest.fixture(scope="module")
def prompts(drafter: Drafter) -> list[list[int]]:
    return [drafter.text.render([("user", question)]) for question in ("list all files", "unpack a tar archive")]


@pytest.fixture(scope="session")
def guessing_nothing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny pair whose drafter has random weights."""
    from tests.support.tiny import build_pair

    return made_once(tmp_path_factory, "guessing-nothing", partial(build_pair, guesses=False))


@pytest.fixture(scope="session")
def reciting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny pair that answers every question with the same command, also by the drafter alone."""
    from tests.support.reciting import build_reciting

    return made_once(tmp_path_factory, "reciting", build_reciting)


@pytest.fixture
def llama_cpp() -> Iterator[Callable[[Path], LlamaVocabulary]]:
    """Opens llama.cpp's own tokenizer of a file. Skipped without the `gguf` extra."""
    from tests.support.gguf_files import LlamaVocabulary

    pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install '.[gguf]'")
    with ExitStack() as opened:

        def vocabulary(path: Path) -> LlamaVocabulary:
            return opened.enter_context(closing(LlamaVocabulary(path)))

        yield vocabulary


@pytest.fixture(scope="session")
def verifier(tiny_pair: Path) -> Iterator[VerifierProcess]:
    """The tiny target behind a real verifier process that all tests share."""
    with VerifierProcess(tiny_pair) as process:
        yield process
