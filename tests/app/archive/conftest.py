from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Store


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "other" / "outrider.db") as store:
        yield store
