"""Fixtures of the assistant's tests."""

from __future__ import annotations

import pytest

from drafter.text import ChatText
from tests.support.tiny_text import tiny_text


@pytest.fixture(scope="session")
def text() -> ChatText:
    return tiny_text()
