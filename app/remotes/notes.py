"""Small private JSON files that keep what is known about servers between runs.

A file that cannot be read counts as empty, and one that cannot be written is ignored: nothing here is needed to answer
a question.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from app.config import same_server
from app.files import one_at_a_time, write_private

T = TypeVar("T")
ORIGINS = "origins.json"


class Notes(Generic[T]):
    """One file with a value of type `kind`, a dict or a list. Without `path`, nothing is kept."""

    def __init__(self, path: Path | None, kind: type[T]) -> None:
        self.path, self._kind = path, kind

    def read(self) -> T:
        """The content, or an empty value if there is none that can be read."""
        if self.path is not None:
            with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
                return msgspec.json.decode(self.path.read_bytes(), type=self._kind)
        return self._kind()

    def change(self, change: Callable[[T], T]) -> None:
        """Replace the content by the result of `change`. Changes of other processes are not lost."""
        if self.path is not None:
            with contextlib.suppress(OSError), one_at_a_time(self.path):
                content = msgspec.json.encode(change(self.read()))
                write_private(self.path, msgspec.json.format(content, indent=1).decode())


def newest(known: dict[str, T], new: dict[str, T], most: int) -> dict[str, T]:
    """A dict with the `new` entries last, and at most `most` entries: the oldest are dropped first."""
    others = {key: kept for key, kept in known.items() if key not in new}
    return dict([*others.items(), *new.items()][-most:])


def note_origin(folder: Path, address: str | None) -> None:
    """Record that the small model in `folder` was fetched from a server at a person's request.

    The note is in the model's own folder, so deleting the model withdraws the consent.
    """
    if address is not None and not any(same_server(address, one) for one in origins(folder)):
        Notes(folder / ORIGINS, list[str]).change(lambda known: [*known, address])


def origins(folder: Path) -> list[str]:
    """The servers that the small model in `folder` was fetched from. Only these may be asked for newer versions."""
    return Notes(folder / ORIGINS, list[str]).read()
