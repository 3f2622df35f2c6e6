"""Servers that this program runs on this device: the bundled verifier, and a model that the person added.

Starting takes about a second, or a few with PyTorch, and happens in the background. A verifier that dies is restarted,
after a pause that grows with each failed start.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from app.remotes.own_server import (
    NotServed,
    OwnServer,
    belong_together,
    needs_no_network,
    started,
    started_ahead,
)
from app.remotes.source import Source, SourceFailed
from drafter.whole_model import ModelAway
from models.free_memory import free_bytes
from models.gguf.file import weight_bytes
from remote import CompletionsClient, Kind, VerifierClient
from remote.proposals import Proposer, Proposing

ROOM_BYTES = 300 << 20
"""Memory of a model on this device besides its weights: the program, and the rows of some thousand tokens."""
PAUSE_SECONDS = (1.0, 300.0)
"""Shortest and longest pause before another start."""


class Loopback(Source):
    """The source of the bundled verifier. `target`: a model's folder or name; `drafter`: a folder."""

    kind: Kind = "verifier"

    def __init__(self, target: str, drafter: str | None) -> None:
        self._target = target
        self._drafter = drafter
        self.own = belong_together(target, drafter)
        self.needs_no_network = needs_no_network(target, drafter)
        self.url: str | None = None
        """Address of the verifier that was started last."""
        self._server: OwnServer | None = None
        self._client: VerifierClient | None = None
        self._failures = 0
        self._turn = asyncio.Lock()

    @property
    def process_id(self) -> int | None:
        return None if self._server is None else self._server.process_id

    async def client(self) -> VerifierClient:
        """Start the verifier if it is not running. Raises `SourceFailed`."""
        async with self._turn:
            if self._client is None or self.process_id is None:
                await self._end()
                if self._failures:
                    least, most = PAUSE_SECONDS
                    await asyncio.sleep(min(most, least * 2.0 ** (self._failures - 1)))
                self._client = await self._started()
            return self._client

    async def _started(self) -> VerifierClient:
        try:
            self._server = self._start()
            self._failures += 1
            self.url = await self._server.url()
        except NotServed as error:
            raise SourceFailed(str(error)) from None
        except OSError as error:  # A full disk, or no more processes.
            raise SourceFailed(f"the server on this device could not be started: {error}") from None
        self._failures = 0
        return VerifierClient(self.url, self._server.token)

    def _start(self) -> OwnServer:
        return OwnServer(self._target, None) if self._drafter is None else started(self._target, self._drafter)

    async def gone(self) -> None:
        if self._server is not None:
            await self._server.end()

    async def close(self) -> None:
        await self._end()
        if self._drafter and (ahead := started_ahead(self._target, self._drafter)) is not None:
            await ahead.close()  # Another server was chosen before this one was needed.

    async def _end(self) -> None:
        server, self._server = self._server, None
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        if server is not None:
            await server.close()


class LocalModel(Loopback):
    """A model on this device, which answers while a server is away, and drafts while it is there.

    `path`: a GGUF file, or a folder.
    """

    kind: Kind = "openai"

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(str(path), None)
        self.name, self.path = name, path
        self._proposer: Proposer | None = None
        self.own = False

    def _start(self) -> OwnServer:
        """Start it if there is memory for it. Raises `NotServed`, `OSError`."""
        if not self.path.exists():
            raise NotServed(f"{self.name} is not in {self.path} any more: outrider local find, then add")
        needed, free = (weight_bytes(self.path) or 0) + ROOM_BYTES, free_bytes()
        if needed > free:
            raise NotServed(f"{self.name} needs {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free")
        return super()._start()

    async def _started(self) -> VerifierClient:
        client = await super()._started()
        assert self._server is not None
        assert self.url is not None
        self.chat = CompletionsClient(self.url, self._server.token)
        self._proposer = Proposer(self.url, self._server.token)
        return client

    def begin(self) -> Proposing:
        """Begin a conversation for which it drafts. Raises `ModelAway` if it does not run."""
        if (proposer := self._proposer) is None:
            raise ModelAway(f"{self.name} does not run")
        return proposer.begin()

    async def _end(self) -> None:
        (proposer, self._proposer), (chat, self.chat) = (self._proposer, None), (self.chat, None)
        if proposer is not None:
            proposer.close()
        if chat is not None:
            await chat.close()
        await super()._end()
