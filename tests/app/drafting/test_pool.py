"""What conversations share is bounded, however many drafters they were entered with."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from app.drafting.calibrations import Calibrations
from app.drafting.pool import MOST_SHARED, OPEN_CONVERSATIONS, DraftingPool
from drafter.calibration import Calibration
from drafter.runtime import Drafter
from drafter.whole_model import NOBODY
from models.tree import DraftTree
from storage import Store


def of_memory(drafter: Drafter, number: int) -> Drafter:
    return Drafter(msgspec.structs.replace(drafter.config, memory=f"{number:064x}"), drafter.text, NOBODY)


async def test_of_drafters_met_once_the_last_ones_are_kept_and_what_they_learnt_is_saved(
    drafter: Drafter, tmp_path: Path
) -> None:
    calibrations = Calibrations(tmp_path)
    tree = DraftTree(np.array([5], np.int32), np.array([-1], np.int32), log_probs=np.array([-0.1], np.float32))
    with Store.open(tmp_path / "outrider.db") as store:
        pool = DraftingPool(store, second_stage=False, calibrations=calibrations)
        first, *others = [of_memory(drafter, number) for number in range(2 * MOST_SHARED)]
        drafting, _ = pool.enter("first", first)
        drafting.learn(tree, [], 7)
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
