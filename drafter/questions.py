"""Questions of many kinds, for a model of which nobody knows what it will be asked: `questions.txt`, one a line."""

from __future__ import annotations

from pathlib import Path


def usual_questions() -> list[str]:
    """The questions, in their order: neighbours are of different kinds."""
    return (Path(__file__).parent / "questions.txt").read_text(encoding="utf-8").splitlines()
