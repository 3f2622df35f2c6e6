"""The mixture: every kind of episode is drawn, and a conversation depends on (seed, index) alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.guide.pages import FILE
from recipes.shell_guide.mixture import MIX, Mixture

pytestmark = pytest.mark.training

INDEX = Path(__file__).parents[2] / "drafter/pretrained/shell-guide" / FILE
DRAWS = 12


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Mixture:
    page = {
        "platform": "common",
        "name": "frob",
        "alias": False,
        "translations": 3,
        "description": "A program of tests.",
    }
    examples = [
        {"task": "Start a service", "command": "frob start"},
        {"task": "Stop a service", "command": "frob stop"},
    ]
    path = tmp_path_factory.mktemp("pages") / "pages.jsonl"
    path.write_text(json.dumps(page | {"examples": examples}) + "\n", encoding="utf-8")
    return Mixture(path, INDEX, seed=3)


def test_a_conversation_depends_on_seed_and_index_alone(mixture: Mixture) -> None:
    drawn = [mixture.draw(index) for index in range(DRAWS)]
    assert drawn[::-1] == [mixture.draw(index) for index in reversed(range(DRAWS))]
    for messages in drawn:
        assert [role for role, _ in messages] == ["system", "user", "assistant"] * (len(messages) // 3)
        assert all(text.strip() for _, text in messages)


@pytest.mark.parametrize("kind", MIX)
def test_every_kind_is_drawn(kind: str, mixture: Mixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixture, "_kinds", [kind])
    monkeypatch.setattr(mixture, "_shares", [1.0])
    for index in range(DRAWS):
        assert all(text.strip() for _, text in mixture.draw(index))
