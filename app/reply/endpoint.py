"""An answer as text from an OpenAI-compatible server, which verifies nothing and does not know our tokens.

A question may cost money, so it is sent once. Any failure after that ends the answer, with the text received so far.
Only a request that was never sent, or that the server refused before it began, is repeated. The answer is stored as
text without tokens, because none are verified and no limit is counted in them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from os.path import commonprefix
from typing import Any, TypeVar

from app.concurrency import abandon, unless_set
from app.events import Cut, FailureCode, ModeChanged, RoundEnded
from app.exits import GO_ON
from app.model_names import short_model
from app.remotes.connection import Connection, wants_token
from app.remotes.peer import Endpoint, Verifier
from app.reply.answer import INCOMPLETE, Shown
from app.reply.errors import NoAnswer
from app.reply.generation import Generation, Step
from remote import Busy, ChatStream, Incompatible, LinkDown, Refused, RemoteError, TooSlow, Unsent
from remote.errors import quoted
from remote.openai.dialect import SAMPLING
from remote.openai.ends import end_of
from remote.protocol import Sampling
from remote.tasks import end

T = TypeVar("T")

BETWEEN_SECONDS = 60.0
"""Longest silence between two words, if the remote's settings name none. The system detects a dead line sooner; a busy
server may pause an answer for a while."""
BUSY_TRIES = 4
"""How many requests a full server may refuse. It is asked again after 1, 2 and 4 s, or when it says."""
BUSY_SECONDS = 60.0
"""Longest wait that a server may ask for."""
UNSENT_TRIES = 3
"""How often a server may be found and lost again before the question is sent."""
MOST_REASON = 80
"""Characters of a server's reason for an end that are shown."""
MOST_HERE = 4096
"""Most tokens that a model on this device writes at once, if the person has set no limit: a small model may repeat
itself until its context is full."""
SHARE = 256
"""The answer is stored when it has grown by this fraction, because all of it is written each time."""
IMAGES = (
    "An image was sent ({names}). If {model} cannot read images, choose a model that can, or ask in a new conversation "
    "without the image. The question and its files are kept."
)


