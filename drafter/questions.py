"""Questions of many kinds, for a model whose purpose is unknown: `questions.txt`, one per line."""

from __future__ import annotations

from pathlib import Path


def usual_questions() -> list[str]:
    """The questions, ordered so that neighbours are of different kinds."""
    return (Path(__file__).parent / "questions.txt").read_text(encoding="utf-8").splitlines()
