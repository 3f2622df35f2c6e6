"""Providers that can be added by name: hosted services, and programs on this device. Data with its date, in
`providers.toml`; nothing is asked of the network."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from app.config import same_server
from app.remotes.registry import Kind, Remote

if TYPE_CHECKING:
    from remote.openai.schema import Model

FILE = Path(__file__).with_name("providers.toml")


class Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    """As `outrider remote add` takes it, and the proposed name of the server."""
    title: str
    url: str
    kind: Kind = "openai"
    variable: str | None = None
    """Environment variable in which its own tools look for the key, or None if it usually needs none."""
    model: str | None = None
    """Model to ask for if the person names none, or None for the first that it lists."""
    other: str | None = None
    """Pattern of listed models that cannot chat."""
    keys: str = ""
    """The page on which a key is made."""
    note: str = ""

    def remote(self, model: str | None = None) -> Remote:
        """The server as it is added. Its key is in the environment until one is kept elsewhere."""
        return Remote(url=self.url, kind=self.kind, model=model or self.model, token_variable=self.variable)

    def has_key(self) -> bool:
        return self.variable is not None and bool(os.environ.get(self.variable))

    def chatting(self, models: Sequence[Model], wanted: str | None = None) -> tuple[Model, ...]:
        """The models that can chat, and the one that was asked for by name."""
        other = re.compile(self.other, re.IGNORECASE) if self.other else None
        return tuple(model for model in models if not other or model.id == wanted or not other.search(model.id))


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    date: str
    """The day on which the facts were looked up."""
    providers: list[Provider]


@cache
def _file() -> _File:
    return msgspec.convert(tomllib.loads(FILE.read_text()), _File)


def providers() -> list[Provider]:
    """All providers, the services first."""
    return _file().providers


def looked_up() -> str:
    """The day on which the facts about them were looked up."""
    return _file().date


def provider_named(name: str) -> Provider | None:
    return next((one for one in providers() if one.name == name.lower()), None)


def provider_at(url: str) -> Provider | None:
    """The provider whose server is at an address, or None."""
    return next((one for one in providers() if same_server(one.url, url)), None)
