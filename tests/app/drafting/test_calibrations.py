"""A calibration survives a restart, and each version of what a drafter learnt has its own. Few are in memory."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from app.drafting.calibrations import Calibrations
from app.drafting.pool import MOST_SHARED, OPEN_CONVERSATIONS, DraftingPool
from drafter.calibration import Calibration
from drafter.runtime import Drafter
from drafter.whole_model import NOBODY
from models.tree import DraftTree
from storage import Store

TREE = DraftTree(np.array([5], np.int32), np.array([-1], np.int32), log_probs=np.array([-0.1], np.float32))


def experienced() -> Calibration:
    """One that has seen guesses refused."""
    calibration = Calibration()
    for _ in range(20):
        calibration.learn(TREE, [], 7)
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


@pytest.mark.parametrize("text", ["{", "[1, 2]", "[" + "0, " * 13 + "0]"])
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


def of_memory(drafter: Drafter, number: int) -> Drafter:
    return Drafter(msgspec.structs.replace(drafter.config, memory=f"{number:064x}"), drafter.text, NOBODY)


async def test_of_drafters_met_once_the_last_ones_are_kept_and_what_they_learnt_is_saved(
    drafter: Drafter, store: Store, tmp_path: Path
) -> None:
    calibrations = Calibrations(tmp_path)
    pool = DraftingPool(store, second_stage=False, calibrations=calibrations)
    first, *others = [of_memory(drafter, number) for number in range(2 * MOST_SHARED)]
    drafting, _ = pool.enter("first", first)
    drafting.learn(TREE, [], 7)
    for number, other in enumerate(others):
        pool.left("other", other, None)
        pool.enter("other", other)
        assert len(pool._shared) == min(number + 2, MOST_SHARED)
    assert calibrations.load(first).dump() == Calibration().dump(), "it is in use"
    for number in range(OPEN_CONVERSATIONS):
        pool.enter(str(number), others[-1])
    pool.enter("last", of_memory(drafter, 100))
    assert first.memory_digest not in pool._shared
    assert calibrations.load(first).dump() != Calibration().dump()
    await pool.close()
