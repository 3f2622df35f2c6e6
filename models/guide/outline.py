"""How an example of the index marks replaceable names: by slots, each with a placeholder.

    task:     rename ⟦file:file:file.txt⟧ to ⟦file2:file:file.txt⟧
    command:  mv ⟦file:file:file.txt⟧ ⟦file2:file:file.txt⟧

`⟦name:type.form:placeholder⟧`. One name is one value, wherever it occurs. `form` is how the command writes it
(`models/guide/values.py`); without one it is the usual form, and in a task the text that was said. A type that ends
with `?` need not be named: its placeholder is a default. The text between `⟨` and `⟩` is used only where all slots in
it are filled. No command line has these brackets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_SLOT = re.compile(r"⟦([^:⟧]+):([^:.?⟧]+)(?:\.([^:?⟧]*))?(\?)?:([^⟧]*)⟧")
_PERHAPS = re.compile(r"⟨([^⟨⟩]*)⟩")


@dataclass(frozen=True)
class Slot:
    """A place for a value."""

    name: str
    type: str
    form: str
    optional: bool
    placeholder: str

    def __str__(self) -> str:
        form = f".{self.form}" if self.form else ""
        return f"⟦{self.name}:{self.type}{form}{'?' * self.optional}:{self.placeholder}⟧"


def perhaps(text: str) -> str:
    """A part of a task that is used only if its slots are filled."""
    return f"⟨{text}⟩"


def slots(text: str) -> Iterator[tuple[Slot, int]]:
    """The slots of a task or command, each with where it begins. A slot may come several times."""
    for found in _SLOT.finditer(text):
        yield _slot(found), found.start()


def put(text: str, value: Callable[[Slot], str | None]) -> str:
    """A task or command with values in its slots, or the placeholder if the value is None."""

    def said(part: re.Match[str]) -> str:
        if any(value(_slot(found)) is None for found in _SLOT.finditer(part[1])):
            return ""
        return part[1]

    def typed(found: re.Match[str]) -> str:
        slot = _slot(found)
        text = value(slot)
        return slot.placeholder if text is None else text

    text = _SLOT.sub(typed, _PERHAPS.sub(said, text))
    return re.sub(r" {2,}(?=\S)", " ", text).strip() if "\n" not in text else text.strip()


def unfilled(text: str) -> str:
    """A task or command with its placeholders."""
    return put(text, lambda _: None)


def _slot(found: re.Match[str]) -> Slot:
    name, kind, form, optional, placeholder = found.groups()
    return Slot(name, kind, form or "", bool(optional), placeholder)
