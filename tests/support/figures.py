"""Drafters whose figures say that they guess well, badly, or nothing at all: copies of one, with other figures."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from drafter.delivery import delivery
from models.config import Measured, read_config, write_config

GOOD = {"tau": 3.0, "alone": 0.8, "perplexity": 5.0, "repeated": 0.1}
NO_DRAFTS = {**GOOD, "tau": 1.0}
"""Below the floor for drafting."""
NOT_ALONE = ({**GOOD, "alone": 0.4}, {**GOOD, "perplexity": 400.0}, {**GOOD, "repeated": 0.9})
"""Below one floor each for writing alone."""


def with_figures(drafter: Path, copy: Path, figures: dict[str, float] | None) -> Path:
    """A copy of a drafter's folder with these figures; None: it was never measured. Returns `copy`."""
    shutil.copytree(drafter, copy)
    measured = msgspec.UNSET if figures is None else Measured(**figures)
    write_config(copy, msgspec.structs.replace(read_config(copy), measured=measured))
    return copy


def on_shelf(drafter: Path, shelf: Path, figures: dict[str, float] | None) -> Path:
    """A copy with these figures on a shelf of fetched drafters, as it is kept there. Returns its folder."""
    made = with_figures(drafter, shelf / "new", figures)
    return made.rename(shelf / delivery(made).digest.hex())
