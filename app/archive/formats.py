"""The formats of an export. Imports little, because `--help` and shell completion use it too."""

from __future__ import annotations

from typing import Literal

Format = Literal["md", "json", "html"]
ENDINGS: dict[str, Format] = {".md": "md", ".markdown": "md", ".json": "json", ".html": "html", ".htm": "html"}
"""File name extension -> format."""
