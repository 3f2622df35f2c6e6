"""Pretrained models, where there are some: the same tokens and the same greedy text as what else runs them.

No gate runs this: OUTRIDER_REAL_MODELS names the folder of the models. What is timed, `benchmarks.real_models` tells.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.real_answers import answers
from benchmarks.real_models import VARIABLE, models, tokens
from benchmarks.real_run import Count, Figures, Run

FOLDER = os.environ.get(VARIABLE)
pytestmark = pytest.mark.skipif(not FOLDER, reason=f"{VARIABLE} names no folder of pretrained models")


@pytest.fixture(params=models(Path(FOLDER)) if FOLDER else [None], ids=lambda path: path and path.name)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    return Run(request.param.resolve(), tmp_path)


def wrong(figures: Figures) -> dict[str, str]:
    """The counts in which not all are right."""
    return {what: str(count) for what, count in figures.items() if isinstance(count, Count) and count.right < count.of}


def test_prompts_are_the_tokens_that_the_model_was_made_for(run: Run) -> None:
    figures = tokens(run)
    if run.is_gguf:
        figures.pop("tokens as in transformers")  # It translates some tokenizers of GGUF files roughly.
    assert figures and not wrong(figures)


def test_greedy_answers_are_the_same_whoever_drafts(run: Run) -> None:
    """With drafts, where a drafter of this model is on this device."""
    assert not wrong(answers(run))