class EndpointText:
    """The text of one answer, by one OpenAI-compatible server, or from where another one broke off.

    `away`: why the server that was asked is away, if this is a model on this device that stands in for it. `drafts`:
    that server can check the text, so it is kept as a draft, and this ends when the server is back. `followed`: if the
    line breaks, such a model continues, or this one when it has been started again.
    """

    def __init__(
        self,
        generation: Generation,
        connection: Connection,
        endpoint: Endpoint,
        *,
        away: str | None = None,
        drafts: bool = False,
        followed: bool = False,
    ) -> None:
        self._generation, self._connection, self._endpoint = generation, connection, endpoint
        self._host = endpoint.client.host
        self.here = away is not None
        """Whether this is a model on this device."""
        self._away, self._followed = away, followed
        self.broke: NoAnswer | None = None
        """The line has broken, and somebody else is to continue. If nobody can, this is reported."""
        self.could_not = ""
        """Why a model on this device did not answer or continue; empty if it did, or may be started again."""
        answer = generation.answer
        self._who = self._host if away is None else f"{self.name} on this device"
        """Who writes, for a sentence."""
        self._drafts, self._back = drafts, asyncio.Event()
        if away is None:
            self._known = answer.server_text or answer.sent or answer.decoded(answer.verified)
        elif drafts:
            self._known = answer.join(self.name)
        else:
            self._known = answer.decoded(len(answer.tokens)).rstrip(INCOMPLETE) or answer.sent
        """The text that the server is to continue."""
        self._join = Continuation(self._known, continues=endpoint.model.continues, exact=away is not None)
        self._speaks = self._thinks = False
        """Whether it has written a word, and whether the model is reasoning."""
        self._thinking_since: float | None = None

    async def steps(self) -> AsyncGenerator[Step, None]:
        """The text until the answer is complete. Returns early if another writer, or another try, is to write it.

        Raises `NoAnswer`.
        """
        generation = self._generation
        if (
            self._away is None
            and self._endpoint is self._connection.verifier
            and generation.given.settings.mode == "edge"
        ):
            advice = "which checks no drafts. Choose --mode auto or hosted"
            raise NoAnswer(f"{self._host} is an {self._endpoint.client.api} server, {advice}.", "incompatible")
        yield self._mode()
        await generation.drafting.quiet()
        stream: ChatStream | None = None
        watching = asyncio.create_task(self._watch())
        try:
            for tries in range(1, BUSY_TRIES + 1):
                try:
                    stream = await self._opened()
                    break
                except Busy as error:
                    wait = 2.0 ** (tries - 1) if error.after is None else error.after
                    if tries == BUSY_TRIES or wait > BUSY_SECONDS:
                        raise
                    said = f"{self._who} is busy; retrying in {wait:.0f} s"
                    yield self._mode(said) if self.here else self._connection.mode("hosted", said)
                    await generation.unless_stopped(generation.clock.sleep(wait))
                    yield self._mode()  # It is over, whether the answer begins, fails or is stopped.
                    if generation.stopping:
                        break
            if stream is None:
                if not self._back.is_set():
                    generation.end("stopped")
                return
            if not self._drafts:
                generation.figures.carried(stream, here=self.here)
            if self._away is None:
                generation.answer.model = self.name
                generation.figures.price = self._connection.source.price or self._endpoint.model.price or None
            if refused := _chosen(stream.left_out, generation.given.sampling):
                yield self._mode(f"the server does not accept {refused}")
            async for step in self._read(stream):
                yield step
        except (RemoteError, Diverged) as error:
            if self._thinks:  # No longer.
                yield self._mode()
            self._fail(error)
        finally:
            await end(watching)
            if stream is not None:
                await stream.aclose()

    @property
    def name(self) -> str:
        """The model's name: a person's own for one on this device."""
        return self._endpoint.model.id if self._away is None else self._connection.source.name or ""

    def _mode(self, also: str = "") -> ModeChanged:
        if self._away is None:
            return self._connection.mode("hosted", f"{self._connection.why}; {also}" if also else None)
        said = f"{self.name} on this device writes: {self._away}"
        return ModeChanged("offline", f"{said}; {also}" if also else said, model=self.name, checks=False)

    async def _opened(self) -> ChatStream | None:
        """The answer as soon as it begins, or None if it is stopped before. An answer that is not taken is closed."""
        asking, stream = asyncio.create_task(self._ask()), None
        try:
            stream = await self._unless_over(asking)
        finally:
            if stream is None:
                await abandon(asking)
        return stream

    async def _watch(self) -> None:
        """Note that the server that can check what is written here is back."""
        connection = self._generation.connection
        while self._drafts and connection is not None:
            if isinstance(connection.verifier, Verifier):
                self._back.set()
                return
            await connection.changed()

    async def _unless_over(self, work: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T | None:
        """The result of `work`, or None if the person stops the answer or the server is back first."""
        unless_back = unless_set(self._back, work)
        return await self._generation.unless_stopped(unless_back)

    async def _ask(self) -> ChatStream:
        """Send the question, with the answer so far if the server can continue it."""
        given, options = self._generation.given, self._endpoint.client.options
        first = options.first_words_seconds or given.settings.first_words_timeout
        begun = [("assistant", self._join.sent)] if self._join.sent else []
        predicts = not self._known and self._endpoint.client.may_predict(self._endpoint.model)
        return await self._endpoint.client.chat(
            [*given.messages, *begun],
            given.sampling,
            unset=() if self.here else given.left_to_server,
            model=self._endpoint.model.id,
            most=self._most,
            deadline=first,
            silence=options.read_seconds or BETWEEN_SECONDS,
            continued=bool(begun),
            prediction=given.prediction if predicts else "",
        )

    @property
    def _most(self) -> int | None:
        """Most tokens that it is to write, or None for as many as the server allows."""
        given = self._generation.given
        if self._drafts and given.most is not None:
            return self._generation.left
        return given.settings.max_tokens or (MOST_HERE if self.here else None)

    async def _read(self, stream: ChatStream) -> AsyncGenerator[Step, None]:
        generation, answer = self._generation, self._generation.answer
        saved = 0
        while generation.reason is None and not self._back.is_set():
            piece = await self._unless_over(anext(stream, None))
            if generation.stopping:
                generation.end("stopped")
            elif piece is None and not self._back.is_set():
                self._join.finish()
                for shown in self._end(stream):
                    yield shown
            elif piece is not None:
                for step in self._take(stream, piece):
                    yield step
            if generation.reason is not None or answer.length - saved > answer.length // SHARE:
                saved = answer.length
                yield RoundEnded(generation.stats)
        if self._thinks:  # No longer.
            self._thinks = False
            yield self._mode()
        if answer.length > saved:
            yield RoundEnded(generation.stats)

    def _take(self, stream: ChatStream, piece: str) -> list[Step]:
        """Process a piece of the stream. An empty piece is reasoning."""
        steps: list[Step] = []
        generation, name = self._generation, self.name
        if piece:
            self._connection.gained()
        if piece and not self._speaks and not self._drafts:
            self._speaks = True
            shown = [] if generation.answer.is_text else generation.answer.begin_text(self._known)
            steps += [*generation.answer.written_by(name, here=self._away is not None), *shown]
            generation.answer.model = generation.answer.model or name
            self._connection.speed.speaks(stream)
        if piece and self._thinks:
            self._thinks = False
            steps.append(self._mode())
        if not piece and not self._thinks:
            self._thinks = True
            steps.append(self._mode(f"{name} is reasoning"))
        if thought := stream.new_thoughts():
            now = generation.clock.now()
            self._thinking_since = now if self._thinking_since is None else self._thinking_since
            steps.append(generation.answer.add_reasoning(thought, now - self._thinking_since))
        if self._drafts:
            steps += generation.draft_text(self._join.take(piece))
            if generation.answer.is_text:  # Nobody can check it.
                self._drafts, self._speaks = False, True
                self._back.clear()
                generation.answer.model = generation.answer.model or name
        else:
            steps += generation.answer.add_text(self._join.take(piece))
            generation.figures.grew(generation.answer)
        return steps

    def _end(self, stream: ChatStream) -> list[Shown]:
        """End the answer: whether it is complete, and what cut it off."""
        generation = self._generation
        end, cut_by = end_of(stream.reason), ""
        kind: Cut | None = None
        if end == "filter":
            cut_by, kind = "the server's content filter ended it", "filter"
        elif end == "broken":
            cut_by, kind = f"{self._who} broke it off ({stream.reason})", "broken"
        elif end == "tools":
            cut_by, kind = "the model called a tool, though none was offered", "other"
        elif stream.overlong:
            cut_by, kind = "it is too long to store in full", "length"
        elif end in ("length", "context"):
            limit, kind = self._limit(stream, full=end == "context")
            cut_by = limit if stream.spoken else f"{limit}, while it was still reasoning"
        elif end == "unknown":
            told = quoted((stream.reason or "")[:MOST_REASON])
            cut_by, kind = f'{self._who} ended it for an unknown reason, "{told}"', "other"
        cut = end in ("length", "context", "broken", "unknown") or stream.overlong
        shown = generation.draft_end() if self.here and not cut else []
        generation.end("length" if cut else "end", cut_by=cut_by, kind=kind)
        return shown

    def _limit(self, stream: ChatStream, *, full: bool) -> tuple[str, Cut]:
        """The limit that cut an answer, in words and as one word. `full`: the server says that it is the context.

        A full context of a model on this device is no end of the conversation: the server may read more.
        """
        most, window = self._generation.given.settings.max_tokens, self._endpoint.model.max_model_len
        used = 0 if stream.usage is None else stream.usage.prompt_tokens + stream.usage.completion_tokens
        if full or (window is not None and used >= window - 1):
            size = "" if window is None else f", {window:,} tokens,"
            whose = self._who if self.here else short_model(self._endpoint.model.id)
            return f"the context of {whose}{size} is full", "length" if self.here else "context"
        if most is not None:
            return f"cut at {most:,} tokens (max_tokens)", "length"
        if self.here:
            return f"cut at {MOST_HERE:,} tokens, the most that a model on this device writes at once", "length"
        return f"cut at a limit of {self._who}", "length"

    def _fail(self, error: RemoteError | Diverged) -> None:
        """Note who is to continue after a failure. Raises `NoAnswer` if nobody is."""
        generation = self._generation
        if isinstance(error, LinkDown):
            self._connection.lost(self._endpoint, error)
        if isinstance(error, Unsent) and not self.here:
            generation.figures.unsent += 1
            if generation.figures.unsent >= UNSENT_TRIES:
                raise NoAnswer(f"No answer: {error}.", "unavailable", passing=True) from error
        elif self._followed and isinstance(error, LinkDown):
            self.broke = self._failure(error)
        elif self.here:
            said = "it began a different one" if isinstance(error, Diverged) else str(error)
            self.could_not = said.replace(f"the answer of {self._host}", "its answer").replace(self._host, "it")
        else:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> NoAnswer:
        """The message to the person if there is no answer, or no more of it."""
        if isinstance(error, Diverged):
            return NoAnswer(
                f"{self._host} could not continue the answer and began a different one. Ask again for a new answer.",
                "refused",
                advice="The first part is kept.",
            )
        said = str(error).rstrip(".")
        if isinstance(error, Busy) and error.after is not None and error.after > BUSY_SECONDS:
            said = f"{said}; try again in {error.after / 60:,.0f} min"
        if isinstance(error, Refused) and error.code == "not_found" and self._endpoint.listed:
            said = f"{said}; it lists {self._endpoint.listed}"
        if isinstance(error, Refused) and error.code == "too_long":
            return NoAnswer(f"{said}. Start a new conversation.", "too_long")
        if self._generation.given.sums_up:
            return NoAnswer(f"{said}. Nothing more was summarised.", "broken", wants_token=wants_token(error))
        if self._generation.answer.text:
            return NoAnswer(f"{said}.", "broken", advice=f"The part that arrived is kept. To continue: {GO_ON}.")
        if isinstance(error, Refused | Incompatible):
            about_system = self._generation.given.system and "system" in said.lower()
            advice = (
                " This model may not accept system prompts; choose none for this conversation." if about_system else ""
            )
            if images := self._generation.given.images:
                advice += f" {IMAGES.format(model=short_model(self._endpoint.model.id), names=', '.join(images))}"
            code: FailureCode = "unavailable" if isinstance(error, Busy) else "refused"
            return NoAnswer(f"{said}.{advice}", code, wants_token=wants_token(error))
        settings, options = self._generation.given.settings, self._endpoint.client.options
        first = options.first_words_seconds or settings.first_words_timeout
        advice = f"If the model is slow to start, set first_words_timeout above {first:.3g} s. "
        slow = advice if isinstance(error, TooSlow) else ""
        return NoAnswer(f"{said}. {slow}Outrider does not send a question twice: ask again.", "broken")


def _chosen(fields: Sequence[str], sampling: Sampling) -> str:
    """Those of the fields that change the answer and were set by somebody, separated by commas."""
    return ", ".join(
        field for field in fields if field in SAMPLING and getattr(sampling, field) != getattr(Sampling(), field)
    )


# ---- an answer that broke off ----------------------------------------------------------------------------------------


class Diverged(Exception):
    """A server that was asked again says something different, so the two texts cannot be joined."""


class Continuation:
    """Finds the new part of a server's text when it is asked again for an answer that broke off.

    A server that can continue is sent the text so far (`sent`). Any other server starts over, and its text counts once
    it has repeated all of that.
    """

    def __init__(self, known: str, *, continues: bool, exact: bool = False) -> None:
        """`known`: the text so far. `continues`: whether the server can continue a text that it is sent. `exact`:
        whether it does so at the last character, white space included."""
        # Other servers may strip white space from a message's end, and words begin with it, so it is expected again.
        self.sent = (known if exact else known.rstrip()) if continues else ""
        """The text that the server is to continue; empty if it starts over."""
        self._again = known[len(self.sent) :]
        self._heard = ""

    def take(self, piece: str) -> str:
        """The new part of a piece. Raises `Diverged`."""
        if not self._again:
            return piece
        self._heard += piece
        if len(self._heard) < len(self._again) and self._again.startswith(self._heard):
            return ""
        if not self._heard.startswith(self._again) and not self.sent:
            raise Diverged
        # If the server continues a text that it was sent, only white space was expected again.
        same = len(commonprefix((self._heard, self._again)))
        new, self._again = self._heard[same:], ""
        return new

    def finish(self) -> None:
        """The server has ended its answer. Raises `Diverged`."""
        if self._again and not self.sent:
            raise Diverged
