"""How to install what only some parts of Outrider need.

Outrider is in no package index yet, so a package of that name there would be somebody else's.
"""

from __future__ import annotations

from typing import Literal

Extra = Literal["server", "train"]


def how_to_install(extra: Extra) -> str:
    """What to run for an extra of `pyproject.toml`, within a sentence."""
    return f"run pip install '.[{extra}]' in Outrider's source folder"
