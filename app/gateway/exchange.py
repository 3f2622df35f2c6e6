"""One answer for one client, written in its own task, which ends with the client."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from app.gateway.answers import Answer
from app.gateway.checks import Checks
from app.gateway.refusals import LIMIT, SERVER, GatewayRefused
from app.gateway.relay import Relay
from app.gateway.seats import Seats
from app.gateway.sent_text import Piece
from app.gateway.writer import Writer
from remote.openai.schema import ToolCall, Usage
from remote.verifier.refusals import Overloaded
from storage import StorageError

log = logging.getLogger("outrider.gateway")
GONE = "The client disconnected."


class Exchange:
    """An answer that is being written for one client, from its turn in the line to its end."""

    def __init__(self, seats: Seats, checks: Checks, answer: Answer) -> None:
        self.answer = answer
        self.model = answer.model
        """Name of the model, which stays the same in all chunks."""
        self.writer: Writer | Relay | None = None
        """None until it is its turn."""
        self._seats, self._checks = seats, checks
        self._pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
        self._begun = asyncio.Event()
        """Set when something was put into that queue."""
        self._error: GatewayRefused | None = None
        self._task = asyncio.create_task(self._run())

    async def next(self) -> Piece | None:
        """The next piece, or None after the last. Raises `GatewayRefused`."""
        piece = await self._pieces.get()
        if piece is None:
            self._pieces.put_nowait(None)  # For the next call.
            if self._error is not None:
                raise self._error
        return piece

    async def begins(self, seconds: float) -> bool:
        """Whether the first piece, or the end, arrives within this many seconds. It is not consumed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._begun.wait()
        return self._begun.is_set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def finish(self) -> str:
        """Why the answer ends, in OpenAI's terms."""
        if isinstance(self.writer, Relay):
            return self.writer.finish
        done = None if self.writer is None else self.writer.done
        if self.answer.sent.parted:
            return "length"  # The drafter had written as much as was requested.
        if self.answer.sent.stopped or done is None:
            return "stop"
        return "content_filter" if done.cut_by == "filter" else "length" if done.reason == "length" else "stop"

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return self.writer.calls if isinstance(self.writer, Relay) else ()

    @property
    def usage(self) -> Usage:
        """The tokens of the conversation and of the answer."""
        if self.writer is None:
            return Usage()
        read, written = self.writer.stats.read, self.writer.tokens
        return Usage(prompt_tokens=read, completion_tokens=written, total_tokens=read + written)

    async def _run(self) -> None:
        try:
            if self.answer.call.relayed is None:
                await self._write()
            else:
                async with self._seats.line.place(_stays):
                    await self._pass_on(Relay(self.answer, self._seats.first, self._seats.settings))
        except GatewayRefused as error:
            self._error = error
        except Overloaded as error:
            self._error = GatewayRefused(
                str(error), status=429, code="rate_limit_exceeded", kind=LIMIT, seconds=error.seconds
            )
        except StorageError as error:
            self._error = GatewayRefused(str(error), status=500, code="internal_error", kind=SERVER)
        except Exception as error:
            log.critical("a bug", exc_info=error)
            said = "The gateway failed; `outrider log` says where."
            self._error = GatewayRefused(said, status=500, code="internal_error", kind=SERVER)
        finally:
            if self.answer.state == "writing":
                self.answer.end(failed=GONE if self._error is None else str(self._error))
            self._put(None)

    async def _write(self) -> None:
        async with self._seats.seat(self.answer.call, _stays) as seat:
            try:
                await self._pass_on(Writer(self.answer, seat))
            finally:
                if self.answer.state == "writing":
                    self.answer.end(failed=GONE)
                if self.answer.state == "waiting":
                    self._checks.add(seat, self.answer)

    async def _pass_on(self, writer: Writer | Relay) -> None:
        self.writer = writer
        async with contextlib.aclosing(writer.pieces()) as pieces:
            async for piece in pieces:
                self._put(piece)

    def _put(self, piece: Piece | None) -> None:
        self._pieces.put_nowait(piece)
        self._begun.set()


async def _stays() -> bool:
    """A client that disconnects cancels its waiting task, so the line need not check for it."""
    return False
