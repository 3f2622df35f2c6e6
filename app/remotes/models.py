"""All models that a person can choose: those of every remote, and the bundled one.

All servers are asked for their lists in parallel, each with its own time limit, so one that is away delays no other. No
question is sent. A list costs a server next to nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import partial

from app.config import ConfigError, Folders, Settings, is_address
from app.remotes.choice import bundled_model, source_named
from app.remotes.providers import provider_at
from app.remotes.registry import BUNDLED, Remotes
from app.remotes.source import AddressSource, RemoteSource, Source, SourceFailed
from app.sanitise import one_line
from remote import Misconfigured, RemoteError
from remote.detect import detect
from remote.openai.model_list import LATEST
from remote.openai.schema import Price
from remote.protocol import Card

LIST_SECONDS = 6.0
"""Longest wait for one server's list, in addition to its time to connect. A person waits for it."""
MOST_NAME = 200
"""Characters of a model's name that are shown."""


@dataclass(frozen=True)
class OfferedModel:
    """One model of one server."""

    server: str
    """Name of the remote, or its address if it has none, or `bundled`."""
    name: str
    checks: bool
    """Whether the server checks drafts; otherwise it only streams its answers."""
    context: int | None = None
    """Most tokens of a conversation, or None if the server does not say."""
    images: bool | None = None
    """Whether it reads images, or None if the server does not say."""
    price: Price | None = None
    """What it costs, or None if the server does not say."""

    @property
    def shown(self) -> str:
        """Its name as one line that is safe for a terminal."""
        return one_line(self.name)[:MOST_NAME]

    def is_named(self, name: str) -> bool:
        """Whether this name means it; the tag `:latest` may be omitted."""
        return self.name in (name, name + LATEST)

    @property
    def about(self) -> str:
        """What it can do, in a few words."""
        parts = ["checks drafts"] if self.checks else ["streams only"] if self.price is None else []
        if self.context is not None:
            parts.append(f"context {self.context:,}")
        if self.images is not None:
            parts.append("reads images" if self.images else "text only")
        if self.price is not None:  # In and out. A server that charges checks no drafts.
            free = not self.price.prompt and not self.price.completion
            parts.append("free" if free else f"${self.price.prompt:.4g}/${self.price.completion:.4g} per M")
        return ", ".join(parts)


@dataclass(frozen=True)
class ServerModels:
    """The models of one server, or why there are none."""

    server: str
    models: tuple[OfferedModel, ...] = ()
    trouble: str = ""
    """Why there is no list, as a sentence; empty if there is one."""


def servers(settings: Settings, folders: Folders) -> list[str]:
    """The servers that can be asked: the bundled one, each remote by its name, and an address in the settings.

    Raises `ConfigError`.
    """
    names = [BUNDLED, *(name for name, _ in Remotes(folders))]
    return names + ([settings.remote] if settings.remote and is_address(settings.remote) else [])


async def list_models(
    names: Sequence[str], settings: Settings, folders: Folders, *, seconds: float = LIST_SECONDS
) -> AsyncGenerator[ServerModels, None]:
    """Yields what each of these servers offers as soon as it has answered. `seconds`: the longest wait for each.

    Leaving the iterator early cancels the remaining requests. Raises `ConfigError` if the remotes cannot be read.
    """
    remotes = Remotes(folders)
    asking = [asyncio.create_task(_list(name, remotes, settings, seconds)) for name in names]
    try:
        for listed in asyncio.as_completed(asking):
            yield await listed
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


def find_offered(listed: Sequence[ServerModels], name: str) -> list[OfferedModel]:
    """The models that this name means: those with exactly this name, if there are any."""
    models = [model for one in listed for model in one.models]
    return [model for model in models if model.name == name] or [model for model in models if model.is_named(name)]


async def _list(name: str, remotes: Remotes, settings: Settings, seconds: float) -> ServerModels:
    if name == BUNDLED:  # It is started when needed, and has one model.
        return ServerModels(name, (OfferedModel(name, bundled_model(settings), True),))
    try:
        if is_address(name):
            token = settings.token if name == settings.remote else None
            source: Source = AddressSource(name, token, settings.remote_model)
        else:
            source = source_named(name, remotes, settings)
    except (ConfigError, Misconfigured) as error:
        return ServerModels(name, trouble=str(error))
    try:
        return await _asked(name, source, seconds)
    finally:
        await source.close()


async def _asked(name: str, source: Source, seconds: float) -> ServerModels:
    patience = seconds + (source.options.connect_seconds or 0.0)
    try:
        async with asyncio.timeout(patience):
            client = await source.client()
            wanted = source.remote.model if isinstance(source, RemoteSource) else source.model
            found = await detect(client, source.chat, patience, kind=source.kind, model=wanted)
    except TimeoutError:
        return ServerModels(name, trouble=f"no answer within {patience:.3g} s")
    except (RemoteError, SourceFailed) as error:
        return ServerModels(name, trouble=str(error))
    if isinstance(found, Card):
        return ServerModels(name, (OfferedModel(name, found.target, True, found.limits.max_tokens),))
    if (provider := provider_at(source.address or "")) is not None:
        found = provider.chatting(found, wanted)
    make = partial(OfferedModel, name)
    models = [make(model.id, False, model.max_model_len, model.images, model.price or None) for model in found]
    return ServerModels(name, tuple(models))
