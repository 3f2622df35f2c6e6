"""One reply: who writes it, and who continues if that one cannot.

The verifier writes in rounds or in a stream while it answers, the drafter alone while it does not. Tokens that were
written alone are sent as a draft when the verifier is back, and the target continues after those that it accepts. A
reply yields events, and knows no screen and no database.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from app.battery import battery_is_low
from app.concurrency import first_of
from app.events import FailureCode, ModeChanged, Redrawn, RoundEnded, SystemUnread, ToolsLeftOut, Verified
from app.remotes.connection import Connection, hopeless, wants_token
from app.remotes.peer import Endpoint, Peer, Verifier
from app.remotes.source import SourceFailed
from app.reply.answer import INCOMPLETE
from app.reply.edge import Edge
from app.reply.endpoint import EndpointText
from app.reply.errors import NoAnswer
from app.reply.generation import Generation, Step
from app.reply.hosted import Hosted
from app.reply.offline import Offline
from app.reply.read_along import ReadAlong
from app.reply.request import CONTEXT_TOKENS
from app.reply.tool_text import ToolText, tool_endpoint
from models.config import DrafterError
from remote import Broken, Incompatible, Refused, RemoteError
from remote.errors import quoted

RETURN_SECONDS = 10.0
"""Seconds that a reply waits for a verifier that went away, if the drafter may not continue alone."""
FRUITLESS_SECONDS = 60.0
"""A reachable server that fails each time is given up when its last token is this old."""
RESTART_SECONDS = 30.0
"""Longest wait for a model on this device that has ended to be started again."""
MOST_RESTARTS = 2
"""How often that happens in one answer. A crash may be due to the text that is read."""
BACK_SECONDS = 0.5
"""Longest wait for the first probe that a new question causes: a server that is back answers it, instead of the model
on this device. Where nothing listens, the probe ends at once."""
INCOMPATIBLE_TRIES = 2
"""This many invalid replies in a row are not an accident."""

Writer = Edge | Hosted | EndpointText | Offline
"""A writer of an answer, or of a part of it, in its `steps`."""


class Reply:
    """Chooses who writes an answer, from its first token to its last.

    `stand_in`: the connection to a model on this device that answers while the server is away, if there is one.
    `alone`: the drafter may write alone if the settings allow it. `nobody`: why it may not substitute for the model
    that is away, as a sentence, or None if it may. `early`: the drafter writes what it is sure of while the
    verifier starts. `most_read`: most tokens of a conversation that are read, as far as is known by then.
    """

    def __init__(
        self,
        generation: Generation,
        *,
        stand_in: Callable[[], Connection | None] = lambda: None,
        alone: bool = True,
        nobody: Callable[[], str | None] = lambda: None,
        early: bool = False,
        most_read: Callable[[], int] = lambda: CONTEXT_TOKENS,
    ) -> None:
        self._generation, self._connection = generation, generation.connection
        self._most_read, self._stand_in = most_read, stand_in
        self._left: NoAnswer | None = None
        """A server that may charge twice was asked, and its line broke: the report if nobody continues."""
        self._reader: ReadAlong | None = None
        """The model on this device reads along, so that it can continue at once."""
        self._ended_here = 0
        """How often that model has ended while it wrote."""
        self._cannot = ""
        """Why it does not answer or continue, as a sentence; empty as far as it does."""
        self._offline = Offline(generation, generation.connection, allowed=alone, nobody=nobody, early=early)
        self._away = generation.connection is None or generation.connection.verifier is None
        """Whether nobody was available when the question was asked."""
        self._tries = 0 if generation.connection is None else generation.connection.tries
        """Failed attempts to connect by then."""
        self._gained_at = generation.clock.now()
        """When the target's last token arrived; before that, when the reply began."""
        self._failures: list[RemoteError] = []
        """Failures since then."""
        self._tools_wanted = generation.desk is not None
        self._asked_again = False
        """Whether the last stream broke and nothing has arrived since."""
        self._said: set[type[Step]] = set()
        """What was already reported about how the answer is written."""

    async def steps(self) -> AsyncGenerator[Step, None]:
        """The events of the answer until its `reason` is known. Raises `NoAnswer`, `DrafterError`."""
        trouble: NoAnswer | DrafterError | None = None
        generation, connection = self._generation, self._connection
        for shown in generation.answer.begin():
            yield shown
        try:
            with contextlib.nullcontext() if connection is None else connection.wanted():
                if connection is not None and connection.warming:
                    yield connection.mode("warming")
                    if self._offline.early:
                        await self._address(own_target=True)
                        if generation.unreadable is None:
                            async for step in self._offline.early_steps():
                                yield step
                    while connection.warming and not generation.stopping:
                        await generation.unless_stopped(connection.changed())
                while generation.reason is None:
                    if (preparing := self._preparing) is not None:
                        yield preparing
                    writer = None if generation.stopping else await self._next_writer()
                    if generation.stopping:
                        generation.end("stopped")
                    elif writer is None:
                        await self._until_return()
                    else:
                        async with contextlib.aclosing(self._written_by(writer)) as steps:
                            async for step in steps:
                                yield step
        except (NoAnswer, DrafterError) as error:
            trouble = error
        finally:
            generation.drafting.read_no_more()
            if self._reader is not None:
                await self._reader.end()
            if trouble is None and generation.reason not in ("end", "length"):
                generation.session.stop()
        if connection is not None:
            connection.speed.answered()
        for shown in generation.answer.finish():
            yield shown
        if trouble is not None:
            raise trouble

    async def _written_by(self, writer: Writer) -> AsyncGenerator[Step, None]:
        """The part of the answer that this writer writes, up to the end of the answer or a failure of the writer."""
        here = isinstance(writer, EndpointText) and writer.here
        for step in self._unsaid(writer):
            yield step
        try:
            async with contextlib.aclosing(self._left_behind(writer) or writer.steps()) as steps:
                async for step in steps:
                    if isinstance(step, Verified) and (step.tokens or step.text):
                        self._gained_at, self._failures, self._asked_again = self._generation.clock.now(), [], False
                        if self._connection is not None:
                            self._connection.gained()
                        if self._reader is not None and not here:
                            self._reader.follow(len(step.text))
                    yield step
        except RemoteError as error:
            self._failed(writer, error)
        finally:
            self._generation.drafting.halt()
        if isinstance(writer, EndpointText):
            self._left = self._left or (None if here else writer.broke)
            self._ended_here += here and writer.broke is not None
            if writer.could_not:
                self._give_up_here(writer.could_not)

    # ---- who continues -----------------------------------------------------------------------------------------------

    async def _next_writer(self) -> Writer | None:
        """Who can continue the answer, or None if nobody can. Raises `NoAnswer`, `DrafterError`."""
        connection = self._connection
        if connection is not None and (peer := self._server) is not None:
            desk = self._generation.desk
            if desk is not None and (endpoint := tool_endpoint(connection, peer)) is not None:
                return ToolText(self._generation, connection, peer, endpoint, desk)
            if self._generation.called:
                raise NoAnswer(
                    "This answer has tool calls, which this server does not support, so it cannot "
                    "continue it. Choose the server that began it.",
                    "incompatible",
                )
            if isinstance(peer, Endpoint):
                self._read_along(connection)
                followed = self._may_stand_in and self._stand_in() is not None
                return EndpointText(self._generation, connection, peer, followed=followed)
            await self._address(own_target=self._generation.drafting.reads(peer.card.memory))
            self._check_readable()
            if not self._offline.possible:
                self._read_along(connection)
            return self._with_verifier(connection, peer)
        if self._generation.called:
            return None  # Another model would make up what the calls gave.
        if not self._offline.possible:
            return await self._from_here()
        await self._address(own_target=True)
        self._check_readable()
        return self._offline

    def _left_behind(self, writer: Writer) -> AsyncGenerator[Step, None] | None:
        """What the verifier has written since its stream broke, or None if it has written nothing.

        It arrives at once; another writer then continues after it.
        """
        generation = self._generation
        if not isinstance(writer, Edge | Hosted):
            return None
        session = generation.session.with_verifier(writer.verifier)

        async def steps() -> AsyncGenerator[Step, None]:
            yield writer.connection.mode("hosted")
            committed, most = generation.committed, generation.most - generation.answer.verified
            asking = session.written(committed, most=most, deadline=generation.deadline(writer.connection, committed))
            if (written := await generation.unless_stopped(asking)) is not None:
                for step in generation.take_progress(written):
                    yield step
                yield RoundEnded(generation.stats)

        return steps() if session.left(generation.given.sampling) else None

    @property
    def _may_stand_in(self) -> bool:
        """Another model may continue the answer: the server is out of reach, and has not refused to answer."""
        given, connection = self._generation.given, self._connection
        refuses = connection is not None and connection.refuses
        desk = self._generation.desk
        called = desk is not None and desk.calls  # Nobody else would know their results.
        return given.settings.offline == "local" and not (given.images or refuses or called or self._cannot)

    @property
    def _preparing(self) -> ModeChanged | None:
        """Report that the model on this device loads or reads, if it is to continue and cannot yet."""
        if self._generation.stopping or self._server is not None or self._offline.possible or not self._may_stand_in:
            return None
        stand_in = self._stand_in()
        reads = self._reader is not None and self._reader.reads
        if stand_in is None or (stand_in.verifier is not None and not reads):
            return None
        name, does = stand_in.source.name or "the model", "loads" if stand_in.verifier is None else "reads"
        return ModeChanged("offline", f"{name} on this device {does}: {self._why_here}", model=name, checks=False)

    def _read_along(self, connection: Connection) -> None:
        """Have the model on this device read what a server writes, if the line to that may break."""
        if self._reader is None and connection.line_may_break and self._may_stand_in and not battery_is_low():
            answer = self._generation.answer
            if (stand_in := self._stand_in()) is not None:
                messages = self._generation.given.messages
                self._reader = ReadAlong(stand_in, messages, lambda: answer.decoded(answer.verified).rstrip(INCOMPLETE))
        if self._reader is not None:
            self._reader.follow(0)

    async def _from_here(self) -> EndpointText | None:
        """The model on this device that continues the answer, or None if there is none."""
        stand_in = self._stand_in() if self._may_stand_in else None
        if stand_in is None:
            return None
        generation, connection = self._generation, self._connection
        stand_in.start()
        if connection is not None and self._away and connection.tries == self._tries:
            with contextlib.suppress(TimeoutError):
                async with generation.clock.within(BACK_SECONDS):
                    await self._unless_back(connection.tried(self._tries))
            if generation.stopping or self._server is not None:
                return None
        seconds = RESTART_SECONDS if stand_in.server.met else math.inf
        with stand_in.wanted(), contextlib.suppress(TimeoutError):
            async with generation.clock.within(seconds):
                while stand_in.verifier is None and (stand_in.warming or stand_in.starts_again):
                    await self._unless_back(stand_in.changed())
                    if generation.stopping or self._server is not None:
                        return None
        if not isinstance(stand_in.verifier, Endpoint):
            self._give_up_here(stand_in.why)
            return None
        if self._reader is not None:
            await self._unless_back(self._reader.caught_up())
        followed = self._ended_here < MOST_RESTARTS
        away = self._why_here
        if connection is None:
            return EndpointText(generation, stand_in, stand_in.verifier, away=away, followed=followed)
        drafts = not generation.answer.is_text and connection.server.reads_tokens and self._reads_on
        if drafts and not generation.prompt:
            await self._address(own_target=connection.server.fits)
        return EndpointText(generation, stand_in, stand_in.verifier, away=away, drafts=drafts, followed=followed)

    @property
    def _why_here(self) -> str:
        if self._connection is None:
            return "offline by choice"
        return self._connection.why if self._connection.verifier is None else "the server cannot continue its text"

    def _give_up_here(self, why: str) -> None:
        """Record why the model on this device does not answer or continue. It then counts as absent."""
        stand_in, does = self._stand_in(), "continue" if self._generation.answer.text else "answer"
        name = "The model" if stand_in is None else stand_in.source.name or "The model"
        self._cannot = f"{name} on this device cannot {does}: {_sentence(why)}"

    @property
    def _server(self) -> Peer | None:
        """The server, if it is there and can write this answer, which keeps the tokens in which it was begun."""
        peer = None if self._connection is None or self._left else self._connection.verifier
        if self._written_here and not (isinstance(peer, Endpoint) and peer.model.continues):
            return None
        return None if isinstance(peer, Verifier) and not self._reads_on else peer

    @property
    def _written_here(self) -> bool:
        """Whether a model on this device has written text that nobody checks."""
        answer = self._generation.answer
        return answer.is_text and any(stretch.here for stretch in answer.stretches)

    @property
    def _reads_on(self) -> bool:
        """Whether the server reads the tokens in which this answer was begun, as far as known."""
        drafter = None if self._connection is None else self._connection.server.drafter
        return drafter is None or drafter.text.digest == self._generation.given.text.digest

    async def _unless_back(self, wait: Coroutine[Any, Any, object]) -> None:
        """Wait for the model on this device, unless the person stops the answer or the server is back first."""
        back = [] if self._connection is None or self._left else [self._connection.changed()]
        await self._generation.unless_stopped(first_of(wait, *back))

    async def _address(self, *, own_target: bool) -> None:
        """Have the conversation read by the next writer, as for `Generation.address`."""
        await self._generation.address(own_target=own_target, most_read=self._most_read())

    def _unsaid(self, writer: Writer) -> list[Step]:
        """What this writer does differently than expected, if not yet reported in this answer."""
        given, endpoint = self._generation.given, isinstance(writer, EndpointText)
        steps: list[Step] = []
        if given.system and self._generation.guided and not endpoint:
            steps.append(SystemUnread())
        if given.redrawn and not (endpoint and "temperature" in given.left_to_server):
            steps.append(Redrawn(given.sampling.temperature))
        if self._tools_wanted and not isinstance(writer, ToolText):
            steps.append(ToolsLeftOut(self._name_of(writer)))
        steps = [step for step in steps if type(step) not in self._said]
        self._said.update(type(step) for step in steps)
        return steps

    def _name_of(self, writer: Writer) -> str:
        if isinstance(writer, EndpointText):
            return writer.name
        return "The small model" if isinstance(writer, Offline) else writer.verifier.model_name

    def _check_readable(self) -> None:
        """Raises `NoAnswer` if neither the drafter nor a verifier can read the conversation."""
        if (unreadable := self._generation.unreadable) is not None:
            raise unreadable
        if self._generation.given.sums_up and self._generation.guided:
            raise NoAnswer("This model answers single questions and cannot summarise a conversation.", "internal")
        if self._generation.answer.is_text:
            raise NoAnswer("Only a server like the one that began this answer can continue it.", "incompatible")

    def _with_verifier(self, connection: Connection, verifier: Verifier) -> Edge | Hosted:
        """The writer for a verifier, in the currently faster mode. Raises `NoAnswer` if it cannot read that much."""
        generation, limits = self._generation, verifier.card.limits
        length = len(generation.prompt)
        if length >= limits.max_tokens:
            raise NoAnswer(
                f"The conversation is {length} tokens long and {quoted(verifier.card.target)} reads "
                f"{limits.max_tokens}. Shorten the question, or start a new conversation.",
                "too_long",
            )
        generation.stop_tokens.update(verifier.card.stop_tokens)
        generation.answer.model = verifier.model_name
        if generation.mode(connection) == "edge":
            return Edge(generation, connection, verifier)
        # With a server that this program runs, it would only waste time of the shared cores.
        alone = generation.drafting.reads(verifier.card.memory) and self._offline.possible
        reads_along = alone and connection.line_may_break
        return Hosted(generation, connection, verifier, alone=alone, reads_along=reads_along, again=self._asked_again)

    def _failed(self, writer: Writer, error: RemoteError) -> None:
        """Note that a verifier failed. Raises `NoAnswer` if nobody can continue."""
        if not isinstance(writer, Edge | Hosted):
            raise error
        if isinstance(writer, Hosted) and isinstance(error, Broken) and (writer.begun or not self._asked_again):
            self._asked_again = True  # As a round does on its own. If the line is down, that gives the reason.
            return
        if isinstance(error, Refused) and error.code == "too_long":
            raise NoAnswer(f"{error} Start a new conversation.", "too_long") from error
        if isinstance(error, Refused) and error.code == "out_of_order":
            self._generation.session.drop()
        elif hopeless(error):
            raise NoAnswer(str(error), "unavailable", wants_token=wants_token(error)) from error
        writer.connection.lost(writer.verifier, error)
        self._failures.append(error)
        if self._offline.possible or (self._may_stand_in and self._stand_in() is not None):
            return
        seconds = self._generation.clock.now() - self._gained_at
        if [isinstance(one, Incompatible) for one in self._failures].count(True) >= INCOMPATIBLE_TRIES:
            raise NoAnswer(f"No answer: {_sentence(error)}", "incompatible") from error
        if seconds >= FRUITLESS_SECONDS and len(self._failures) > 1:
            what = f"{len(self._failures)} times in {seconds:.0f} s"
            said = f"No answer: the server is available but failed {what}: {_sentence(error)}"
            raise NoAnswer(said, "unavailable", passing=True) from error

    # ---- nobody continues --------------------------------------------------------------------------------------------

    async def _until_return(self) -> None:
        """Wait for a verifier that was there. Raises `NoAnswer`."""
        generation, connection = self._generation, self._connection
        away = connection is not None and connection.verifier is None
        if self._written_here and self._server is None and (self._left or not away):
            generation.end("length", cut_by=self._cannot.rstrip("."), kind="broken")
            return
        if self._left is not None:
            raise self._left.adding(self._cannot)
        if connection is None and (why := self._cannot or self._offline.why_not):
            raise NoAnswer(f"No answer: offline by choice. {why}", "unavailable", passing=True)
        if connection is None:
            raise NoAnswer("There is no server to ask. Choose another --mode, or give --remote.", "unavailable")
        if isinstance(connection.verifier, Verifier) and not self._reads_on:
            told = "No answer: the server now runs another model than expected. Ask again."
            raise NoAnswer(told, "unavailable", passing=True)
        if connection.server.met and not (
            self._away and not self._generation.answer.text and generation.given.settings.mode == "auto"
        ):
            with contextlib.suppress(TimeoutError):
                async with generation.clock.within(RETURN_SECONDS):
                    while connection.verifier is None and not generation.stopping:
                        await generation.unless_stopped(connection.changed())
        if connection.verifier is None and not generation.stopping:
            raise self._nobody(connection)

    def _nobody(self, connection: Connection) -> NoAnswer:
        """Why nobody can continue, and what the person can do."""
        code: FailureCode = "incompatible" if isinstance(connection.error, Incompatible) else "unavailable"
        passing = not connection.refuses and not isinstance(connection.error, SourceFailed)
        said = f"No answer: {_sentence(connection.why)}"
        why_not = self._cannot or (self._offline.why_not if passing else None)
        return NoAnswer(said, code, passing=passing, wants_token=wants_token(connection.error)).adding(why_not or "")


def _sentence(said: object) -> str:
    """The text with one full stop; what servers say may have one already."""
    return str(said).rstrip(". ") + "."
