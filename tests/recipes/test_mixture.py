"""The conversations that Shell Guide learns from: what stands in them, what never does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from app.config import BUNDLED_TARGET as TARGET
from models.guide.names import MARKS, Marks
from recipes.shell_guide.everyday import normalise
from recipes.shell_guide.grammar.talk import read_talk
from recipes.shell_guide.index import main as write_index
from recipes.shell_guide.mixture import MISSED, Mixture
from recipes.shell_guide.train import AHEAD, Drawing, pack

pytestmark = pytest.mark.training

HELD_OUT = Path(__file__).parents[1] / "data/heldout_pages.jsonl"
DRAWS = 150
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


def test_the_index_holds_every_page_and_the_everyday_needs(files: tuple[Path, Path], mixture: Mixture) -> None:
    listed = [json.loads(line) for line in files[0].read_text(encoding="utf-8").splitlines()]
    assert all(mixture.pages.page(one["name"], one["platform"]) is not None for one in listed)
    assert mixture.pages.count > 2_000 + len(listed), "the everyday needs are in it"


def test_another_process_draws_the_same_batches_from_any_step_on(files: tuple[Path, Path], mixture: Mixture) -> None:
    encoder = AutoTokenizer.from_pretrained(TARGET)
    drawing = Drawing(*files, TARGET, seed=11, tokens=600, per_step=4)
    found = dict(drawing.batches(5, 5 + AHEAD + 2))
    assert list(found) == list(range(5, 5 + AHEAD + 2))
    for step, batch in found.items():
        torch.testing.assert_close(batch, pack(mixture, encoder, step, 600, 4))


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


def test_some_names_have_no_mark_the_same_ones_wherever_they_stand(mixture: Mixture) -> None:
    marks, missed, found = set(MARKS), 0, 0
    for index in range(DRAWS):
        plain, read = mixture.draw(index), mixture.read(index)
        assert [role for role, _ in plain] == [role for role, _ in read]
        for (role, before), (_, after) in zip(plain, read):
            if role != "user":
                continue
            assert "".join(letter for letter in after if letter not in marks) == before
            there = Marks(called=mixture.pages.called).found(before)
            found += len(there)
            missed += len(there) - sum(letter in marks for letter in after)
        seen = {letter for role, text in read if role == "user" for letter in text if letter in marks}
        said = {letter for role, text in read if role != "user" for letter in text if letter in marks}
        assert said <= seen, "an answer says no mark that no question has"
    assert found > 25 and abs(missed / found - MISSED) < 0.1
