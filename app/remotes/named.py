"""A remote that has a name, as a place to connect to."""

from __future__ import annotations

import asyncio
from pathlib import Path

from app.concurrency import beside
from app.config import ConfigError
from app.remotes.connection import SourceFailed
from app.remotes.registry import Remote, Remotes
from remote import CompletionsClient, Kind, Misconfigured, TransportOptions, VerifierClient


class Named:
    """`name` is one of `remotes`. `model`: what an OpenAI-compatible server is asked for where the remote says nothing.

    Its token is fetched, and its files are read, when it is first connected to: a keyring that is locked or a
    certificate that is gone is a reason to be offline, none not to open. What failed once is not tried again by
    itself, since a keyring may ask the person each time.
    """

    def __init__(self, name: str, remotes: Remotes, model: str | None = None) -> None:
        """Raises `ConfigError` where there is no such remote."""
        self.name = name
        self._remote = remotes.get(name)
        self._remotes = remotes
        self.model = self._remote.model or model
        self.address: str | None = self._remote.url
        self.own = False
        self.kind: Kind = self._remote.kind
        self.options = options_of(self._remote)
        self.chat: CompletionsClient | None = None
        """There after `client`, unless only a verifier can be at the address."""
        self._client: VerifierClient | None = None
        self._trouble = ""

    async def client(self) -> VerifierClient:
        """Raises `SourceFailed` where its token, certificates or proxy cannot be used."""
        if self._trouble:
            raise SourceFailed(self._trouble)
        if self._client is None:
            url = self._remote.url
            try:
                token = await beside(lambda: self._remotes.token(self.name))
                self._client = VerifierClient(url, token, options=self.options)
                self.chat = None if self.kind == "verifier" else CompletionsClient(url, token, options=self.options)
            except (ConfigError, Misconfigured) as error:
                self._trouble = f"the remote {self.name} cannot be used: {str(error).rstrip('.')}"
                raise SourceFailed(self._trouble) from None
        return self._client

    async def gone(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
        if self.chat is not None:
            await self.chat.close()


def options_of(remote: Remote) -> TransportOptions:
    """How it is reached; nothing is read yet."""
    return TransportOptions(
        ca=None if remote.ca is None else Path(remote.ca),
        certificate=None if remote.cert is None else Path(remote.cert),
        key=None if remote.key is None else Path(remote.key),
        proxy=remote.proxy,
        connect_seconds=remote.connect_timeout,
        read_seconds=remote.read_timeout,
        first_words_seconds=remote.first_words_timeout,
    )
