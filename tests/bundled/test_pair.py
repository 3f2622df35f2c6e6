"""The pair that ships: as good as the README says, right on every example of the documents, and with its pages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import torch
from transformers import AutoModelForCausalLM

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET
from app.prompts import read_prompts
from benchmarks.everyday import read_questions
from drafter.model import MemoryEncoder, memory_digest
from drafter.runtime import Drafter
from models.config import read_config, write_config
from models.engines.engine import Engine
from models.engines.torch_engine import TorchEngine
from models.guide.pages import FILE
from models.guide.recipe import recipe_for
from models.tree import DraftTree
from remote.protocol import Sampling
from remote.verifier.making.measure import evenly, measure
from remote.verifier.sessions.acceptance import chooser, walk
from storage import Store
from tests.support.examples import EXAMPLES, Example, read_examples
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY
from tests.support.terminal import Terminal

HELD_OUT = Path(__file__).parents[1] / "data/heldout_pages.jsonl"
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def drafter() -> Drafter:
    return Drafter.load(BUNDLED_DRAFTER)


@pytest.fixture(scope="module")
def engine() -> Engine:
    model = AutoModelForCausalLM.from_pretrained(BUNDLED_TARGET, dtype=torch.float32)
    return TorchEngine(model, MemoryEncoder.load(BUNDLED_DRAFTER))


def answer(engine: Engine, drafter: Drafter, question: str, most: int = 100) -> str:
    """The target's own greedy answer."""
    context, stops = engine.context(), drafter.text.stop_tokens
    prompt = drafter.asked_as(question)
    context.assign(0, prompt)
    while len(context.tokens) < len(prompt) + most and context.tokens[-1] not in stops:
        logits = engine.verify(context, DraftTree.empty())
        choose = chooser(logits, Sampling())
        outcome = walk(DraftTree.empty(), choose, position=len(context.tokens), room=1, stop_tokens=stops)
        context.commit(DraftTree.empty(), outcome.accepted, outcome.bonus)
    return drafter.marks([question]).shown(drafter.text.decode(context.tokens[len(prompt) :]))


def test_the_halves_belong_together(engine: Engine) -> None:
    config = read_config(BUNDLED_DRAFTER)
    read_config(BUNDLED_DRAFTER, verify=tuple(config.files))
    assert (BUNDLED_DRAFTER / "tokenizer.json").read_bytes() == (BUNDLED_TARGET / "tokenizer.json").read_bytes()
    assert engine.encoder is not None
    assert memory_digest(engine.model.state_dict(), engine.encoder) == bytes.fromhex(config.memory)


def test_the_pair_is_small() -> None:
    sizes = {path: path.stat().st_size for folder in (BUNDLED_DRAFTER, BUNDLED_TARGET) for path in folder.iterdir()}
    assert sizes.pop(BUNDLED_DRAFTER / FILE) < 10 * MEGABYTE
    assert sum(sizes.values()) < 80 * MEGABYTE


def test_tau_on_held_out_pages(engine: Engine, drafter: Drafter) -> None:
    asked = [prompt.turns[0] for prompt in read_prompts(HELD_OUT)]
    prompts = [drafter.asked_as(question) for question in evenly(asked, 16)]
    tally = measure(engine, drafter, prompts)
    tau = sum(map(sum, tally.gained)) / sum(map(len, tally.gained))
    assert tau > 6.0  # 7.12 on 200 prompts.


def test_everyday_questions(engine: Engine, drafter: Drafter) -> None:
    questions = read_questions()[::4]
    right = sum(question.right(answer(engine, drafter, question.prompt)) for question in questions)
    assert right / len(questions) > 0.75  # 0.85 on all 120.


# ---- guided ----------------------------------------------------------------------------------------------------------


QUESTION = "extract a tar archive"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("guided")
    drafter = Path(shutil.copytree(BUNDLED_DRAFTER, folder / "drafter"))
    recipe = recipe_for(drafter)
    write_config(drafter, msgspec.structs.replace(read_config(drafter), prompt_recipe=recipe))
    return {**os.environ, "OUTRIDER_HOME": str(folder / "home"), "OUTRIDER_DRAFTER": str(drafter)}


def ask(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app.start", "ask", QUESTION, *options]
    return subprocess.run(
        command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    )


def test_an_answer_names_the_page_that_it_came_from(environment: dict[str, str]) -> None:
    said = json.loads(ask(environment, "--json", "--mode", "edge").stdout)
    assert "```sh\ntar x" in said["text"], said["text"]
    assert [(one["page"], one["platform"]) for one in said["sources"]] == [("tar", "common")]
    [database] = Path(environment["OUTRIDER_HOME"]).rglob("outrider.db")
    with Store.open(database) as store:
        answer = store.branches.thread(said["conversation"])[-1]
    assert answer.stats["sources"] == said["sources"]


def test_a_person_is_told_the_page_below_the_answer(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "app.start", "ask", "list the contents of a tar archive", "--mode", "offline"]
    with Terminal(command, environment=environment, folder=REPOSITORY) as terminal:
        terminal.wait_for("the page tar (tldr pages)")
        assert terminal.end() == 0


# ---- examples --------------------------------------------------------------------------------------------------------


BUNDLED = {"OUTRIDER_TEMPERATURE": "0", "OUTRIDER_REMOTE": "bundled"}


def answers(mode: str, home: Path) -> dict[str, str]:
    """The last answer to each example, as `outrider ask` gives it to somebody who has changed no setting."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    command = [sys.executable, "-m", "app.cli", "ask", "--mode", mode, "--prompts", str(EXAMPLES)]
    done = subprocess.run(
        command,
        env={**environment, **BUNDLED, "OUTRIDER_HOME": str(home)},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    # The answer of the last turn stays.
    return {row["id"]: row["text"] for row in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return answers("edge", tmp_path_factory.mktemp("verified"))


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return answers("offline", tmp_path_factory.mktemp("drafted"))


@pytest.mark.parametrize("example", read_examples(), ids=lambda example: example.id)
def test_with_the_verifier(example: Example, verified: dict[str, str]) -> None:
    assert example.problem(verified[example.id]) is None


@pytest.mark.parametrize("example", [one for one in read_examples() if one.offline], ids=lambda example: example.id)
def test_by_the_drafter_alone(example: Example, drafted: dict[str, str]) -> None:
    assert example.problem(drafted[example.id]) is None
