"""One reply: who writes it, and who goes on when that one cannot.

The verifier writes in rounds or in a stream while it answers, the drafter alone while it does not. Tokens that were
written alone go up as a draft when the verifier is back, and the target goes on from what it agrees with. A reply
yields events, and knows no screen and no database.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable

from app.events import EndReason, FailureCode, Redrawn, Stats, SystemUnread, Verified
from app.remotes.connection import Connection, hopeless, wants_token
from app.remotes.mode_meter import Verifying
from app.remotes.peer import Endpoint, Peer, Verifier
from app.remotes.source import SourceFailed
from app.reply.answer import Answer
from app.reply.edge import Edge
from app.reply.endpoint import EndpointText
from app.reply.errors import NoAnswer
from app.reply.generation import Generation, Step
from app.reply.hosted import Hosted
from app.reply.offline import Offline
from app.reply.request import CONTEXT_TOKENS
from models.config import DrafterError
from remote import Broken, Incompatible, Refused, RemoteError
from remote.errors import quoted

RETURN_SECONDS = 10.0
"""Seconds that a reply waits for a verifier that went away, if the drafter may not go on alone."""
FRUITLESS_SECONDS = 60.0
"""A server that is there, and fails each time, is given up when its last token is this old."""
INCOMPATIBLE_TRIES = 2
"""Nonsense so many times in a row is no accident."""


class Reply:
    """Chooses who writes an answer, from its first token to its last.

    `alone`: the drafter may write alone if the settings allow it. `nobody`: why it may not write in the place of the
    model that is away, as a sentence; None: it may.
    `early`: the drafter writes what it is sure of while the verifier starts. `most_read`: tokens of a conversation that
    are read at most, as far as is known by then.
    """

    def __init__(
        self,
        generation: Generation,
        connection: Connection | None,
        *,
        alone: bool = True,
        nobody: Callable[[], str | None] = lambda: None,
        early: bool = False,
        most_read: Callable[[], int] = lambda: CONTEXT_TOKENS,
    ) -> None:
        self.generation = generation
        self._connection = connection
        self._most_read = most_read
        self._offline = Offline(generation, connection, allowed=alone, nobody=nobody, early=early)
        self._away = connection is None or connection.verifier is None
        """Nobody was there when the question was asked."""
        self._gained_at = generation.clock.now()
        """When the last token of the target came; before that, when the reply began."""
        self._failures: list[RemoteError] = []
        """Failures since then."""
        self._asked_again = False
        """The last stream broke, and nothing has come since."""
        self._told_unread = False
        """It was said that the system prompt is not read."""
        self._told_redrawn = False
        """It was said that the answer is drawn."""

    @property
    def answer(self) -> Answer:
        """The answer as it grows."""
        return self.generation.answer

    @property
    def reason(self) -> EndReason | None:
        """Why the answer is over; None while it is written."""
        return self.generation.reason

    @property
    def stats(self) -> Stats:
        """The totals so far."""
        return self.generation.stats(self._connection)

    async def steps(self) -> AsyncGenerator[Step, None]:
        """The events of the answer until `reason` is known. Raises `NoAnswer`, `DrafterError`."""
        trouble: NoAnswer | DrafterError | None = None
        generation, connection = self.generation, self._connection
        for shown in generation.begin():
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
                    steps = None if generation.stopping else await self._next_steps()
                    if generation.stopping:
                        generation.end("stopped")
                    elif steps is None:
                        await self._until_return()
                    else:
                        if self._leaves_system_out():
                            yield SystemUnread()
                        if self._redraws():
                            yield Redrawn(generation.given.sampling.temperature)
                        async with contextlib.aclosing(steps):
                            async for step in steps:
                                if isinstance(step, Verified) and (step.tokens or step.text):
                                    self._gain()
                                yield step
        except (NoAnswer, DrafterError) as error:
            trouble = error
        finally:
            generation.drafting.read_no_more()
        if connection is not None:
            connection.answered()
        for shown in generation.finish():
            yield shown
        if trouble is not None:
            raise trouble

    def _gain(self) -> None:
        """Note that the target has said something."""
        self._gained_at, self._failures, self._asked_again = self.generation.clock.now(), [], False
        if self._connection is not None:
            self._connection.gained()

    # ---- who goes on -------------------------------------------------------------------------------------------------

    async def _next_steps(self) -> AsyncGenerator[Step, None] | None:
        """The steps of whoever can go on; None: nobody can. Raises `NoAnswer`, `DrafterError`."""
        if self._connection is not None and (peer := self._connection.verifier) is not None:
            if isinstance(peer, Endpoint):
                return EndpointText(self.generation, self._connection, peer).steps()
            await self._address(own_target=self.generation.drafting.reads(peer.card.memory))
            self._check_readable()
            return self._with_verifier(self._connection, peer)
        if not self._offline.possible:
            return None
        await self._address(own_target=True)
        self._check_readable()
        return self._offline.steps()

    async def _address(self, *, own_target: bool) -> None:
        """Have the conversation read by who writes next, as for `Generation.address`."""
        await self.generation.address(own_target=own_target, most_read=self._most_read())

    def _leaves_system_out(self) -> bool:
        """Whether the writer who comes now does not read the system prompt, for the first time in this answer."""
        endpoint = self._connection is not None and isinstance(self._connection.verifier, Endpoint)
        unread = bool(self.generation.given.system) and self.generation.guided and not endpoint
        first, self._told_unread = unread and not self._told_unread, self._told_unread or unread
        return first

    def _redraws(self) -> bool:
        """Whether the answer is drawn at a temperature that nobody chose, and that was not said yet."""
        endpoint = self._connection is not None and isinstance(self._connection.verifier, Endpoint)
        given = self.generation.given
        drawn = given.redrawn and not (endpoint and "temperature" in given.left_to_server)
        first, self._told_redrawn = drawn and not self._told_redrawn, self._told_redrawn or drawn
        return first

    def _check_readable(self) -> None:
        """Raises `NoAnswer` for what neither the drafter nor a verifier can read."""
        if (unreadable := self.generation.unreadable) is not None:
            raise unreadable
        if self.answer.is_text:
            raise NoAnswer("Only a server like the one that began this answer can go on with it.", "incompatible")

    async def _with_verifier(self, connection: Connection, verifier: Verifier) -> AsyncGenerator[Step, None]:
        """Steps until the answer is complete, another mode is faster, or the verifier is lost. Raises `NoAnswer`."""
        generation, limits = self.generation, verifier.card.limits
        length = len(generation.prompt)
        if length >= limits.max_tokens:
            raise NoAnswer(
                f"The conversation is {length} tokens long and {quoted(verifier.card.target)} reads "
                f"{limits.max_tokens}. Ask less at once, or start a new conversation.",
                "too_long",
            )
        generation.add_stop_tokens(verifier.card.stop_tokens)
        mode = generation.mode(connection)
        generation.written_by(verifier.model_name)
        yield connection.mode(mode, connection.why_mode if generation.chooses_mode else None)
        writer = self._writer(mode, connection, verifier)
        try:
            async with contextlib.aclosing(writer.steps()) as steps:
                async for step in steps:
                    yield step
        except RemoteError as error:
            if isinstance(writer, Hosted) and isinstance(error, Broken) and (writer.begun or not self._asked_again):
                self._asked_again = True  # As a round does by itself. If the line is down, that says why.
                return
            self._failed(connection, verifier, error)
        finally:
            generation.drafting.halt()

    def _writer(self, mode: Verifying, connection: Connection, verifier: Verifier) -> Edge | Hosted:
        """Who writes with a verifier in this mode."""
        if mode == "edge":
            return Edge(self.generation, connection, verifier)
        own = self.generation.drafting.reads(verifier.card.memory)
        # A server that this program runs would only lose the time of the cores that they share.
        alone = own and self._offline.possible
        reads_along = alone and connection.line_may_break
        return Hosted(
            self.generation, connection, verifier, alone=alone, reads_along=reads_along, again=self._asked_again
        )

    def _failed(self, connection: Connection, peer: Peer, error: RemoteError) -> None:
        """Note that a verifier failed. Raises `NoAnswer` if nobody can go on."""
        if isinstance(error, Refused) and error.code == "too_long":
            raise NoAnswer(f"{error} Start a new conversation.", "too_long") from error
        if isinstance(error, Refused) and error.code == "out_of_order":
            self.generation.session.drop()
        elif hopeless(error):
            raise NoAnswer(str(error), "unavailable", wants_token=wants_token(error)) from error
        connection.lost(peer, error)
        self._failures.append(error)
        if self._offline.possible:
            return
        seconds = self.generation.clock.now() - self._gained_at
        if [isinstance(one, Incompatible) for one in self._failures].count(True) >= INCOMPATIBLE_TRIES:
            raise NoAnswer(f"No answer: {_sentence(error)}", "incompatible") from error
        if seconds >= FRUITLESS_SECONDS and len(self._failures) > 1:
            what = f"{len(self._failures)} times in {seconds:.0f} s"
            said = f"No answer: the server is there and failed {what}: {_sentence(error)}"
            raise NoAnswer(said, "unavailable", passing=True) from error

    # ---- nobody goes on ----------------------------------------------------------------------------------------------

    async def _until_return(self) -> None:
        """Wait for a verifier that was there. Raises `NoAnswer`."""
        generation, connection = self.generation, self._connection
        if connection is None and self._offline.why_not is not None:
            raise NoAnswer(f"No answer: offline by choice. {self._offline.why_not}", "unavailable", passing=True)
        if connection is None:
            raise NoAnswer("There is no server to ask. Choose another --mode, or give --remote.", "unavailable")
        if connection.met and not (self._away and not self.answer.text and generation.given.settings.mode == "auto"):
            with contextlib.suppress(TimeoutError):
                async with generation.clock.within(RETURN_SECONDS):
                    while connection.verifier is None and not generation.stopping:
                        await generation.unless_stopped(connection.changed())
        if connection.verifier is None and not generation.stopping:
            raise self._nobody(connection)

    def _nobody(self, connection: Connection) -> NoAnswer:
        """Why nobody goes on, and what the person can do."""
        code: FailureCode = "incompatible" if isinstance(connection.error, Incompatible) else "unavailable"
        passing = not connection.refuses and not isinstance(connection.error, SourceFailed)
        said = f"No answer: {_sentence(connection.why)}"
        if passing and self._offline.why_not is not None:
            said += f" {self._offline.why_not}"
        return NoAnswer(said, code, passing=passing, wants_token=wants_token(connection.error))


def _sentence(said: object) -> str:
    """The text with one full stop; what servers say may have one already."""
    return str(said).rstrip(". ") + "."
