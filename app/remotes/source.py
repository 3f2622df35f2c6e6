"""Sources: where a server is, and how to get a client for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

from app.concurrency import beside
from app.config import ConfigError, Unanswered
from app.remotes.providers import provider_at
from app.remotes.registry import Remote, Remotes
from remote import (
    CompletionsClient,
    GeminiClient,
    Kind,
    MessagesClient,
    Misconfigured,
    TransportOptions,
    VerifierClient,
)
from remote.clock import CLOCK, Clock
from remote.openai.gemini import is_gemini
from remote.openai.schema import Price
from remote.proxies import is_loopback

PARALLEL = 4
"""How many answers a server writes at once if nobody says otherwise."""


class SourceFailed(Exception):
    """There is no server to connect to; the message says why and what to do."""


class Ended(SourceFailed):
    """The server that this program runs has ended, and is started again."""


class Source:
    """How to reach a server: a verifier, or an OpenAI-compatible server."""

    address: str | None = None
    """Its address, if known before connecting."""
    name: str | None = None
    """The person's name for it."""
    kind: Kind = "auto"
    model: str | None = None
    """Which model to ask an OpenAI-compatible server for, or None for the first one that it lists."""
    system: str | None = None
    """Name of the system prompt that its new conversations begin with, or None if the settings decide."""
    offline: Unanswered | None = None
    """What happens to a question while it is away, or None if the settings decide."""
    local: str | None = None
    """Name of the model on this device that answers then, or None for that of the settings."""
    parallel = 1
    """How many answers it writes at once."""
    own: bool = False
    """Whether its model was chosen together with the drafter, so that the drafter is assumed to fit it."""
    needs_no_network: bool = False
    """Whether it is used in mode offline too."""
    options = TransportOptions()
    """How it is reached."""
    price: Price | None = None
    """What the person has set as its price, or None for that of its list of models."""
    chat: CompletionsClient | None = None
    """A client for an OpenAI-compatible server at the address, or None if only a verifier can be there."""
    shared: bool = False
    """Whether several connections share it, none of which closes it."""
    users: int = 0
    """Connections that use it now. If it is not `shared`, the last one closes it."""

    @property
    def process_id(self) -> int | None:
        """Process id of a server that this program runs, or None if it runs none now."""
        return None

    async def client(self) -> VerifierClient:
        """A client of the server as soon as that listens; always the same one while the server stays. Raises
        `SourceFailed`.

        Several connections may call this at the same time.
        """
        raise NotImplementedError

    async def gone(self) -> None:
        """Return when nothing can listen there any more."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Close its clients."""


def stays_here(source: Source | None) -> bool:
    """Whether questions stay on this device: there is no server, or it is on loopback."""
    if source is None or source.address is None:
        return True
    return is_loopback(urlsplit(source.address).hostname or "")


class AddressSource(Source):
    """A server that somebody else runs, at a known address. Raises `Misconfigured`."""

    parallel = PARALLEL

    def __init__(self, url: str, token: str | None = None, model: str | None = None, *, clock: Clock = CLOCK) -> None:
        self.address = url
        known = provider_at(url)
        if known is not None and known.kind == "anthropic":
            self.kind = "anthropic"
        self._client = VerifierClient(url, token, clock=clock)
        self.chat = chat_client(self.kind, url)(url, token, clock=clock)
        self.model = model

    async def client(self) -> VerifierClient:
        return self._client

    async def close(self) -> None:
        await self._client.close()
        if self.chat is not None:
            await self.chat.close()


class RemoteSource(Source):
    """A remote of the registry. `model`: what to ask an OpenAI-compatible server for if the remote names no model.

    The token is fetched and the files are read on the first connection. So with a locked keyring or a missing
    certificate the chat still opens, offline. A failure is remembered and not retried, because a keyring may ask the
    person each time.
    """

    def __init__(self, name: str, remotes: Remotes, model: str | None = None) -> None:
        """Raises `ConfigError` where there is no such remote."""
        self.name = self._registered = name
        self.remote = remotes.get(name)
        self._remotes = remotes
        self.model = self.remote.model or model
        self.system = self.remote.system
        self.offline, self.local = self.remote.offline, self.remote.local
        self.parallel = self.remote.parallel or PARALLEL
        self.price = Price(*self.remote.price) if self.remote.price is not None else None
        self.address = self.remote.url
        self.kind = self.remote.kind
        self.options = options_of(self.remote)
        self.token_place: str | None = None
        """The place where its token was found, in words. Set by `client`, as `chat` is. None if there is no token."""
        self._client: VerifierClient | None = None
        self._turn = asyncio.Lock()
        self._trouble = ""

    async def client(self) -> VerifierClient:
        """Raises `SourceFailed` if its token, certificates or proxy cannot be used."""
        async with self._turn:
            if self._trouble:
                raise SourceFailed(self._trouble)
            if self._client is None:
                url = self.remote.url
                try:
                    token = await beside(lambda: self._remotes.token(self._registered))
                    self.token_place = self._remotes.token_place(self.remote) if token else None
                    self._client = VerifierClient(url, token, options=self.options)
                    self.chat = chat_client(self.kind, url)(url, token, options=self.options)
                except (ConfigError, Misconfigured) as error:
                    self._trouble = f"the server {self.name} cannot be used: {str(error).rstrip('.')}"
                    raise SourceFailed(self._trouble) from None
            return self._client

    async def close(self) -> None:
        for client in (self._client, self.chat):
            if client is not None:
                await client.close()


def chat_client(kind: Kind, url: str) -> type[CompletionsClient]:
    """The client for a server of this kind, if it checks no drafts."""
    if kind == "anthropic":
        return MessagesClient
    return GeminiClient if is_gemini(url) else CompletionsClient


def options_of(remote: Remote) -> TransportOptions:
    """How a remote is reached. Its files are not read yet."""
    return TransportOptions(
        ca=None if remote.ca is None else Path(remote.ca),
        certificate=None if remote.cert is None else Path(remote.cert),
        key=None if remote.key is None else Path(remote.key),
        proxy=remote.proxy,
        connect_seconds=remote.connect_timeout,
        read_seconds=remote.read_timeout,
        first_words_seconds=remote.first_words_timeout,
    )
