"""`python -m drafter.trial PLACE`: try downloaded files once, within limited memory and time.

A folder is a drafter, which drafts once. A file is a tokenizer: stdin has the rest of its text side (`TextAbout`), and
stdout gets its likeness. Exits with 0 if that worked. Otherwise it prints the reason, or is killed by the system.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from drafter.runtime import Drafter
from drafter.search import Pace
from models.config import DrafterError
from models.telemetry import switch_off
from models.text.chat_text import ChatText
from models.text.likeness import likeness

try:
    import resource
except ImportError:  # Windows has no such limits.
    resource = None  # type: ignore[assignment]

SPARE_BYTES = 3 << 30
"""Memory in addition to a few times the files' size: Python, ONNX Runtime and its threads."""
SECONDS = 60
"""Processor time."""


class TextAbout(msgspec.Struct):
    """What belongs to a tokenizer; see `ChatText`."""

    template: str
    stop_tokens: tuple[int, ...]
    special_tokens: dict[str, str]


def main() -> int:
    """Try the drafter, or the tokenizer, that the command line names."""
    place = Path(sys.argv[1])
    switch_off()
    if resource is not None:
        size = sum(file.stat().st_size for file in (place.iterdir() if place.is_dir() else [place]))
        resource.setrlimit(resource.RLIMIT_AS, (SPARE_BYTES + 4 * size,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    try:
        if place.is_dir():
            _draft(place)
        else:
            print(_likeness(place))
    except (DrafterError, MemoryError) as error:
        print(str(error) or "it takes too much memory")
        return 1
    except Exception as error:  # The runtime's errors have no narrower common class.
        print(f"{type(error).__name__}: {error}"[:300])
        return 1
    return 0


def _draft(folder: Path) -> None:
    drafter = Drafter.load(folder)
    context = drafter.context()
    context.commit(drafter.asked_as("hello"))
    tree = context.draft(Pace(depth=2, breadth=2, nodes=4))
    drafter.text.decode(tree.tokens.tolist())


def _likeness(tokenizer: Path) -> str:
    about = msgspec.json.decode(sys.stdin.buffer.read(), type=TextAbout)
    found = likeness(ChatText(tokenizer.read_bytes(), about.template, about.stop_tokens, about.special_tokens))
    return "" if found is None else found.hex()


if __name__ == "__main__":
    sys.exit(main())
