"""The connection to a server: one background task that connects, detects a lost line, and reconnects.

Replies use `verifier` while it is available, and call `lost` when a round fails. Everything else happens here, from the
first connection to probing a dead line with a random back-off, so that no reply waits for a connect.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from app.concurrency import first_of
from app.events import Mode, ModeChanged
from app.remotes.known_server import KnownServer
from app.remotes.last_seen import LastSeen
from app.remotes.local_drafter import LocalDrafter
from app.remotes.mode_meter import MODES, Verifying
from app.remotes.notes import note_origin
from app.remotes.peer import Peer, Verifier
from app.remotes.server_text import ServerTexts
from app.remotes.source import Ended, Source, SourceFailed
from app.remotes.speed import FILE, Speed
from app.sanitise import sanitise
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import Broken, Incompatible, Link, LinkDown, Refused, RemoteError, Stranger, Unsent
from remote.clock import CLOCK, Clock
from remote.delivery import fetch_drafter
from remote.link import State
from remote.tasks import end

PATIENCE_SECONDS = 3.0
"""Longest wait for a verifier to identify itself if the drafter can answer instead: a prompt may be waiting."""
EDGE_PATIENCE_SECONDS = 15.0
"""The longest wait if nothing else can answer, so that there is no hurry to give up."""
PATIENT_TRIES = 3
"""Number of consecutive connections without text after which the line is probed less often, even if somebody waits."""
BROKE = (Broken, Unsent, Stranger)
"""Errors of a line that broke just now. Others belong to one that has been silent for a while."""
FIRST_WORDS_SECONDS = 0.2
"""Pause between such an error and the first probe. The line is seldom back sooner, and a failing probe takes processor
time from the small model's first words. With it and `Drafting.begin_alone`, three answers at once on two cores had
their first words after 60 ms instead of 79 (median), and 5 of 117 instead of 26 of 112 after more than 100 ms."""


class Probes:
    """When to retry a dead line: every second while somebody waits for it, otherwise at growing intervals."""

    def __init__(self, link: Link, clock: Clock) -> None:
        self.fruitless = 0
        """Consecutive connections without text: a server may greet, and then fail each round."""
        self._link, self._clock = link, clock
        self._waiting = 0
        self._hurried = asyncio.Event()

    @contextlib.contextmanager
    def wanted(self) -> Iterator[None]:
        """While the block runs, somebody waits for the server: probe at once, then every second."""
        self._waiting += 1
        self.hurry()
        try:
            yield
        finally:
            self._waiting -= 1

    def hurry(self) -> None:
        """Probe at once."""
        self._hurried.set()

    async def pause(self, *, hopeless: bool) -> None:
        """Wait until the next probe is due. `hopeless`: a person must repair something first, so there is no hurry."""
        self._hurried.clear()
        eager = self._waiting > 0 and not hopeless and self.fruitless <= PATIENT_TRIES
        delay = max(self._link.next_probe_delay(eager=eager), self._link.pause(self.fruitless))
        with contextlib.suppress(TimeoutError):
            async with self._clock.within(delay):
                await self._hurried.wait()


class Connection:
    """Keeps the line to one server: a verifier, or an OpenAI-compatible server, which answers without checking drafts.

    `patience`: seconds for a server to identify itself. `modes`: modes that may be chosen. `idle`: returns when no
    answer is being written. For the other arguments, see `KnownServer`.
    """

    def __init__(
        self,
        source: Source,
        *,
        drafters: Drafters,
        seen: LastSeen | None = None,
        patience: float = PATIENCE_SECONDS,
        modes: tuple[Verifying, ...] = MODES,
        clock: Clock = CLOCK,
        anyway: bool = False,
        local: Callable[[bool], LocalDrafter | None] = lambda _: None,
        texts: Callable[[], ServerTexts | None] = lambda: None,
        idle: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0),
    ) -> None:
        self.server = KnownServer(source, drafters, seen, anyway=anyway, local=local, texts=texts)
        """What the server reported about itself when it was last available."""
        self.speed = Speed(source.options, modes, None if seen is None else seen.beside(FILE))
        """Measurements from the answers."""
        self.verifier: Peer | None = None
        """The server while it is available."""
        self.warming = True
        """Whether the first connection is still being made."""
        self.why = f"connecting to {source.name or 'the server'}"
        """Who answers, or why nobody does."""
        self.error: RemoteError | SourceFailed | None = None
        """Why there is no server."""
        self.refuses = False
        """Whether the server refused this device or does not fit it. A person must repair that."""
        self.tries = 0
        """Failed attempts to connect."""
        self.answers = 0
        """Answers that are being written over it. The times of several at once say little about the modes."""
        self.change = asyncio.Event()
        """Set at the next change of `verifier`, `warming` or `why`, and then replaced by a new one."""
        self.source = source
        self._patience = patience + (source.options.connect_seconds or 0.0)
        self._clock = clock
        self._probes = Probes(self.speed.link, clock)
        self._idle = idle
        self._task: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        """Fetches the tokenizer of the server's model."""
        self._lost, self._tried = asyncio.Event(), asyncio.Event()

    def start(self) -> None:
        """Begin to connect, and return at once. A second call does nothing."""
        if self._task is None:
            self.source.users += 1
            self._task = asyncio.create_task(self._keep())

    @property
    def begun(self) -> bool:
        return self._task is not None

    def changed(self) -> Coroutine[Any, Any, bool]:
        """Wait for the next `change` after this call."""
        return self.change.wait()

    async def tried(self, tries: int) -> None:
        """Wait until more than this many `tries` have failed."""
        while self.tries <= tries:
            await self._tried.wait()

    @property
    def place(self) -> object:
        """The same for all connections to one server."""
        return self.source.address or self.source

    @property
    def line_may_break(self) -> bool:
        """Whether there is a network connection at all: there is none to a server that this program started here."""
        return self.source.address is not None

    @property
    def line(self) -> State:
        """The state of the line: down while there is no server, whatever was measured before."""
        return self.speed.link.state if self.verifier is not None else "offline"

    @property
    def starts_again(self) -> bool:
        """Whether a server that has answered before ended just now, and is expected back."""
        return self.server.met and isinstance(self.error, LinkDown | Ended)

    @property
    def why_mode(self) -> str:
        """Who verifies, and the figures behind the mode."""
        said = self.speed.modes.why(self.speed.link.rtt_seconds or 0.0)
        return f"{self.why}; {said}" if said else self.why

    def choose_drafter(self, mode: Verifying | None, length: int) -> Drafter | None:
        """Choose who drafts the next answer; see `KnownServer.choose_drafter`. `mode`: the only one, if it is known."""
        modes = self.speed.modes.allowed if mode is None else (mode,)
        return self.server.choose_drafter(self.speed, modes if isinstance(self.verifier, Verifier) else None, length)

    def mode(self, mode: Mode, why: str | None = None, *, alone: bool = True, writer: str = "") -> ModeChanged:
        """The event for a change to this mode. `why`: by default who answers, or why nobody does.

        `writer`: who writes while there is no server.
        """
        peer = self.verifier
        model, checks = (writer, self.server.checks) if peer is None else (sanitise(peer.model_name), peer.checks)
        return ModeChanged(mode, self.why if why is None else why, alone, model, checks, not self.line_may_break)

    def wanted(self) -> contextlib.AbstractContextManager[None]:
        """While the block runs, somebody waits for a server; see `Probes.wanted`.

        Only a line to a verifier that broke just now is not probed at once.
        """
        return self._probes.wanted()

    def gained(self) -> None:
        """Note that text has arrived, so the server does more than greet."""
        self._probes.fruitless = 0

    def lost(self, verifier: Peer, error: RemoteError) -> None:
        """Note that a round with this server failed."""
        self.speed.link.failed()
        if verifier is self.verifier:
            self._leave(error)

    def tell(self) -> None:
        """Wake those who wait for a change: who answers while the server is away may be another one."""
        self.change.set()
        self.change = asyncio.Event()

    def connect_again(self, why: str) -> None:
        """Disconnect and reconnect at once, because a drafter for the server's model has become usable."""
        self._leave(SourceFailed(f"{why}; connecting again"))

    async def fetch(self, shelf: Path, progress: Callable[[int, int], None]) -> None:
        """Fetch the drafter that the server offers, and reconnect to draft with it.

        `progress`: see `fetch_drafter`. Raises what that raises, and `SourceFailed`.
        """
        if (offer := self.server.offer) is None:
            return
        folder = await fetch_drafter(await self.source.client(), offer.card, shelf, progress=progress)
        await asyncio.to_thread(note_origin, folder, self.source.address)
        self.server.offer = None
        self.connect_again("the small model has arrived")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self.source.users -= 1
        if self._reading is not None:  # After the task, which may begin to fetch anew.
            await end(self._reading)
        await self.speed.close()
        if not self.source.shared and not self.source.users:
            await self.source.close()
        self.change.set()  # Nothing changes from now on; those who wait for a change are released.

    # ---- the task ----------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        while True:
            link, known = self.speed.link, self.server.met
            patience = min(self._patience, link.probe_deadline()) if known else self._patience
            try:
                verifier = await self.server.greet(patience, self.speed)
            except Exception as error:
                if isinstance(error, RemoteError | SourceFailed):
                    self.refuses = isinstance(error, Incompatible) or hopeless(error)
                else:  # A bug of ours. Answers wait for this task, and would wait for ever.
                    error = SourceFailed(f"connecting failed ({type(error).__name__}: {error})")
                self._become(None, error)
                self.tries += 1
                self._tried.set()
                self._tried = asyncio.Event()
                self._learn_to_read()
                await self._probes.pause(hopeless=self.refuses)
                continue
            self._lost.clear()
            self.refuses = False
            self._probes.fruitless += 1
            self._become(verifier, None)
            self._learn_to_read()
            await first_of(self._lost.wait(), self._gone())
            if self.server.checks and self.line_may_break and isinstance(self.error, BROKE):
                await self._clock.sleep(FIRST_WORDS_SECONDS)
            if self._probes.fruitless:
                await self._probes.pause(hopeless=False)

    def _learn_to_read(self) -> None:
        """Begin to fetch the tokenizer of the server's model, if it would check drafts with that."""
        if self._reading is not None:
            self._reading.cancel()
        self._reading = None if self.server.unread is None else asyncio.create_task(self._read(self.verifier))

    async def _read(self, plain: Peer | None) -> None:
        drafter = await self.server.learn_to_read()
        if drafter is None:
            return
        await self._idle()  # An answer keeps its tokens.
        if self.verifier is not plain or self.server.unread is None:
            return
        if plain is None:
            self._probes.hurry()  # It answered nobody in plain text, so it does not count as there.
        else:
            self._become(self.server.check_with(drafter, self.speed), None)

    async def _gone(self) -> None:
        await self.source.gone()
        self._become(None, Ended("the server on this device ended; it starts again"))

    def _leave(self, error: RemoteError | SourceFailed) -> None:
        self._become(None, error)
        self._lost.set()

    def _become(self, verifier: Peer | None, error: RemoteError | SourceFailed | None) -> None:
        why = sanitise(verifier.why if verifier else str(error))  # A server's name for its model may be anything.
        if (self.verifier, self.why, self.warming) != (verifier, why, False):
            self.verifier, self.error, self.why, self.warming = verifier, error, why, False
            self.tell()


def wants_token(error: Exception | None) -> bool:
    """Whether the server requires a token, and got none or a wrong one."""
    return isinstance(error, Refused) and error.code == "unauthorised"


def hopeless(error: Exception | None) -> bool:
    """Whether the same request would be refused again: a wrong token, a missing model, a text that is too long."""
    return isinstance(error, Refused) and not error.retry and error.code not in ("out_of_order", "unavailable")
