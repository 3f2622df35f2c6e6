"""Write docs/keys.md from the key bindings of the screen.

    python docs/keys.py [OUT]

`tests/test_documents.py` compares the page with what this writes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from app.tui.bindings import actions  # noqa: E402

PAGE = ROOT / "docs" / "keys.md"
OPENING = """\
# Keys

Every key of the screen, and the name for changing it under `[keys]` in the
[settings file](settings.md#the-settings-file). Separate several keys by a comma:

```toml
[keys]
chat.new = "f11"
message.regenerate = "ctrl+e"
```

`outrider keys` prints this list with your changes; F1 shows the keys of the focused part of the screen.
`python docs/keys.py` writes this page.

| where | keys | name | what it does |
|---|---|---|---|
"""
CHARACTERS = {
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "question_mark": "?",
    "slash": "/",
}
"""Keys that are easier to read as the character that they type."""


def page() -> str:
    """The whole page, as Markdown: one table. Only the first row of each part of the screen names that part."""
    rows, room = [OPENING], ""
    for action in actions({}):
        keys = ", ".join(f"`{CHARACTERS.get(key, key)}`" for key in action.keys)
        where = "" if action.room == room else f"**{action.room}**"
        rows.append(f"| {where} | {keys} | `{action.id}` | {action.description} |\n")
        room = action.room
    return "".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT", default=PAGE)
    parser.parse_args().out.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
