"""Which servers a fetched small model came from: only these may be asked for a newer version of it.

The note lies in the small model's own folder, so it goes with it: whoever deletes the model takes back the consent.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from app.config import same_server
from app.files import write_private

NAME = "origins.json"


def note_origin(folder: Path, address: str | None) -> None:
    """Note that the small model in `folder` was fetched from a server, because a person wanted it."""
    known = origins(folder)
    if address is not None and not any(same_server(address, one) for one in known):
        with contextlib.suppress(OSError):  # Then its newer versions are fetched only when they are asked for.
            write_private(folder / NAME, json.dumps([*known, address]))


def origins(folder: Path) -> list[str]:
    """The addresses that the small model in `folder` was fetched from; empty where nobody noted any."""
    try:
        found: Any = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
