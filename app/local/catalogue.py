"""The catalogue of small models with free licences, from `catalogue.toml`. Needs no network."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("catalogue.toml")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    """As `outrider local get` takes it."""
    repository: str
    file: str
    size: int
    licence: str
    parameters: str
    memory: int
    """Bytes of memory that it takes, about."""
    good_for: str

    @property
    def source(self) -> str:
        """As `Hub.find` takes it."""
        return f"{self.repository}:{self.file}"


class Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The models, smallest first."""

    date: str
    """The day on which it was written."""
    models: list[Entry]

    def get(self, name: str) -> Entry | None:
        return next((entry for entry in self.models if entry.name == name.lower()), None)


@cache
def catalogue() -> Catalogue:
    """The catalogue that comes with the program."""
    return msgspec.convert(tomllib.loads(FILE.read_text("utf-8")), Catalogue)
