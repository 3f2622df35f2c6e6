"""Intents in the form of the index of pages: an example with placeholders, and some of the ways to ask for it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from recipes.shell_guide.grammar.intents import Asked, Intent
from recipes.shell_guide.grammar.values import Slot

DRAWS = 2
"""Most wordings of each phrase in the index."""

_SLOT = re.compile(r"\{([a-z_]+\d*)\}")
_KINDS = {
    **dict.fromkeys(("file", "script", "archive"), "file"),
    **dict.fromkeys(("folder", "path", "mount", "device", "disk"), "directory"),
    **dict.fromkeys(("host", "ip", "domain", "cidr", "email"), "host"),
    **dict.fromkeys(("count", "number", "port", "pid", "mode"), "number"),
    "url": "url",
    "repo": "url",
}
"""Types of slots by the kinds of names that `models.guide.words` distinguishes."""
_SPOKEN = frozenset({"size", "age", "column", "line", "date", "clock", "seconds", "ext", "glob"})
"""Types whose values have words of their own, such as `7 days`."""


@dataclass(frozen=True)
class SearchedExample:
    """An intent in the index; task and commands have slots (`models/guide/outline.py`)."""

    program: str
    task: str
    command: str
    macos: str | None
    wordings: tuple[str, ...]


def wordings(asked: Asked, intent: Intent) -> list[str]:
    """Some wordings of one phrase, each with kinds of names in place of values; always the same ones."""
    rng = np.random.default_rng(zlib.crc32(repr(asked.phrase).encode()))
    found = []
    for _ in range(DRAWS):
        pattern, _ = asked.phrase.draw(rng)
        found.append(_SLOT.sub(lambda match: _kind(intent.slots[match[1]], rng), pattern))
    return list(dict.fromkeys(found))


def _kind(slot: Slot, rng: np.random.Generator) -> str:
    if slot.choices:
        return slot.choices[int(rng.integers(len(slot.choices)))].said
    if slot.type in _SPOKEN:
        return Slot(slot.type).unnamed().said
    kind = _KINDS.get(slot.type, "name")
    return f"{{{kind}{slot.ends[0] if slot.ends and kind == 'file' else ''}}}"


def searched_examples(intents: Iterable[Intent]) -> Iterator[SearchedExample]:
    """An example for each intent and each of its follow-ups, which are asked with the task before them."""
    for intent in intents:
        for one, before in ((intent, ""), *((then, f"{intent.told({})} ") for then in intent.thens)):
            texts = [before + wording for asked in one.asks for wording in wordings(asked, one)]
            task, command = one.outlined(one.command)
            macos = one.outlined(one.macos)[1] if one.macos else None
            yield SearchedExample(one.programs[0], task, command, macos, tuple(texts))
