"""What a device keeps of its drafters: whether they are good enough, calibrations, and stored answers to guess by."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from app.config import Settings
from app.drafting.calibrations import Calibrations
from app.drafting.fitness import judge_unmeasured
from app.drafting.retrieval import Retrieval
from drafter.calibration import Calibration
from drafter.ngram import BREAK, save_datastore
from drafter.runtime import Drafter
from drafter.shelf import FIGURES, Drafters, kept
from models.config import DATASTORE, DrafterCorrupt, Measured, read_config, write_config
from models.tree import DraftTree
from storage import Store
from tests.support.checked_answers import answered
from tests.support.conversing import ask, assistant
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


# ---- stored answers, as the second stage finds them ------------------------------------------------------------------


def store_answer(store: Store, tokens: Sequence[int], said: str) -> None:
    conversation = store.conversations.create("stored").id
    question = store.messages.add(conversation, "user", "list files", parent_id=None, status="done")
    answer = store.messages.add(conversation, "assistant", "", parent_id=question.id, status="pending")
    store.messages.finish(answer.id, tokens, [False] * len(tokens), said, "done", {})


async def test_answers_are_read_oldest_first_and_again_when_there_are_more(drafter: Drafter, store: Store) -> None:
    opening, decode = drafter.text.answer_opening(), drafter.text.decode
    assert opening and drafter.text.render([("user", "show disk usage")])[-len(opening) :] == opening
    store_answer(store, [7, 8, 9], decode([7, 8, 9]))
    store_answer(store, [7, 5], decode([7, 5]))
    store_answer(store, [10, 11], "by another tokenizer")
    retrieval = Retrieval(drafter, store)
    assert retrieval.indices == ()
    retrieval.refresh()
    await retrieval.close()
    assert retrieval.indices[0].tokens.tolist() == [*opening, 7, 8, 9, BREAK, *opening, 7, 5, BREAK]
    store_answer(store, [6], decode([6]))
    retrieval.refresh()
    await retrieval.close()
    assert retrieval.indices[0].tokens.tolist()[-len(opening) - 2 :] == [*opening, 6, BREAK]


@pytest.fixture
def texts(tiny_pair: Path, tmp_path: Path) -> Path:
    """A drafter that brings texts of its own."""
    texts = shutil.copytree(tiny_pair / "drafter", tmp_path / "drafter")
    save_datastore(texts / DATASTORE, [[4, 5, 6], [7, 8]])
    write_config(texts, read_config(texts))
    return texts


async def test_a_damaged_datastore_costs_guesses_and_nothing_else(texts: Path, store: Store) -> None:
    (texts / DATASTORE).write_bytes(b"damaged")
    drafter = Drafter.load(texts)
    store_answer(store, [9], drafter.text.decode([9]))
    with pytest.raises(DrafterCorrupt, match="checksum"):
        drafter.datastore()
    retrieval = Retrieval(drafter, store)
    retrieval.refresh()
    await retrieval.close()
    assert retrieval.indices[0].tokens.tolist()[-2:] == [9, BREAK]


async def test_the_second_stage_changes_no_answer_and_is_counted(drafter: Drafter, tmp_path: Path) -> None:
    answers, guessed = [], []
    for second_stage in (True, False):
        settings = Settings(mode="offline", max_tokens=60, temperature=0.6, seed=3, second_stage=second_stage)
        async with assistant(drafter, tmp_path / f"{second_stage}.db", None, settings=settings) as opened:
            conversation = opened.store.conversations.create("twice").id
            heard = [await ask(opened, question, conversation) for question in ("list files", "and again")]
            heard.append(await ask(opened, "list files"))  # Asked before, in another conversation.
        answers.append([(one.text, one.done.token_ids) for one in heard])
        guessed.append([one.done.stats.second_stage for one in heard])
    assert answers[0] == answers[1]
    assert guessed[0][2] > 0 and guessed[1] == [0, 0, 0]
