"""One reply: draft, verify, fall back, resume.

Rounds or a stream with the verifier while it answers, the drafter alone while it does not, and back: tokens written
alone go up as a draft, and the target goes on from what it agrees with. Yields events; knows no screen, no database.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from app.events import ModeChanged, Stats, Verified
from app.remotes.connection import Connection, hopeless
from app.remotes.peer import Endpoint, Peer, Verifier
from app.remotes.source import SourceFailed
from app.reply.answer import Answer
from app.reply.edge import Edge
from app.reply.endpoint import Telling
from app.reply.generation import Code, NoAnswer, Reason, Step, Writing, sure_path
from app.reply.hosted import Hosted
from app.sanitise import sanitise
from drafter.search import Pace
from remote import Broken, Incompatible, Refused, RemoteError
from remote.errors import quoted

RETURN_SECONDS = 10.0
"""In edge mode, how long a reply waits for a verifier that was there and went."""
FRUITLESS_SECONDS = 60.0
"""Since the last token came: then a server that is there, and fails each time, is given up."""
INCOMPATIBLE_TRIES = 2
"""In a row, after which what does not follow from what was asked is no accident."""
MAX_LINE = 200
"""Characters of what a server says that statistics keep."""
EARLY_TOKENS = 32
"""At most, that the drafter writes while the verifier starts: no more than one round then judges."""
STATS_TOKENS = 16
"""Between two statistics and checkpoints while the drafter writes alone."""


class Reply:
    """Who writes, and who goes on where that one cannot.

    `alone`: the drafter may go on alone, where the settings allow it and it was made for the model that is away.
    `early`: while the verifier starts, the drafter writes what it is sure of.
    """

    def __init__(
        self, writing: Writing, connection: Connection | None, *, alone: bool = True, early: bool = False
    ) -> None:
        self._writing = writing
        self._connection = connection
        self._alone_allowed = alone and writing.draft and writing.settings.mode in ("auto", "offline")
        # A chain of likeliest tokens: where tokens are drawn it would rarely be kept.
        self._early = early and writing.sampling.temperature == 0
        self._away = connection is None or connection.verifier is None
        """Nobody was there when it was asked for."""
        self._gained_at = writing.clock.now()
        """When the last token of the target came; before, when the reply began."""
        self._failures: list[RemoteError] = []
        """Since then."""
        self._asked_again = False
        """The last stream broke, and nothing has come since."""

    @property
    def answer(self) -> Answer:
        return self._writing.answer

    @property
    def reason(self) -> Reason | None:
        """Why it ended; None before."""
        return self._writing.reason

    @property
    def cut(self) -> str:
        """What ended the answer before the model did; empty where it is whole, or was stopped."""
        writing = self._writing
        if writing.cut_by or writing.reason != "length":
            return kept_line(writing.cut_by)
        if self.full:
            return "the conversation is as long as can be read"
        return f"cut at {writing.most:,} tokens (max_tokens)"

    @property
    def full(self) -> bool:
        """No more of this conversation can be read."""
        writing = self._writing
        short = writing.streamed is None and len(self.answer.tokens) < writing.most
        return writing.full or (writing.reason == "length" and short)

    @property
    def told(self) -> dict[str, str | int | None]:
        """What is stored of an answer by an OpenAI-compatible server, beside the statistics; empty for any other."""
        writing = self._writing
        if writing.streamed is None:
            return {}
        told: dict[str, str | int | None] = {"model": kept_line(writing.model), "cut": self.cut or None}
        if not writing.rounds:
            told["tau"] = None
        if writing.usage is not None:
            told |= {"prompt_tokens": writing.usage.prompt_tokens, "completion_tokens": writing.usage.completion_tokens}
        return told

    @property
    def stats(self) -> Stats:
        return self._writing.stats(self._connection)

    def stop(self) -> None:
        """End as soon as possible, with the tokens that are there."""
        self._writing.stopping.set()

    async def steps(self) -> AsyncGenerator[Step, None]:
        """All that happens until `reason` is known. Raises `NoAnswer`."""
        trouble: NoAnswer | None = None
        writing, connection = self._writing, self._connection
        for shown in self.answer.begin():
            yield shown
        try:
            with contextlib.nullcontext() if connection is None else connection.wanted():
                if connection is not None and connection.warming:
                    yield ModeChanged("warming", connection.why)
                    if self._early and self._can_go_alone:
                        async for step in self._meanwhile():
                            yield step
                    while connection.warming and not writing.stopping.is_set():
                        await writing.unless_stopped(connection.changed())
                while writing.reason is None:
                    if writing.stopping.is_set():
                        writing.reason = "stopped"
                    elif (steps := self._next_steps()) is None:
                        await self._until_return()
                    else:
                        async with contextlib.aclosing(steps):
                            async for step in steps:
                                if isinstance(step, Verified) and (step.tokens or step.text):
                                    self._gain()
                                yield step
        except NoAnswer as error:
            trouble = error
        for shown in self.answer.finish():
            yield shown
        if trouble is not None:
            raise trouble

    def _gain(self) -> None:
        """The target has said something."""
        self._gained_at, self._failures, self._asked_again = self._writing.clock.now(), [], False
        if self._connection is not None:
            self._connection.gained()

    def _next_steps(self) -> AsyncGenerator[Step, None] | None:
        """Whoever can go on; None where nobody can."""
        if self._connection is not None and (peer := self._peer) is not None:
            if isinstance(peer, Endpoint):
                return self._told(self._connection, peer)
            self._check_readable()
            return self._with_verifier(self._connection, peer)
        if not self._can_go_alone:
            return None
        self._check_readable()
        return self._alone()

    def _check_readable(self) -> None:
        """Raises `NoAnswer` for what neither the drafter nor a verifier can read."""
        if self._writing.unreadable is not None:
            raise self._writing.unreadable
        if self.answer.telling:
            raise NoAnswer("Only a server like the one that began this answer can go on with it.", "incompatible")

    @property
    def _peer(self) -> Peer | None:
        """Who can be asked to go on with this answer."""
        return None if self._connection is None else self._connection.verifier

    @property
    def _can_go_alone(self) -> bool:
        if not self._alone_allowed or self.answer.telling:
            return False
        connection = self._connection
        if connection is None:
            return True  # Chosen by the person.
        if connection.refuses or isinstance(connection.verifier, Endpoint):
            return self._instead and not connection.refuses
        return connection.fits or self._instead

    @property
    def _instead(self) -> bool:
        """The drafter may write in the place of any model."""
        return self._writing.settings.offline == "drafter"

    # ---- with others -------------------------------------------------------------------------------------------------

    async def _with_verifier(self, connection: Connection, verifier: Verifier) -> AsyncGenerator[Step, None]:
        """Until the answer is complete, another mode is faster, or the verifier is lost."""
        writing, limits = self._writing, verifier.card.limits
        if len(writing.prompt) >= limits.max_tokens:
            raise NoAnswer(
                f"The conversation is {len(writing.prompt)} tokens long and {quoted(verifier.card.target)} reads "
                f"{limits.max_tokens}. Ask less at once, or start a new conversation.",
                "too_long",
            )
        writing.stop_tokens |= set(verifier.card.stop_tokens)
        mode = writing.mode(connection)
        yield ModeChanged(mode, connection.why_mode if writing.choosing else connection.why)
        way = (Hosted if mode == "hosted" else Edge)(writing, connection, verifier)
        try:
            async with contextlib.aclosing(way.steps()) as steps:
                async for step in steps:
                    yield step
        except RemoteError as error:
            if isinstance(way, Hosted) and isinstance(error, Broken) and (way.begun or not self._asked_again):
                self._asked_again = True  # As a round does by itself. Where the line is down, that says why.
                return
            self._failed(connection, verifier, error)
        finally:
            writing.drafting.halt()

    def _failed(self, connection: Connection, peer: Peer, error: RemoteError) -> None:
        """Raises `NoAnswer` where nobody can go on."""
        if isinstance(error, Refused) and error.code == "too_long":
            raise NoAnswer(f"{error} Start a new conversation.", "too_long") from error
        if isinstance(error, Refused) and error.code == "out_of_order":
            self._writing.line.client = None
        elif hopeless(error):
            raise NoAnswer(str(error), "unavailable") from error
        connection.lost(peer, error)
        self._failures.append(error)
        if self._can_go_alone:
            return
        seconds = self._writing.clock.now() - self._gained_at
        if [isinstance(one, Incompatible) for one in self._failures].count(True) >= INCOMPATIBLE_TRIES:
            raise NoAnswer(f"No answer: {_sentence(error)}", "incompatible") from error
        if seconds >= FRUITLESS_SECONDS and len(self._failures) > 1:
            what = f"{len(self._failures)} times in {seconds:.0f} s"
            said = f"No answer: the server is there and failed {what}: {_sentence(error)}"
            raise NoAnswer(said, "unavailable", passing=True) from error

    async def _told(self, connection: Connection, endpoint: Endpoint) -> AsyncGenerator[Step, None]:
        """Text by a server that is no verifier, until the answer is complete or the server is lost."""
        telling = Telling(self._writing, connection, endpoint)
        async with contextlib.aclosing(telling.steps()) as steps:
            async for step in steps:
                yield step

    async def _until_return(self) -> None:
        """Wait for a verifier that was there. Raises `NoAnswer`."""
        writing, connection = self._writing, self._connection
        if connection is None:
            raise NoAnswer("There is no verifier to ask. Choose another --mode, or give --remote.", "unavailable")
        if connection.met and not (self._away and not self.answer.text and writing.settings.mode == "auto"):
            with contextlib.suppress(TimeoutError):
                async with writing.clock.within(RETURN_SECONDS):
                    while connection.verifier is None and not writing.stopping.is_set():
                        await writing.unless_stopped(connection.changed())
        if connection.verifier is None and not writing.stopping.is_set():
            raise self._nobody(connection)

    def _nobody(self, connection: Connection) -> NoAnswer:
        """Why nobody goes on, and what the person can do."""
        code: Code = "incompatible" if isinstance(connection.error, Incompatible) else "unavailable"
        passing = not connection.refuses and not isinstance(connection.error, SourceFailed)
        said = f"No answer: {_sentence(connection.why)}"
        if self._alone_allowed and not connection.fits and passing:
            said += " The drafter on this device is not known to fit that server's model, so it does not answer in its"
            said += " place (to ask the drafter: --mode offline)."
        return NoAnswer(said, code, passing=passing)

    # ---- alone, early ------------------------------------------------------------------------------------------------

    async def _meanwhile(self) -> AsyncGenerator[Step, None]:
        """What the target most likely says too, while the verifier starts; it goes up as a draft in the first round."""
        writing, drafting = self._writing, self._writing.drafting
        await drafting.quiet()
        await drafting.follow(writing.tokens)
        most = min(EARLY_TOKENS, writing.left - 1)
        if most < 1:
            return
        tree = await drafting.draft(Pace(depth=most, breadth=1, nodes=most, deepest=most))
        for token in sure_path(tree):
            if token in writing.stop_tokens:
                break
            for step in self.answer.draft(token):
                yield step
        writing.count_first()
        yield self.stats

    # ---- alone -------------------------------------------------------------------------------------------------------

    async def _alone(self) -> AsyncGenerator[Step, None]:
        """The drafter, until the answer is complete or a verifier is there."""
        writing, connection, drafting = self._writing, self._connection, self._writing.drafting
        why = "offline by choice" if connection is None else connection.why
        yield ModeChanged("offline", why)
        await drafting.quiet()
        await drafting.follow(writing.tokens)
        sampling = writing.sampling
        async with contextlib.aclosing(drafting.generate(sampling.temperature, sampling.seed)) as tokens:
            async for token in tokens:
                for step in self.answer.draft(token):
                    yield step
                writing.count_first()
                writing.end_at(self.answer.tokens)
                if len(self.answer.tokens) % STATS_TOKENS == 0:
                    yield self.stats
                if writing.reason is not None or writing.stopping.is_set():
                    break
                if self._peer is not None:
                    break
        yield self.stats


def kept_line(text: str) -> str:
    """A name from a server as statistics may hold it, and exports: one line, and a short one."""
    return " ".join(sanitise(text).split())[:MAX_LINE]


def _sentence(said: object) -> str:
    """With one full stop: what servers say has one already."""
    return str(said).rstrip(". ") + "."
