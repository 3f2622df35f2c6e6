"""Fixtures of the assistant's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from drafter.runtime import Drafter
from drafter.text import ChatText
from tests.support.tiny_text import tiny_text


@pytest.fixture(scope="session")
def text() -> ChatText:
    return tiny_text()


@pytest.fixture(scope="module")
def drafter(tiny_pair: Path) -> Drafter:
    """The drafter of the tiny pair, loaded anew for each file of tests."""
    return Drafter.load(tiny_pair / "drafter")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The place of a device's home that is not there yet."""
    return tmp_path / "home"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The place of a database that is not there yet."""
    return tmp_path / "outrider.db"
