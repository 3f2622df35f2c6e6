"""A drafter that is cut out of its target's layers: where it guesses badly, nobody uses, offers or makes it again."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import torch

from drafter.training.growth import RECIPE
from models.config import CONFIG, GRAPH, DrafterError, read_config
from remote.verifier.making.birth import BUDGET, CHECKPOINT
from remote.verifier.making.maker import GROWN, LOCK, PART, MakingProgress, MakingTask, kept_drafter, look_up
from remote.verifier.making.maker_worker import FILE, make, newborn
from remote.verifier.options import ServeOptions
from tests.support.tiny import random_target, save_target
from tests.support.tiny_text import train_tokenizer

pytestmark = pytest.mark.training

QUESTIONS = ("what is a tree", "how do I sort a list", "who are you", "and then", "say something", "why")
FLOOR = 1.09
"""Just above what the deep target's layers gain."""


LAYERS = 12


def write_deep_target(folder: Path) -> Path:
    """Write a target whose layers each add more than what comes in, so that little can be cut out of it.

    The tiny pair's is nearly a bigram table, and says about the same without its middle layers.
    """
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": LAYERS, "head_dim": 16}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, fast = random_target(train_tokenizer(), initializer_range=0.2, **shape)
    save_target(model, fast, folder)
    return folder


class Killed(Exception):
    """Ends the making of a drafter as a kill does."""


def task_for(target: Path, made: Path, learning: float = 0.0) -> MakingTask:
    out = kept_drafter(str(target), BUDGET, made)
    return MakingTask(str(target), str(out), f"{out}{PART}", BUDGET, QUESTIONS, learning=learning)


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `target` of many layers, a server's `home` that has its drafter, and what was `said` of it.

    `answered` has the work as it was once the answers were there.
    """
    folder = tmp_path_factory.mktemp("deep")
    task = task_for(write_deep_target(folder / "target"), folder / "home/data/drafters/made")

    def tell(progress: MakingProgress) -> None:
        if progress.stage == "layers":
            raise Killed

    with pytest.raises(Killed):
        newborn(task, tell)
    shutil.copytree(task.work, folder / "answered" / Path(task.work).name)
    outcome = make(task)
    assert not outcome.made
    (folder / "said").write_text(outcome.said)
    return folder


@pytest.fixture(scope="module")
def hasty() -> Iterator[pytest.MonkeyPatch]:
    """Little time between checkpoints, short talks, large steps, and a low floor."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"QUESTION": 4, "ANSWER": 12}.items():
            patch.setattr(f"drafter.training.self_talk.{name}", value)
        patch.setattr("drafter.training.growth.RECIPE", replace(RECIPE, rate=1e-2))
        patch.setattr("drafter.training.growth.AVERAGED", 0.95)
        for name, value in {"SAVED": 1.0, "MEASURED": 1, "PATIENCE": 20}.items():
            patch.setattr(f"remote.verifier.making.birth.{name}", value)
        patch.setattr("drafter.floors.LEAST_TAU", FLOOR)
        yield patch


