"""A drafter without figures is measured by the answers on its device, and kept or retired."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from app.drafting.fitness import judge_unmeasured
from drafter.fitness import measure_alone, repeated
from drafter.runtime import Drafter
from drafter.shelf import FIGURES, Drafters, kept
from models.config import Measured, read_config
from storage import Store
from tests.support.checked_answers import answered, own_words
from tests.support.figures import GOOD, on_shelf


@pytest.fixture
def drafters(drafter: Drafter, tmp_path: Path) -> Drafters:
    """A shelf beside a drafter for another model, as the settings name it."""
    config = msgspec.structs.replace(drafter.config, memory=bytes(16).hex())
    return Drafters(Drafter(config, drafter.text, drafter._step), tmp_path / "shelf")


@pytest.mark.parametrize("well", [True, False])
def test_it_is_kept_or_retired_by_the_answers_of_its_model(
    tiny_pair: Path, drafter: Drafter, drafters: Drafters, store: Store, tmp_path: Path, well: bool
) -> None:
    folder = on_shelf(tiny_pair / "drafter", tmp_path / "shelf", None)
    before = (folder / "config.json").read_bytes()
    assert not drafters.has(drafter.memory_digest) and drafters.of_memory(drafter.memory_digest) is None
    answered(store, drafter, well=well)
    ((judged),) = judge_unmeasured(store, drafters, lambda: False)
    measured = judged.config.measured
    assert isinstance(measured, Measured) and (measured.alone == 1.0) == well and (measured.alone < 0.2) == (not well)
    assert drafters.has(drafter.memory_digest) == well and drafters.unmeasured() == []
    assert (drafters.of_memory(drafter.memory_digest) is not None) == well
    assert (judged.news is None) == well and (folder / "config.json").read_bytes() == before
    ((_, config),) = kept(tmp_path / "shelf")
    assert config.measured == measured, "it is known at the next start"
    if judged.news is not None:
        assert "do not pay" in judged.news[1] and f"outrider drafter rm {folder.name[:12]}" in judged.news[1]
    (tmp_path / "shelf" / FIGURES).write_text("{")
    assert len(drafters.unmeasured()) == 1, "what cannot be read is measured again"


def test_without_answers_it_stays_unused_and_the_person_is_told_what_to_do(
    tiny_pair: Path, drafter: Drafter, drafters: Drafters, store: Store, tmp_path: Path
) -> None:
    folder = on_shelf(tiny_pair / "drafter", tmp_path / "shelf", None)
    answered(store, drafter, well=True, temperature=0.7)
    (judged,) = judge_unmeasured(store, drafters, lambda: False)
    assert judged.news is not None and "never measured" in judged.news[1]
    assert "outrider drafter fetch NAME" in judged.news[1]
    (folder / "origins.json").write_text('["http://gpu:8000"]')
    assert judged.news is not None and "outrider drafter fetch http://gpu:8000" in judged.news[1]
    assert not drafters.has(drafter.memory_digest) and drafters.unmeasured()


def test_one_with_figures_is_not_measured_and_one_that_is_halted_is_measured_later(
    tiny_pair: Path, drafter: Drafter, drafters: Drafters, store: Store, tmp_path: Path
) -> None:
    good = on_shelf(tiny_pair / "drafter", tmp_path / "shelf", GOOD)
    assert judge_unmeasured(store, drafters, lambda: False) == []
    assert drafters.has(drafter.memory_digest) and read_config(good).measured == Measured(**GOOD)
    on_shelf(tiny_pair / "drafter", tmp_path / "shelf", None)
    answered(store, drafter, well=True)
    assert judge_unmeasured(store, drafters, lambda: True) == [] and len(drafters.unmeasured()) == 1
    assert drafters.has(drafter.memory_digest), "the one with figures is used meanwhile"


def test_what_is_counted(drafter: Drafter) -> None:
    assert measure_alone(drafter, []) is None
    prompt = drafter.asked_as("hello")
    words = own_words(drafter, prompt, 60)
    wrong = [word if at % 3 else 5 for at, word in enumerate(words)]
    few = measure_alone(drafter, [(prompt, words[:20])])
    whole = measure_alone(drafter, [(prompt, words)])
    worse = measure_alone(drafter, [(prompt, wrong)])
    assert few is None and whole is not None and worse is not None
    assert whole.alone == 1.0 and whole.tau == 60.0
    assert worse.alone < 0.7 and worse.tau == pytest.approx(1 / (1 - worse.alone))
    assert sum(repeated([1, 2, 3, 4, 1, 2, 3, 4])) == 1 and repeated([1, 2, 3]) == []
