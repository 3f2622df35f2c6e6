"""The pair that ships: as good as the README says, right on every example of the documents, and with its pages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.cli.own_server import MOST_MB, MOST_SESSIONS
from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET
from app.prompts import read_prompts
from app.remotes.own_server import OwnServer
from benchmarks.everyday import read_questions
from drafter.fitness import written_alone
from drafter.model import MemoryEncoder, memory_digest
from drafter.runtime import Drafter
from models.config import read_config
from models.cores import usable_cores
from models.engines.memory_encoder import ArrayEncoder
from models.engines.onnx_engine import OnnxEngine
from models.engines.target import load_target
from models.files import TARGET_GRAPH
from models.guide.pages import FILE
from remote.protocol import Card, decode
from remote.verifier.making.measure import evenly, measure
from storage import Store
from tests.support.examples import EXAMPLES, Example, read_examples
from tests.support.serving import REPOSITORY
from tests.support.terminal import Terminal

HELD_OUT = Path(__file__).parents[1] / "data/heldout_pages.jsonl"
MEGABYTE = 1 << 20
ROWS = [json.loads(line) for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
EVERYDAY = read_questions()[::8]


def test_the_halves_belong_together() -> None:
    config = read_config(BUNDLED_DRAFTER)
    read_config(BUNDLED_DRAFTER, verify=tuple(config.files))
    assert (BUNDLED_DRAFTER / "tokenizer.json").read_bytes() == (BUNDLED_TARGET / "tokenizer.json").read_bytes()
    target = load_target(str(BUNDLED_TARGET), device="cpu").model
    assert memory_digest(target.state_dict(), MemoryEncoder.load(BUNDLED_DRAFTER)) == config.memory_digest


def test_the_pair_is_small() -> None:
    sizes = {path: path.stat().st_size for folder in (BUNDLED_DRAFTER, BUNDLED_TARGET) for path in folder.iterdir()}
    assert sizes.pop(BUNDLED_DRAFTER / FILE) < 26 * MEGABYTE
    assert sum(sizes.values()) < 92 * MEGABYTE


async def test_the_server_on_this_device_keeps_whole_conversations_in_little_memory() -> None:
    server = OwnServer(str(BUNDLED_TARGET), str(BUNDLED_DRAFTER))
    try:
        async with httpx.AsyncClient(
            base_url=await server.url(), headers={"Authorization": f"Bearer {server.token}"}
        ) as client:
            metrics = dict(line.rsplit(" ", 1) for line in (await client.get("/metrics")).text.splitlines())
            card = decode((await client.get("/v1/card")).content, Card)
    finally:
        await server.close()
    assert float(metrics["outrider_max_cached_bytes"]) <= MOST_MB * MEGABYTE and card.limits.max_tokens == 2048
    assert float(metrics["outrider_max_sessions"]) == MOST_SESSIONS


def test_tau_on_held_out_pages() -> None:
    engine, drafter = OnnxEngine(BUNDLED_TARGET / TARGET_GRAPH, threads=usable_cores()), Drafter.load(BUNDLED_DRAFTER)
    engine.remember_with(ArrayEncoder.load(BUNDLED_DRAFTER))
    asked = [prompt.turns[0] for prompt in read_prompts(HELD_OUT)]
    tally = measure(engine, drafter, [drafter.asked_as(question) for question in evenly(asked, 8)])
    tau = sum(map(sum, tally.gained)) / sum(map(len, tally.gained))
    assert tau > 6.0  # 7.12 on 200 prompts.


# ---- its answers -----------------------------------------------------------------------------------------------------


def environment(home: Path) -> dict[str, str]:
    """That of somebody who has changed no setting."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    return {**others, "OUTRIDER_TEMPERATURE": "0", "OUTRIDER_REMOTE": "bundled", "OUTRIDER_HOME": str(home)}


def answers(home: Path, questions: list[dict[str, Any]]) -> dict[str, Any]:
    """The last answer of each conversation, by its id, as `outrider ask` gives it."""
    prompts = home / "prompts.jsonl"
    prompts.write_text("".join(json.dumps(one) + "\n" for one in questions))
    command = [sys.executable, "-m", "app.cli", "ask", "--mode", "edge", "--prompts", str(prompts)]
    done = subprocess.run(command, env=environment(home), capture_output=True, encoding="utf-8", timeout=600)
    assert done.returncode == 0, done.stderr
    return {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}


def problems(examples: list[Example], answers: dict[str, Any]) -> dict[str, str]:
    found = {one.id: one.problem(answers[one.id]["text"]) for one in examples}
    return {name: problem for name, problem in found.items() if problem is not None}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def verified(home: Path) -> dict[str, Any]:
    return answers(home, [*ROWS, *({"id": one.id, "prompt": one.prompt} for one in EVERYDAY)])


def test_examples(verified: dict[str, Any]) -> None:
    assert problems(read_examples(), verified) == {}


def test_the_drafter_alone() -> None:
    drafter = Drafter.load(BUNDLED_DRAFTER)
    for question, command in (("list hidden files", "ls -A"), ("How do I see the commit history?", "git log")):
        assert command in drafter.text.decode(written_alone(drafter, drafter.asked_as(question)))


def test_everyday_questions(verified: dict[str, Any]) -> None:
    right = sum(question.right(verified[question.id]["text"]) for question in EVERYDAY)
    assert right / len(EVERYDAY) > 0.75  # 0.83 on all 120.


def test_an_answer_names_the_page_that_it_came_from(verified: dict[str, Any], home: Path) -> None:
    said = verified["unpack"]
    assert [(one["page"], one["platform"]) for one in said["sources"]] == [("tar", "common")]
    [database] = home.rglob("outrider.db")
    with Store.open(database) as store:
        stored = store.messages.recent_answers(10**6)
    assert said["sources"] in [answer.stats.get("sources") for answer in stored if answer.text == said["text"]]


def test_a_person_is_told_the_page_below_the_answer(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "app.start", "ask", "list the contents of a tar archive"]
    with Terminal(command, environment=environment(tmp_path), folder=REPOSITORY) as terminal:
        terminal.wait_for("the page tar (tldr pages)")
        assert terminal.end() == 0
