"""`outrider learn`, `drafter history` and `drafter rollback`, as scripts see them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from app.battery import on_battery
from drafter.learning.versions import Version, Versions
from drafter.step import Correction
from drafter.training.pipeline import requantise
from models.config import CONFIG, GRAPH, read_config
from storage import Store
from storage.owner import try_lock
from tests.support.commands import Outrider, answer_many
from tests.support.learnable import distinct_norms
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY, VerifierProcess

pytestmark = pytest.mark.training


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "12")
    monkeypatch.setattr(os, "nice", lambda by: by)


LEARNT = Version(
    number=0, created="2030-01-02T00:00:00+00:00", state="not better", answers=31, tokens=900, tau_before=3.0,
    tau_after=3.5, low=0.1, high=0.2, fixed=0.0, seconds=1.0,
)  # fmt: skip


def publish(home: Path, tiny_pair: Path, count: int = 1) -> Versions:
    """Put versions that guess wrong in use."""
    config = read_config(tiny_pair / "drafter")
    versions, random = Versions.of(home / "data/drafters/learnt", config), np.random.default_rng(0)
    kept = len(config.draft_vocabulary) or config.vocabulary
    for _ in range(count):
        down, up = random.normal(size=(config.hidden, 2)), random.normal(size=(2, kept))
        versions.publish(LEARNT, Correction(down.astype(np.float32), up.astype(np.float32)))
    return versions


def test_it_says_that_there_is_too_little_and_learns_when_there_is_enough(
    outrider: Outrider, verifier: VerifierProcess, home: Path, tiny_pair: Path, tmp_path: Path
) -> None:
    assert outrider("ask", "hello there", "--remote", verifier.url).code == 0
    few = outrider("learn")
    assert few.code == 0 and "only 1 of the 30 checked answers that learning needs" in few.err and few.out == ""
    publish(home, tiny_pair)
    answer_many(outrider, verifier.url, 30, tmp_path)
    learnt = outrider("learn")
    assert learnt.code == 0 and "tokens a round" in learnt.out and "31 answers" in learnt.out
    again = outrider("learn")
    assert (again.code, again.out) == (0, ""), "nothing is new"
    history = outrider("drafter", "history").out.splitlines()
    assert len(history) == 2 and "older" in history[0] and "in use" in history[1]


def test_the_layers_of_a_drafter_learn_too(
    outrider: Outrider, verifier: VerifierProcess, home: Path, tiny_pair: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    own = Path(shutil.copytree(tiny_pair / "drafter", tmp_path / "drafter"))
    distinct_norms(own)
    requantise(own, "int8")
    monkeypatch.setenv("OUTRIDER_DRAFTER", str(own))
    answer_many(outrider, verifier.url, 30, tmp_path)
    deep = outrider("learn", "--deep")
    assert deep.code == 0 and "30 answers" in deep.out, deep.err
    versions = Versions.of(home / "data/drafters/learnt", read_config(own))
    tried = versions.all()
    assert [one.deep for one in tried] == [True] and not list(versions.folder.glob(".*"))
    assert outrider("learn", "--deep").out == "", "nothing is new"
    # Whatever was better: an answer is drafted with the graph of the version in use, and is the same.
    before = outrider("ask", "what is it", "--remote", verifier.url).out
    (versions.folder / "new").write_bytes((own / GRAPH).read_bytes())
    used = versions.publish(
        msgspec.structs.replace(tried[0], messages=tried[0].messages[:9]), None, versions.folder / "new"
    )
    after = outrider("ask", "what is it", "--remote", verifier.url, "--json").json
    assert after["text"].strip() == before.strip()
    with Store.open(home / "data/outrider.db") as store:
        assert store.branches.thread(after["conversation"])[-1].stats["learnt"] == used.number


def test_a_version_is_taken_back(outrider: Outrider, home: Path, tiny_pair: Path) -> None:
    versions = publish(home, tiny_pair, 2)
    assert outrider("drafter", "rollback").says(0, "version 2 is rolled back; the small model drafts with version 1")
    assert versions.in_use is not None and versions.in_use.number == 1
    assert "the small model drafts in its original version" in outrider("drafter", "rollback").err
    assert outrider("drafter", "rollback").says(1, "no version is in use")


def test_forgetting_leaves_no_trace(outrider: Outrider, verifier: VerifierProcess, home: Path, tiny_pair: Path) -> None:
    assert outrider("ask", "hello there", "--remote", verifier.url).code == 0
    versions = publish(home, tiny_pair)
    digest = read_config(tiny_pair / "drafter").memory_digest
    with Store.open(home / "data/outrider.db") as store:
        (replay,) = store.replays.all(digest, 9)
    told = replay.distributions
    assert len(told) > 100 and any(path.is_file() and told in path.read_bytes() for path in home.rglob("*"))
    weights = (versions.folder / "version-1.npz").read_bytes()[200:400]
    assert outrider("learn", "--forget").code == 0
    with Store.open(home / "data/outrider.db") as store:
        assert store.replays.all(digest, 9) == [] and store.conversations.all(), "the conversation stays"
    for path in home.rglob("*"):
        assert "learnt" not in path.name and not (path.is_file() and weights in path.read_bytes())
        # A page of the database holds all of it, or the first part of it.
        assert not (path.is_file() and told[:100] in path.read_bytes())
    assert outrider("drafter", "history").out == ""


def test_killed_while_it_learns_the_old_version_drafts_on(
    outrider: Outrider, verifier: VerifierProcess, home: Path, tiny_pair: Path, tmp_path: Path
) -> None:
    answer_many(outrider, verifier.url, 30, tmp_path)
    versions = publish(home, tiny_pair)
    lock = home / "data/drafters/learnt/lock"
    for after in (0.0, 0.2):
        lock.unlink(missing_ok=True)
        command = [sys.executable, "-m", "app.cli", "learn"]
        with subprocess.Popen(command, cwd=REPOSITORY, env={**os.environ, "OUTRIDER_HOME": str(home)}) as learning:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not lock.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(after)
            learning.kill()
        used = versions.in_use
        assert used is not None and used.number in (1, 2), after
        assert versions.load(used, read_config(tiny_pair / "drafter")).up.any(), after
    assert outrider("ask", "what is it", "--remote", verifier.url).code == 0
    assert outrider("learn").code == 0, "nobody holds the lock any more"
    assert versions.all()[-1].number >= 2, "it learnt to the end"


def test_one_switch_turns_it_off_and_two_do_not_learn_at_once(
    outrider: Outrider, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = home / "data/drafters/learnt/lock"
    lock.parent.mkdir(parents=True)
    with lock.open("ab") as file:
        assert try_lock(file)
        assert outrider("learn").says(1, "another `outrider learn` is running")
    monkeypatch.setenv("OUTRIDER_LEARN", "false")
    assert outrider("learn").says(1, "learn = false")


def test_deep_learning_without_pytorch_is_refused(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else found(name))
    for options in ([], ["--watch"]):
        ran = outrider("learn", "--deep", *options)
        assert ran.says(1, "needs PyTorch") and "pip install" in ran.err


def test_a_small_model_whose_files_are_broken_is_no_success(outrider: Outrider, tiny_pair: Path, home: Path) -> None:
    broken = shutil.copytree(tiny_pair / "drafter", home / "data/drafters/made/one")
    (broken / CONFIG).write_text("{")
    assert outrider("learn").says(1, "one")


def test_a_battery_is_known_by_what_linux_says_of_the_mains(tmp_path: Path) -> None:
    for number, (online, expected) in enumerate([("", False), ("1", False), ("0", True), ("01", False), ("00", True)]):
        supplies = tmp_path / str(number)
        supplies.mkdir()
        for at, said in enumerate(online):
            (supplies / f"AC{at}").mkdir()
            (supplies / f"AC{at}/online").write_text(f"{said}\n")
        assert on_battery(supplies) == expected
