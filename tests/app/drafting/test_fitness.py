"""A drafter without figures is measured by the answers on its device, and kept or retired. Calibrations are kept."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from app.drafting.calibrations import Calibrations
from app.drafting.fitness import judge_unmeasured
from app.drafting.pool import MOST_SHARED, OPEN_CONVERSATIONS, DraftingPool
from drafter.calibration import Calibration
from drafter.runtime import Drafter
from drafter.shelf import FIGURES, Drafters, kept
from drafter.whole_model import NOBODY
from models.config import Measured, read_config
from models.tree import DraftTree
from storage import Store
from tests.support.checked_answers import answered
from tests.support.figures import GOOD, on_shelf


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    return tmp_path / "shelf"


@pytest.fixture
def drafters(drafter: Drafter, shelf: Path) -> Drafters:
    """A shelf beside a drafter for another model, as the settings name it."""
    config = msgspec.structs.replace(drafter.config, memory=bytes(16).hex())
    return Drafters(Drafter(config, drafter.text, drafter._step), shelf)


@pytest.fixture
def folder(tiny_pair: Path, shelf: Path) -> Path:
    """One without figures on that shelf."""
    return on_shelf(tiny_pair / "drafter", shelf, None)


@pytest.mark.parametrize("well", [True, False])
def test_answers_keep_or_retire(folder: Path, drafter: Drafter, drafters: Drafters, store: Store, well: bool) -> None:
    before = (folder / "config.json").read_bytes()
    assert not drafters.has(drafter.memory_digest) and drafters.of_memory(drafter.memory_digest) is None
    answered(store, drafter, well=well)
    ((judged),) = judge_unmeasured(store, drafters, lambda: False)
    measured = judged.config.measured
    assert isinstance(measured, Measured) and (measured.alone == 1.0) == well and (measured.alone < 0.2) == (not well)
    assert drafters.has(drafter.memory_digest) == well and drafters.unmeasured() == []
    assert (drafters.of_memory(drafter.memory_digest) is not None) == well
    assert (judged.news is None) == well and (folder / "config.json").read_bytes() == before
    ((_, config),) = kept(folder.parent)
    assert config.measured == measured, "it is known at the next start"
    if judged.news is not None:
        assert "do not pay" in judged.news[1] and f"outrider drafter rm {folder.name[:12]}" in judged.news[1]
    (folder.parent / FIGURES).write_text("{")
    assert len(drafters.unmeasured()) == 1, "what cannot be read is measured again"


def test_without_answers_it_says_what_to_do(folder: Path, drafter: Drafter, drafters: Drafters, store: Store) -> None:
    answered(store, drafter, well=True, temperature=0.7)
    (judged,) = judge_unmeasured(store, drafters, lambda: False)
    assert judged.news is not None and "never measured" in judged.news[1]
    assert "outrider drafter fetch NAME" in judged.news[1]
    (folder / "origins.json").write_text('["http://gpu:8000"]')
    assert judged.news is not None and "outrider drafter fetch http://gpu:8000" in judged.news[1]
    assert not drafters.has(drafter.memory_digest) and drafters.unmeasured()


def test_one_with_figures_is_not_measured_and_one_that_is_halted_is_measured_later(
    tiny_pair: Path, drafter: Drafter, drafters: Drafters, store: Store, shelf: Path
) -> None:
    good = on_shelf(tiny_pair / "drafter", shelf, GOOD)
    assert judge_unmeasured(store, drafters, lambda: False) == []
    assert drafters.has(drafter.memory_digest) and read_config(good).measured == Measured(**GOOD)
    on_shelf(tiny_pair / "drafter", shelf, None)
    answered(store, drafter, well=True)
    assert judge_unmeasured(store, drafters, lambda: True) == [] and len(drafters.unmeasured()) == 1
    assert drafters.has(drafter.memory_digest), "the one with figures is used meanwhile"


# ---- calibrations survive a restart, each version has its own, and few are in memory ---------------------------------


TREE = DraftTree(np.array([5], np.int32), np.array([-1], np.int32), log_probs=np.array([-0.1], np.float32))


def experienced() -> Calibration:
    """One that has seen guesses refused."""
    calibration = Calibration()
    for _ in range(20):
        calibration.learn(TREE, [], 7)
    assert calibration.dump() != Calibration().dump()
    return calibration


def test_it_survives_a_restart_and_a_version_has_its_own(tiny_pair: Path, tmp_path: Path) -> None:
    own, calibration = Drafter.load(tiny_pair / "drafter"), experienced()
    Calibrations(tmp_path).save(own, calibration)
    np.testing.assert_allclose(Calibrations(tmp_path).load(own).dump(), calibration.dump())
    own.correct(None, 3)
    assert Calibrations(tmp_path).load(own).dump() == Calibration().dump()


def test_a_damaged_file_is_done_without_and_none_is_written_of_nothing(drafter: Drafter, tmp_path: Path) -> None:
    calibrations = Calibrations(tmp_path)
    Calibrations(None).save(drafter, experienced())
    calibrations.save(drafter, Calibration())
    assert list(tmp_path.iterdir()) == []
    calibrations.save(drafter, experienced())
    (file,) = tmp_path.iterdir()
    for text in ("{", "[1, 2]", "[" + "0, " * 13 + "0]"):
        file.write_text(text)
        assert calibrations.load(drafter).dump() == Calibration().dump()


def of_memory(drafter: Drafter, number: int) -> Drafter:
    return Drafter(msgspec.structs.replace(drafter.config, memory=f"{number:064x}"), drafter.text, NOBODY)


async def test_the_last_drafters_and_what_they_learnt_are_kept(drafter: Drafter, store: Store, tmp_path: Path) -> None:
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
