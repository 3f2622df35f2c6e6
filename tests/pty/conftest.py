from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.serving import REPOSITORY


@pytest.fixture
def own(tmp_path: Path, tiny_pair: Path) -> dict[str, str]:
    """Variables of a person whose home is `tmp_path`, and who has the tiny drafter alone."""
    return {
        "OUTRIDER_HOME": str(tmp_path),
        "OUTRIDER_DRAFTER": str(tiny_pair / "drafter"),
        "OUTRIDER_MODE": "offline",
        "PYTHONPATH": str(REPOSITORY),
    }


@pytest.fixture
def environment(own: dict[str, str]) -> dict[str, str]:
    """These variables among those of the machine, as a program in a terminal needs them."""
    return {**os.environ, **own}
