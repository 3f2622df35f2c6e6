"""A drafter that is cut out of its target's layers: where it guesses badly, nobody uses, offers or makes it again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from models.config import CONFIG, read_config
from remote.protocol import Card, decode
from remote.verifier.making.birth import BUDGET
from remote.verifier.making.maker import QUIET_SECONDS, MakingTask, kept_drafter
from remote.verifier.making.maker_worker import make
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
    (folder,) = (home / "data/drafters/made").iterdir()
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
