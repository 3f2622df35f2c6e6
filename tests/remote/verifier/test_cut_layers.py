"""A drafter that is cut out of its target's layers: where it guesses badly, nobody uses, offers or makes it again."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest

from drafter.training.growth import RECIPE
from models.config import CONFIG, GRAPH, DrafterError, read_config
from remote.protocol import Card, decode
from remote.verifier.making.birth import BUDGET, CHECKPOINT
from remote.verifier.making.maker import (
    GROWN,
    LOCK,
    PART,
    QUIET_SECONDS,
    MakingProgress,
    MakingTask,
    kept_drafter,
    look_up,
)
from remote.verifier.making.maker_worker import FILE, make, newborn
from remote.verifier.options import ServeOptions
from storage import Store
from tests.support.deep import LAYERS, write_deep_target
from tests.support.made_once import made_once
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY, VerifierProcess

QUESTIONS = ("what is a tree", "how do I sort a list", "who are you", "and then", "say something", "why")


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `target` of many layers, a server's `home` that has its drafter, and what was `said` of it."""

    def write(folder: Path) -> None:
        target = str(write_deep_target(folder / "target"))
        kept = kept_drafter(target, BUDGET, folder / "home/data/drafters/made")
        outcome = make(MakingTask(target, str(kept), f"{kept}.part", BUDGET, QUESTIONS))
        assert not outcome.made
        (folder / "said").write_text(outcome.said)

    return made_once(tmp_path_factory, "deep", write)


def only_folder(home: Path) -> Path:
    (folder,) = (path for path in (home / "data/drafters/made").iterdir() if path.is_dir())
    return folder


def test_of_layers_that_matter_it_guesses_badly_and_only_its_figures_are_kept(deep: Path) -> None:
    folder = only_folder(deep / "home")
    config = read_config(folder)
    assert config.measured and config.measured.tau < 1.4 and config.measured.alone < 0.4
    assert [path.name for path in folder.iterdir()] == [CONFIG]
    said = (deep / "said").read_text()
    assert f"the drafter: 5 of {LAYERS} layers" in said and "It is not used: it gains 1." in said
    assert said.count(". ") == 1 and said.endswith("do not pay."), "what it is, and one sentence why it is not used"


