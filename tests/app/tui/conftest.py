from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Store
from tests.app.tui.scripted import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path)
    yield store
    store.close()
