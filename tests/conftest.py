"""Fixtures for every package: the tiny pair, and a verifier process that serves it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.serving import VerifierProcess

# The gate draws the same examples each time, and takes its time on a busy machine. To look for new ones:
# pytest --hypothesis-profile=explore
hypothesis.settings.register_profile("gate", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("gate")


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `target` (a transformers checkpoint) and `drafter` (an artefact that fits it)."""
    from tests.tiny import build_pair  # torch takes seconds; most tests need none of it.

    return build_pair(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def verifier(tiny_pair: Path) -> Iterator[VerifierProcess]:
    """The tiny target behind a real verifier process that all tests share."""
    with VerifierProcess(tiny_pair) as process:
        yield process