@pytest.fixture(scope="module")
def learnt(deep: Path, hasty: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """What a kill leaves of a drafter that is just good enough, and the seconds in which it has learnt that."""
    made, told = Path(shutil.copytree(deep / "answered", tmp_path_factory.mktemp("learnt") / "made")), []

    def tell(progress: MakingProgress) -> None:
        told.append(progress)
        if progress.tau >= FLOOR:
            raise Killed

    with pytest.raises(Killed):
        newborn(task_for(deep / "target", made, 60.0), tell)
    return made, 60.0 - told[-1].left


@pytest.fixture
def killed(deep: Path, learnt: tuple[Path, float], tmp_path: Path) -> MakingTask:
    """A copy of that, which may learn for a moment more."""
    made, seconds = learnt
    return task_for(deep / "target", Path(shutil.copytree(made, tmp_path / "made")), seconds + 0.5)


def test_of_layers_that_matter_it_guesses_badly_and_only_its_figures_are_kept(deep: Path) -> None:
    (folder,) = (deep / "home/data/drafters/made").iterdir()
    config = read_config(folder)
    assert config.measured and config.measured.tau < 1.4 and config.measured.alone < 0.4
    assert [path.name for path in folder.iterdir()] == [CONFIG]
    said = (deep / "said").read_text()
    assert f"the drafter: 5 of {LAYERS} layers" in said and "It is not used: it gains 1." in said
    assert said.count(". ") == 1 and said.endswith("do not pay off."), "what it is, and one sentence why it is not used"
    found = look_up(ServeOptions(model=str(deep / "target"), made=folder.parent, budget=BUDGET))
    assert found.folder is None and not found.due, "it is not made again"


def test_what_guesses_badly_learns_over_a_kill_and_is_used_once_it_is_good_enough(killed: MakingTask) -> None:
    out, told = Path(killed.out), list[MakingProgress]()
    options = ServeOptions(model=killed.model, made=out.parent, budget=BUDGET)
    assert look_up(options).due, "it goes on at the next start"
    first = read_config(out).measured
    tau = newborn(killed, told.append).measured.tau
    assert {one.stage for one in told} == {"learning"} and told[0].left < 1.0
    assert first and FLOOR <= first.tau <= tau
    found = look_up(options)
    assert found.folder == out and not found.due
    assert {path.name for path in out.parent.iterdir()} == {out.name, f"{out.name}{LOCK}"}
    last = read_config(out, verify=(GRAPH,))
    assert last.measured and last.measured.tau == tau and last.steps > 0


def test_damaged_files_cost_only_what_was_in_them(killed: MakingTask) -> None:
    work, told = Path(killed.work), list[MakingProgress]()
    lines = (work / FILE).read_bytes().splitlines(keepends=True)
    (work / FILE).write_bytes(b"".join([*lines[:4], b"[[1, 2], \xff\0\n", *lines[5:]]))
    (work / CHECKPOINT).write_bytes((work / CHECKPOINT).read_bytes()[:-500])
    for folder in (killed.out, f"{killed.out}{GROWN}"):
        Path(folder, CONFIG).write_bytes(b"")
    newborn(msgspec.structs.replace(killed, learning=0.5), told.append)
    assert [one.done for one in told if one.stage == "answers"] == [5, 6]
    assert not work.exists() and read_config(Path(killed.out)).measured


def test_what_is_no_better_is_not_kept_and_learning_ends(
    hasty: pytest.MonkeyPatch, deep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drafter.training.growth.RECIPE", replace(RECIPE, rate=0.0))
    monkeypatch.setattr("remote.verifier.making.birth.SAVED", 0.1)
    monkeypatch.setattr("remote.verifier.making.birth.PATIENCE", 2)
    task, told = task_for(deep / "target", tmp_path / "made", 600.0), list[MakingProgress]()
    shutil.copytree(deep / "answered", tmp_path / "made")
    assert newborn(task, told.append).measured.tau < FLOOR
    assert [one.stage for one in told] == ["layers", "learning", "learning"]
    assert list((tmp_path / "made").iterdir()) == [Path(task.out)]


def test_the_work_for_another_drafter_is_never_gone_on_with(deep: Path, tiny_pair: Path, tmp_path: Path) -> None:
    (model := tmp_path / "model").symlink_to(deep / "target")
    task, told = task_for(model, tmp_path), list[int]()
    (grown := Path(f"{task.out}{GROWN}")).mkdir()

    def tell(progress: MakingProgress) -> None:
        told.append(progress.done)
        raise Killed

    with pytest.raises(Killed):
        newborn(task, tell)
    assert not grown.exists(), "nobody knows of which model it is"
    before = {file: file.read_bytes() for file in Path(task.work).iterdir()}
    for other in (
        msgspec.structs.replace(task, model=str(tiny_pair / "target")),
        msgspec.structs.replace(task, budget=BUDGET + 1),
        msgspec.structs.replace(task, template="{{ messages }}"),
    ):
        with pytest.raises(DrafterError, match=rf"{PART} has the work for another drafter"):
            newborn(other, tell)
        assert {file: file.read_bytes() for file in Path(task.work).iterdir()} == before
        assert not Path(task.out).exists()
    with pytest.raises(Killed):
        newborn(task, tell)
    assert told == [1, 2]
