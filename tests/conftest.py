"""Fixtures for every package: the tiny pair, built once a session."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `target` (a transformers checkpoint) and `drafter` (an artefact that fits it)."""
    from tests.tiny import build_pair  # torch takes seconds; most tests need none of it.

    return build_pair(tmp_path_factory.mktemp("tiny"))
