"""The conversations that Shell Guide learns from: what stands in them, what never does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.bundled import DRAFTER
from models.guide.pages import FILE
from recipes.shell_guide.everyday import normalise
from recipes.shell_guide.grammar.talk import read_talk
from recipes.shell_guide.mixture import Mixture

pytestmark = pytest.mark.training

HELD_OUT = Path(__file__).parents[1] / "data/heldout_pages.jsonl"
DRAWS = 60
DRAWING = """
import json, sys
from pathlib import Path
from recipes.shell_guide.mixture import Mixture
mixture = Mixture(*map(Path, sys.argv[1:]), seed=11)
print(json.dumps([mixture.read(index) for index in range(20, 40)]))
"""
PAGE = {
    "platform": "common",
    "name": "frobnicate",
    "alias": False,
    "translations": 3,
    "description": "Frobnicates.",
    "examples": [{"task": "Frobnicate a file:", "command": "frobnicate file"}],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, Path]:
    """Pages, and an index."""
    pages = tmp_path_factory.mktemp("mixture") / "pages.jsonl"
    pages.write_text(f"{json.dumps(PAGE)}\n{HELD_OUT.read_text(encoding='utf-8')}", encoding="utf-8")
    return pages, DRAFTER / FILE


@pytest.fixture(scope="module")
def mixture(files: tuple[Path, Path]) -> Mixture:
    return Mixture(*files, seed=11)


def test_another_process_draws_the_same(files: tuple[Path, Path], mixture: Mixture) -> None:
    """So that a killed training goes on with the very next one."""
    ran = subprocess.run([sys.executable, "-c", DRAWING, *map(str, files)], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == [[[*message] for message in mixture.read(index)] for index in range(20, 40)]


def test_a_question_of_a_measure_is_drawn_again(mixture: Mixture, monkeypatch: pytest.MonkeyPatch) -> None:
    first = mixture.draw(3)[1][1]
    monkeypatch.setattr(mixture.everyday, "_excluded", {normalise(first)})
    assert normalise(mixture.draw(3)[1][1]) != normalise(first)


def test_remarks_get_no_command_and_a_program_that_exists_is_never_called_unknown(mixture: Mixture) -> None:
    replies = tuple({answer.split("{")[0] for talk in read_talk() for answer in talk.answers})
    said = [text for index in range(DRAWS) for role, text in mixture.draw(index) if role == "assistant"]
    short = [text for text in said if text.startswith(replies)]
    assert len(short) > DRAWS / 20 and not [text for text in short if "```" in text]
    unknown = {text.split("`")[1] for text in said if text.startswith("I know no program")}
    assert not unknown & mixture.pages.programs()