def test_the_server_does_without_it_says_why_once_and_does_not_make_it_again(
    deep: Path, tiny_pair: Path, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    with VerifierProcess(tiny_pair, model=deep / "target", home=deep / "home", said=said) as serving:
        with httpx.Client(base_url=serving.url, timeout=PATIENCE_SECONDS, trust_env=False) as client:
            question = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
            client.post("/v1/chat/completions", json=question).raise_for_status()
            time.sleep(2 * QUIET_SECONDS)  # A drafter is made when nobody has asked for a while.
            card = decode(client.get("/v1/card").content, Card)
        assert serving.interrupt() == 0
    assert card.drafter is None and card.memory is None and not card.drafts
    lines = said.read_text().splitlines()
    (line,) = [line for line in lines if "drafter" in line or "no drafts" in line]
    assert "no drafts: one was made of the model's own layers, and it gains 1." in line and "do not pay" in line
    assert [path.name for path in only_folder(deep / "home").iterdir()] == [CONFIG]


class Killed(Exception):
    """Ends the making of a drafter as a kill does."""


def learning(target: Path, out: Path, seconds: float, kill_at: int = -1) -> tuple[float, list[MakingProgress]]:
    """Make a drafter that learns. Returns tau in the end, and what was told. `kill_at`: the line of learning."""
    told: list[MakingProgress] = []

    def tell(progress: MakingProgress) -> None:
        told.append(progress)
        if [one.stage for one in told].count("learning") == kill_at:
            raise Killed

    task = MakingTask(str(target), str(out), f"{out}{PART}", BUDGET, QUESTIONS, learning=seconds)
    with contextlib.suppress(Killed):
        return newborn(task, tell).measured.tau, told
    return 0.0, told


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Few seconds between checkpoints, short talks, and a floor just above what the deep target's layers gain."""
    for name, value in {
        "drafter.training.self_talk.QUESTION": 8,
        "drafter.training.self_talk.ANSWER": 24,
        "remote.verifier.making.birth.SAVED": 1.0,
        "remote.verifier.making.birth.MEASURED": 1,
        "drafter.floors.LEAST_TAU": 1.09,
    }.items():
        monkeypatch.setattr(name, value)
    return monkeypatch


def test_what_guesses_badly_learns_over_a_kill_and_is_used_once_it_is_good_enough(
    hasty: pytest.MonkeyPatch, deep: Path, tmp_path: Path
) -> None:
    options = ServeOptions(model=str(deep / "target"), made=tmp_path, budget=BUDGET)
    out = kept_drafter(options.model, BUDGET, tmp_path)
    assert out is not None
    learning(deep / "target", out, 60.0, kill_at=3)
    found = look_up(options)
    assert found.due, "it goes on at the next start"
    tau, told = learning(deep / "target", out, 8.0)
    assert "layers" not in {one.stage for one in told} and told[0].left < 8.0 - 2.0
    first = read_config(out).measured
    assert first and first.tau <= tau and tau >= 1.09
    found = look_up(options)
    assert found.folder == out and not found.due
    assert {path.name for path in tmp_path.iterdir()} == {out.name, f"{out.name}{LOCK}"}
    last = read_config(out, verify=(GRAPH,))
    assert last.measured and last.measured.tau == tau and last.steps > 0


def test_damaged_files_cost_only_what_was_in_them(hasty: pytest.MonkeyPatch, deep: Path, tmp_path: Path) -> None:
    out, work = tmp_path / "out", tmp_path / f"out{PART}"
    learning(deep / "target", out, 60.0, kill_at=3)
    lines = (work / FILE).read_bytes().splitlines(keepends=True)
    (work / FILE).write_bytes(b"".join([*lines[:2], b"[[1, 2], \xff\0\n", *lines[3:]]))
    (work / CHECKPOINT).write_bytes((work / CHECKPOINT).read_bytes()[:-500])
    for folder in (out, tmp_path / f"out{GROWN}"):
        folder.mkdir(exist_ok=True)
        (folder / CONFIG).write_bytes(b"")
    tau, told = learning(deep / "target", out, 2.0)
    assert [one.done for one in told if one.stage == "answers"] == [3, 4, 5, 6]
    assert not work.exists() and read_config(out).measured and tau > 0


def test_the_work_for_another_drafter_is_never_gone_on_with(deep: Path, tiny_pair: Path, tmp_path: Path) -> None:
    model, out, told = tmp_path / "model", tmp_path / "out", list[MakingProgress]()
    model.symlink_to(deep / "target")
    (grown := tmp_path / f"out{GROWN}").mkdir()
    task = MakingTask(str(model), str(out), f"{out}{PART}", BUDGET, QUESTIONS)

    def tell(progress: MakingProgress) -> None:
        told.append(progress)
        if progress.done % 3 == 2:
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
        with pytest.raises(DrafterError, match=rf"out{PART} has the work for another drafter"):
            newborn(other, tell)
        assert {file: file.read_bytes() for file in Path(task.work).iterdir()} == before and not out.exists()
    with pytest.raises(Killed):
        newborn(task, tell)
    assert [one.done for one in told] == [1, 2, 3, 4, 5]


def test_what_is_no_better_is_not_kept_and_learning_ends(hasty: pytest.MonkeyPatch, deep: Path, tmp_path: Path) -> None:
    hasty.setattr("drafter.training.growth.RECIPE", replace(RECIPE, rate=0.0))
    hasty.setattr("remote.verifier.making.birth.SAVED", 0.1)
    tau, told = learning(deep / "target", tmp_path / "out", 600.0)
    assert tau < 1.09 and [one.stage for one in told].count("learning") == 3
    assert not (tmp_path / f"out{GROWN}").exists() and not (tmp_path / f"out{PART}").exists()


def test_what_stays_too_bad_leaves_its_figures(hasty: pytest.MonkeyPatch, deep: Path, tmp_path: Path) -> None:
    hasty.setattr("drafter.floors.LEAST_TAU", 1.5)
    task = MakingTask(
        str(deep / "target"), str(tmp_path / "out"), str(tmp_path / "work"), BUDGET, QUESTIONS, learning=6
    )
    assert not make(task).made
    config = read_config(tmp_path / "out")
    before = read_config(only_folder(deep / "home")).measured
    assert config.measured and before and before.tau < config.measured.tau and config.steps > 0
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == [Path("out"), Path("out", CONFIG)]


@pytest.mark.faults
def test_killed_in_mid_answer_nothing_is_appended(deep: Path, tiny_pair: Path, tmp_path: Path) -> None:
    """Neither the server's drafter writes on, nor the one of the settings, which was made for another model."""
    home, question = tmp_path / "device", "what is a tree"
    with VerifierProcess(tiny_pair, model=deep / "target", home=deep / "home") as serving:
        settings = {"OUTRIDER_HOME": str(home), "OUTRIDER_DRAFTER": str(tiny_pair / "drafter"), "HOME": str(home)}
        command = [sys.executable, "-m", "app.cli", "ask", "--remote", serving.url, "--max-tokens", "900", question]
        asking = subprocess.Popen(
            command, env=os.environ | settings, cwd=REPOSITORY, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            ends = time.monotonic() + PATIENCE_SECONDS
            while len(answer_in(home)[0]) < 40 and time.monotonic() < ends:
                time.sleep(0.02)
            serving.kill()
            out, talk = asking.communicate(timeout=PATIENCE_SECONDS)
        finally:
            asking.kill()
            asking.communicate()
    text, provenance = answer_in(home)
    assert asking.returncode == 3
    assert "No small model on this device was made for that server's model, and no other model answers" in talk
    assert len(text) >= 40 and out.strip() == text.strip() and len(provenance) < 900 and all(provenance)


def answer_in(home: Path) -> tuple[str, list[bool]]:
    """What is stored of the only answer of a device, and who wrote which token."""
    if not (home / "data/outrider.db").is_file():
        return "", []
    with Store.open(home / "data/outrider.db") as store:
        found = store.conversations.recent(1)
        thread = store.branches.thread(found[0].id) if found else []
    if len(thread) < 2:
        return "", []
    return thread[-1].text, list(thread[-1].provenance)
