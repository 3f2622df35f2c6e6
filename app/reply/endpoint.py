"""An answer in text, by an OpenAI-compatible server, which verifies nothing and knows no tokens of ours.

A question may cost money, so it is sent once: whatever goes wrong after that ends the reply, with what has come of it.
Only a request that never left, or that the server refused before it began, is sent again. The answer is kept as text
without tokens: nobody has verified them, and no limit is counted in them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from app.events import ModeChanged, Reasoned
from app.exits import GO_ON
from app.remotes.connection import Connection
from app.remotes.peer import Endpoint
from app.reply.continuation import Continuation, Diverged
from app.reply.generation import NoAnswer, Step, Writing
from remote import Busy, ChatStream, Incompatible, LinkDown, Refused, RemoteError, Unsent
from remote.openai.stream import CUT

BETWEEN_SECONDS = 60.0
"""Silence between two words after which an answer is given up, where the remote says nothing. The system notices a dead
line sooner; a busy server may put an answer aside for a while."""
BUSY_TRIES = 4
"""Requests that a full server may refuse; it is asked again after 1, 2 and 4 s, or when it says."""
BUSY_SECONDS = 60.0
"""Longest wait that a server may ask for."""
UNSENT_TRIES = 3
"""Times that a server may be found and be gone again before the question leaves."""
SHARE = 256
"""A checkpoint is due when the text has grown by this fraction: each writes all of it, and answers may be long."""
FILTERED = "content_filter"


class Telling:
    """One way of writing an answer: the server tells it."""

    def __init__(self, writing: Writing, connection: Connection, endpoint: Endpoint) -> None:
        self._writing, self._connection, self._endpoint = writing, connection, endpoint
        self._host = endpoint.client.host
        answer = writing.answer
        self._known = answer.told or answer.said(answer.verified)
        """The text that the server is to go on with."""
        self._join = Continuation(self._known, continues=endpoint.model.continues)
        self._thinks = False

    async def steps(self) -> AsyncGenerator[Step, None]:
        """Until the answer is complete. Raises `NoAnswer`; returns early where the question has not left."""
        writing = self._writing
        if writing.settings.mode == "edge":
            advice = "which verifies no drafts. Choose --mode auto or hosted"
            raise NoAnswer(f"{self._host} is an OpenAI-compatible server, {advice}.", "incompatible")
        yield ModeChanged("hosted", self._connection.why)
        await writing.drafting.quiet()
        stream: ChatStream | None = None
        try:
            for tries in range(1, BUSY_TRIES + 1):
                try:
                    stream = await writing.unless_stopped(self._ask())
                    break
                except Busy as error:
                    wait = 2.0 ** (tries - 1) if error.after is None else error.after
                    if tries == BUSY_TRIES or wait > BUSY_SECONDS:
                        raise
                    yield ModeChanged("hosted", f"{self._host} is busy; it is asked again in {wait:.0f} s")
                    await writing.unless_stopped(writing.clock.sleep(wait))
                    if writing.stopping.is_set():
                        break
            if stream is None:
                writing.reason = "stopped"
                return
            writing.tells(stream, self._endpoint.model.id)
            async for step in self._read(stream):
                yield step
        except Unsent as error:
            writing.unsent += 1
            if writing.unsent >= UNSENT_TRIES:
                raise NoAnswer(f"No answer: {error}.", "unavailable", passing=True) from error
            self._connection.lost(self._endpoint, error)
        except (RemoteError, Diverged) as error:
            raise self._failure(error) from error
        finally:
            if stream is not None:
                await stream.aclose()

    async def _ask(self) -> ChatStream:
        """Send the question, with what is known of its answer where the server goes on with that."""
        writing, options = self._writing, self._endpoint.client.options
        first = options.first_words_seconds or writing.settings.first_words_timeout
        begun = [("assistant", self._join.sent)] if self._join.sent else []
        return await self._endpoint.client.chat(
            [*writing.messages, *begun],
            writing.sampling,
            model=self._endpoint.model.id,
            most=writing.settings.max_tokens,
            deadline=first,
            silence=options.read_seconds or BETWEEN_SECONDS,
            patience=first,
            continued=bool(begun),
        )

    async def _read(self, stream: ChatStream) -> AsyncGenerator[Step, None]:
        """The stream, to its end."""
        writing, answer = self._writing, self._writing.answer
        saved = 0
        while writing.reason is None:
            piece = await writing.unless_stopped(anext(stream, None))
            if writing.stopping.is_set():
                writing.reason = "stopped"
            elif piece is None:
                self._join.finish()
                self._end(stream)
            else:
                for step in self._shown(stream, piece):
                    yield step
            if writing.reason is not None or answer.length - saved > answer.length // SHARE:
                saved = answer.length
                yield writing.stats(self._connection)

    def _shown(self, stream: ChatStream, piece: str) -> list[Step]:
        """What a piece changes: empty ones are reasoning."""
        steps: list[Step] = []
        writing, name = self._writing, self._endpoint.model.id
        if piece and not writing.answer.telling:
            steps += writing.answer.tell_from(self._known)
            self._connection.speaks(stream)
        if piece and self._thinks:
            self._thinks = False
            steps.append(ModeChanged("hosted", self._connection.why))
        if not piece and not self._thinks:
            self._thinks = True
            steps.append(ModeChanged("hosted", f"{self._connection.why}; {name} is reasoning"))
        if thought := stream.new_thoughts():
            steps.append(Reasoned(thought))
        steps += writing.answer.tell(self._join.take(piece))
        writing.count_first()
        return steps

    def _end(self, stream: ChatStream) -> None:
        """Say whether the answer is whole, and what cut it."""
        writing, reason = self._writing, stream.reason
        writing.reason = "length" if reason in CUT or stream.overlong else "end"
        if reason == FILTERED:
            writing.cut_by = "the server's content filter ended it"
        elif stream.overlong:
            writing.cut_by = "longer than any answer that is kept"
        elif reason in CUT:
            while_thinking = "" if stream.spoken else ", while it was still reasoning"
            writing.cut_by = f"{self._limit(stream)}{while_thinking}"

    def _limit(self, stream: ChatStream) -> str:
        """What an answer that was cut has run into."""
        most, window = self._writing.settings.max_tokens, self._endpoint.model.max_model_len
        used = 0 if stream.usage is None else stream.usage.prompt_tokens + stream.usage.completion_tokens
        if window is not None and used >= window - 1:
            self._writing.full = True
            return f"the context of {self._endpoint.model.id}, {window:,} tokens, is full"
        if most is not None:
            return f"cut at {most:,} tokens (max_tokens)"
        return f"cut at a limit of {self._host}"

    def _failure(self, error: Exception) -> NoAnswer:
        """What is said where there is no answer, or no more of it."""
        if isinstance(error, LinkDown):
            self._connection.lost(self._endpoint, error)
        if isinstance(error, Diverged):
            return NoAnswer(
                f"{self._host} cannot go on with an answer, and says something else now. "
                "What there was is kept; ask again for another answer.",
                "refused",
            )
        said = str(error).rstrip(".")
        if isinstance(error, Refused) and error.code == "too_long":
            return NoAnswer(f"{said}. Start a new conversation.", "too_long")
        if self._writing.answer.text:
            return NoAnswer(f"{said}. What came of the answer is kept. To go on: {GO_ON}.", "broken")
        if isinstance(error, Refused | Incompatible):
            return NoAnswer(f"{said}.", "refused")
        first = self._endpoint.client.options.first_words_seconds or self._writing.settings.first_words_timeout
        advice = f"A model that needs more than {first:.3g} s to begin needs a longer first_words_timeout. "
        slow = advice if "said nothing" in said or "within" in said else ""
        return NoAnswer(
            f"{said}. {slow}The question was sent once, and is not sent again by itself: ask again.", "broken"
        )
