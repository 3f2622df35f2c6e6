"""The conversations that Shell Guide learns from: what stands in them, what never does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from benchmarks.exactness import TARGET
from recipes.shell_guide.conversations import evaluation_questions
from recipes.shell_guide.everyday import normalise
from recipes.shell_guide.grammar.talk import read_talk
from recipes.shell_guide.index import main as write_index
from recipes.shell_guide.mixture import Mixture
from recipes.shell_guide.train import AHEAD, Drawing, pack

pytestmark = pytest.mark.training

HELD_OUT = Path(__file__).parents[1] / "data/heldout_pages.jsonl"
DRAWS = 400
PAGE = {
    "platform": "common",
    "name": "frobnicate",
    "alias": False,
    "translations": 3,
    "description": "Frobnicates.",
    "examples": [
        {"task": "Frobnicate a file:", "command": "frobnicate file"},
        {"task": "Stop it:", "command": "frobnicate -s"},
    ],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, Path]:
    """Pages, and their index."""
    folder = tmp_path_factory.mktemp("mixture")
    pages, index = folder / "pages.jsonl", folder / "pages.db"
    pages.write_text(f"{json.dumps(PAGE)}\n{HELD_OUT.read_text(encoding='utf-8')}", encoding="utf-8")
    write_index(["--pages", str(pages), "--out", str(index)])
    return pages, index


@pytest.fixture(scope="module")
def mixture(files: tuple[Path, Path]) -> Mixture:
    return Mixture(*files, seed=11)


@pytest.fixture(scope="module")
def drawn(mixture: Mixture) -> list[list[tuple[str, str]]]:
    return [mixture.draw(index) for index in range(DRAWS)]


def test_a_conversation_depends_on_its_number_alone(mixture: Mixture, drawn) -> None:
    assert [mixture.draw(index) for index in (0, 17, DRAWS - 1)] == [drawn[0], drawn[17], drawn[-1]]


def test_another_process_draws_the_same_batches_from_any_step_on(files: tuple[Path, Path], mixture: Mixture) -> None:
    encoder = AutoTokenizer.from_pretrained(TARGET)
    drawing = Drawing(*files, TARGET, seed=11, tokens=600, per_step=4)
    found = dict(drawing.batches(5, 5 + AHEAD + 2))
    assert list(found) == list(range(5, 5 + AHEAD + 2))
    for step, batch in found.items():
        torch.testing.assert_close(batch, pack(mixture, encoder, step, 600, 4))


def test_each_question_has_its_pages_before_it_and_its_answer_after_it(drawn) -> None:
    for messages in drawn:
        assert [role for role, _ in messages] == ["system", "user", "assistant"] * (len(messages) // 3)


def test_most_prompts_hold_examples_and_some_hold_none(drawn) -> None:
    prompts = [text for messages in drawn for role, text in messages if role == "system"]
    bare = sum("\n" not in text for text in prompts) / len(prompts)
    assert 0.02 < bare < 0.5


def test_no_question_is_one_that_the_target_is_measured_on(drawn) -> None:
    asked = {normalise(text) for messages in drawn for role, text in messages if role == "user"}
    assert len(evaluation_questions()) > 600
    assert not asked & evaluation_questions()


def test_a_question_of_a_measure_is_drawn_again(mixture: Mixture, monkeypatch: pytest.MonkeyPatch) -> None:
    first = mixture.draw(3)[1][1]
    monkeypatch.setattr(mixture.everyday, "_excluded", {normalise(first)})
    assert normalise(mixture.draw(3)[1][1]) != normalise(first)


def test_remarks_get_no_command(drawn) -> None:
    replies = {answer.split("{")[0] for talk in read_talk() for answer in talk.answers}
    said = [text for messages in drawn for role, text in messages if role == "assistant"]
    short = [text for text in said if any(text.startswith(reply) for reply in replies)]
    assert len(short) > DRAWS / 20
    assert not [text for text in short if "```" in text]


def test_a_program_that_exists_is_never_called_unknown(mixture: Mixture, drawn) -> None:
    known = mixture.pages.programs()
    for messages in drawn:
        for role, text in messages:
            if role == "assistant" and text.startswith("I know no program"):
                assert text.split("`")[1] not in known
