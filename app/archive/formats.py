"""The formats of an export. Light, because `--help` and the shell's completion read it too."""

from __future__ import annotations

from typing import Literal

Format = Literal["md", "json", "html"]
ENDINGS: dict[str, Format] = {".md": "md", ".markdown": "md", ".json": "json", ".html": "html", ".htm": "html"}
"""The format that the ending of a file's name promises."""
