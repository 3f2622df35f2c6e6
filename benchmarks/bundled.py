"""The bundled pair and its held-out questions, the defaults of most measurements."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from app.cli.machine import machine
from app.config import BUNDLED_DRAFTER as DRAFTER
from app.config import BUNDLED_TARGET as TARGET
from app.config import REPOSITORY
from models.config import read_config

__all__ = ["DATA", "DRAFTER", "PROMPTS", "REPOSITORY", "TARGET", "interval", "machine_and_pair", "write"]

DATA = REPOSITORY / "tests/data"
PROMPTS = DATA / "heldout_pages.jsonl"
"""Questions about pages that are in no training data."""


def machine_and_pair(drafter: Path = DRAFTER) -> dict[str, object]:
    """The machine, and the beginning of the digest that a drafter and its target share."""
    return {**machine(), "pair": read_config(drafter).memory[:8]}


def interval(part: np.ndarray, whole: np.ndarray, digits: int = 3) -> list[float]:
    """The 95 % interval of the ratio of two sums over prompts, by a bootstrap with 2,000 draws of the prompts."""
    picks = np.random.default_rng(0).integers(len(whole), size=(2000, len(whole)))
    parts, wholes = part[picks].sum(1), whole[picks].sum(1)
    return [round(float(end), digits) for end in np.quantile(parts[wholes > 0] / wholes[wholes > 0], (0.025, 0.975))]


def write(
    out: Path | None, rows: Sequence[Mapping[str, object]], about: Mapping[str, object] | None = None, **others: object
) -> None:
    """Write a result as JSON to `out`, or do nothing if it is None. `about`: the machine, by default with the pair."""
    if out is not None:
        document = {"machine": about or machine_and_pair(), **others, "rows": rows}
        out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
