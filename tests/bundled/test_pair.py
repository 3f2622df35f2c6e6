"""The pair that ships: its halves belong together, and on a sample it is as good as the README says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET
from app.prompts import read_prompts
from benchmarks.everyday import read_questions
from drafter.model import MemoryEncoder, memory_digest
from drafter.runtime import Drafter
from models.config import read_config
from models.engines.engine import Engine
from models.engines.torch_engine import TorchEngine
from models.guide.pages import FILE
from models.tree import DraftTree
from remote.protocol import Sampling
from remote.verifier.acceptance import chooser, walk
from remote.verifier.measure import evenly, measure

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
