from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.made_once import made_once


@pytest.fixture(scope="session")
def learnable_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny pair whose drafter's layers can be trained."""
    from tests.support.learnable import build_learnable  # torch takes seconds.

    return made_once(tmp_path_factory, "learnable-pair", build_learnable)
