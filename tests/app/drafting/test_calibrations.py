"""A calibration survives a restart, and each version of what a drafter learnt has its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.drafting.calibrations import Calibrations
from drafter.calibration import Calibration
from drafter.runtime import Drafter
from models.tree import DraftTree


def experienced() -> Calibration:
    """One that has seen guesses refused."""
    calibration = Calibration()
    tree = DraftTree(np.array([5], np.int32), np.array([-1], np.int32), log_probs=np.array([-0.1], np.float32))
    for _ in range(20):
        calibration.learn(tree, [], 7)
    assert calibration.dump() != Calibration().dump()
    return calibration


def test_it_survives_a_restart(drafter: Drafter, tmp_path: Path) -> None:
    calibration = experienced()
    Calibrations(tmp_path / "learnt").save(drafter, calibration)
    np.testing.assert_allclose(Calibrations(tmp_path / "learnt").load(drafter).dump(), calibration.dump())


def test_a_version_has_its_own(tiny_pair: Path, tmp_path: Path) -> None:
    own = Drafter.load(tiny_pair / "drafter")
    Calibrations(tmp_path).save(own, experienced())
    own.correct(None, 3)
    assert Calibrations(tmp_path).load(own).dump() == Calibration().dump()


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '["a"]', "[" + "0, " * 13 + "0]"])
def test_a_damaged_file_is_done_without(text: str, drafter: Drafter, tmp_path: Path) -> None:
    calibrations = Calibrations(tmp_path)
    calibrations.save(drafter, experienced())
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    assert calibrations.load(drafter).dump() == Calibration().dump()


def test_nothing_is_written_where_nothing_may_be_or_nothing_is_known(drafter: Drafter, tmp_path: Path) -> None:
    Calibrations(None).save(drafter, experienced())
    Calibrations(tmp_path).save(drafter, Calibration())
    assert list(tmp_path.iterdir()) == []
