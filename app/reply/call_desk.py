"""Handles the tool calls of one answer: stores them, asks the person for consent, makes them, and keeps the results.

A call is stored as `running` before the tool is asked, and is asked for once. One whose result is unknown, because the
program or the line ended in the middle, is made again only if the person says so, and so is another call with the same
arguments, even if calls of that tool need no yes.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import structs

from app.events import ToolCalled
from app.reply.call_history import UNKNOWN
from app.reply.errors import NoAnswer
from app.tools.tool import Tool, ToolGone, ToolResult, Tools
from remote.openai.schema import ToolCall
from storage import Call, StorageBusy, Store
from storage.rows import now

T = TypeVar("T")


class Seat(NamedTuple):
    """The place of an answer among those that its server writes at once. A wait for the person does not hold it."""

    leave: Callable[[], None] = lambda: None
    back: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0)
    """Waits until it has a place again, or is stopped."""
    taken: Callable[[], bool] = lambda: True


HELD = Seat()
"""A place that is never left."""
Decision = Literal["yes", "no", "always"]
"""The person's decision about a call. always: yes, also to every later call of this tool in the conversation. To a call
that may have run: yes makes it again, no tells the model that its result is unknown."""

MOST_CALLS = 16
"""Calls that an answer may have."""
MOST_RESULT = 200_000
"""Characters of a result that are kept. Servers' results are bounded before."""
SAVE_TRIES = 6
REFUSED = "The person refused this call."
TOO_MANY = f"This call was not made: an answer may have {MOST_CALLS}. Answer with what is known."
NO_SUCH = "There is no such tool."
NO_OBJECT = "The arguments are not a JSON object, so the call was not made."
REPEATED = "This is the same call as before, with the same id, so it was not made again. Its result was:\n"

log = logging.getLogger("outrider.tools")


class CallDesk:
    """Makes the calls of one answer.

    `tools`: None if there are none, so that only the results of earlier calls are sent. `begun`: the calls that it
    already has. `unsure`: calls of the conversation, on any branch, whose result is unknown. `seat`: its place at its
    server.
    """

    def __init__(
        self,
        store: Store,
        tools: Tools | None,
        servers: Sequence[str],
        *,
        conversation: str,
        message: str,
        begun: Sequence[Call] = (),
        unsure: Sequence[Call] = (),
        seat: Seat = HELD,
    ) -> None:
        self._store, self._tools, self._servers = store, tools, servers if tools is not None else ()
        self.seat = seat
        self._conversation, self._message = conversation, message
        self.calls = list(begun)
        self._unsure = [*unsure, *(call for call in self.calls if call.state == "unknown")]
        self._offered: dict[str, Tool] | None = None
        self._asking: dict[int, asyncio.Future[Decision]] = {}

    @property
    def full(self) -> bool:
        return len(self.calls) >= MOST_CALLS

    async def offered(self) -> list[dict[str, Any]]:
        """The tools in OpenAI's form. Their servers are started if need be. Raises `NoAnswer`."""
        if self._offered is None:
            try:
                found = () if self._tools is None else await self._tools.offered(self._servers)
            except ToolGone as gone:
                said = str(gone).rstrip(".")
                raise NoAnswer(f"{said}. Repair it, or ask without its tools.", "internal") from gone
            self._offered = {tool.full_name: tool for tool in found}
        return [
            {
                "type": "function",
                "function": {"name": name, "description": tool.description, "parameters": dict(tool.schema)},
            }
            for name, tool in self._offered.items()
        ]

    def add(self, asked: Sequence[ToolCall], at: int) -> list[ToolCalled]:
        """Store calls that the model asked for after `at` characters of the answer. Raises `StorageError`."""
        offered = self._offered or {}
        turn = 1 + max((call.turn for call in self.calls), default=-1)
        new = []
        for place, one in enumerate(asked, len(self.calls)):
            tool = offered.get(one.function.name)
            server, name = ("", one.function.name) if tool is None else (tool.server, tool.name)
            new.append(Call(place, turn, at, one.id, server, name, one.function.arguments or "{}", asked=now()))
        self._store.calls.add(self._message, new)
        self.calls += new
        return [ToolCalled(call) for call in new]

    def decide(self, place: int, decision: Decision) -> None:
        """Pass on the person's decision about the call that waits for it."""
        if (asking := self._asking.get(place)) is not None and not asking.done():
            asking.set_result(decision)

    async def settle(
        self, unless_stopped: Callable[[Coroutine[Any, Any, Any] | asyncio.Future[Any]], Any]
    ) -> AsyncGenerator[ToolCalled, None]:
        """Make the calls that are not settled yet, one after another. Ends early if the answer is stopped.

        `unless_stopped`: awaits something, and gives None if the person stops the answer first. Raises `StorageError`.
        """
        for place, call in enumerate(self.calls):
            if call.over or call.result:
                continue
            known = (self._offered or {}).values()
            tool = next((one for one in known if (one.server, one.name) == (call.server, call.tool)), None)
            if (impossible := self._impossible(call, tool)) is not None:
                yield await self._end(place, *impossible)
                continue
            assert tool is not None
            if not self._allowed(call, tool):
                asking = self._asking[place] = asyncio.get_running_loop().create_future()
                self.seat.leave()
                yield ToolCalled(call, asks=True, said=tool.said, again=self._may_have_run(call))
                decision = await unless_stopped(asking)
                del self._asking[place]
                if decision is None:
                    return
                if decision == "no":
                    unknown = call.state == "unknown"
                    yield await self._end(place, *(("unknown", UNKNOWN) if unknown else ("refused", REFUSED)))
                    continue
                if decision == "always":
                    self._allow(tool)
            self.calls[place] = replace(call, state="running")
            await self._store_call(place)
            yield ToolCalled(self.calls[place])
            ended: tuple[Any, str] | None = None
            try:
                ended = await unless_stopped(self._made(tool, call))
            finally:
                if ended is None:  # Stopped while it ran.
                    self._store.calls.set(self._message, replace(self.calls[place], state="unknown", ended=now()))
                    self.calls[place] = replace(self.calls[place], state="unknown")
            if ended is None:
                yield ToolCalled(self.calls[place])
                return
            yield await self._end(place, *ended)

    async def _made(self, tool: Tool, call: Call) -> tuple[Any, str]:
        """Make a call: the state in which it ended, and what the model reads."""
        assert self._tools is not None
        try:
            result: ToolResult = await self._tools.call(tool, json.loads(call.arguments))
        except ToolGone as gone:
            if not gone.begun:
                return "failed", f"The call was not made: {gone}"
            self._unsure.append(call)
            return "unknown", f"{UNKNOWN} ({gone})"
        except Exception as error:  # A mistake of ours must not lose that the call may have been made.
            log.error("a tool call failed", exc_info=error)
            self._unsure.append(call)
            return "unknown", f"{UNKNOWN} ({type(error).__name__})"
        text, cut = result.text[:MOST_RESULT], result.cut + max(0, len(result.text) - MOST_RESULT)
        more = f"\n[{cut:,} more characters were left out]" if cut else ""
        return "failed" if result.failed else "done", f"{text}{more}" or "(no output)"

    # ---- whether a call is made --------------------------------------------------------------------------------------

    def _impossible(self, call: Call, tool: Tool | None) -> tuple[Any, str] | None:
        """Why a call cannot be made: its state, and what the model reads. None if it can."""
        if call.state == "unknown" and tool is None:
            return "unknown", UNKNOWN
        if call.place >= MOST_CALLS:
            return "refused", TOO_MANY
        if tool is None:
            return "failed", NO_SUCH
        if not isinstance(_arguments(call), dict):
            return "failed", NO_OBJECT
        for other in self.calls[: call.place]:
            if other.call_id == call.call_id and other.turn != call.turn and _same(other, call) and other.result:
                return "refused", REPEATED + other.result
        return None

    def _may_have_run(self, call: Call) -> bool:
        return call.state == "unknown" or any(_same(call, other) for other in self._unsure)

    def _allowed(self, call: Call, tool: Tool) -> bool:
        """Whether the person has said yes to every call of this tool. Raises `StorageError`."""
        if self._may_have_run(call):
            return False
        return tool.key in self._store.conversations.get(self._conversation).choices.allowed

    def _allow(self, tool: Tool) -> None:
        choices = self._store.conversations.get(self._conversation).choices
        allowed = tuple(dict.fromkeys([*choices.allowed, tool.key]))
        self._store.conversations.choose(self._conversation, structs.replace(choices, allowed=allowed))

    # ---- what is stored ----------------------------------------------------------------------------------------------

    async def _end(self, place: int, state: Any, result: str) -> ToolCalled:
        self.calls[place] = replace(self.calls[place], state=state, result=result, ended=now())
        await self._store_call(place)
        return ToolCalled(self.calls[place])

    async def _store_call(self, place: int) -> None:
        """Store a call as it is now, and wait for other writers. Raises `StorageError`."""
        for left in reversed(range(SAVE_TRIES)):
            try:
                self._store.calls.set(self._message, self.calls[place])
                return
            except StorageBusy:
                if not left:
                    raise
            await asyncio.sleep(0.2)


def _same(one: Call, other: Call) -> bool:
    of_one_tool = (one.server, one.tool) == (other.server, other.tool)
    return of_one_tool and _arguments(one) == _arguments(other)


def _arguments(call: Call) -> Any:
    """The arguments as a value, or None if they are no JSON."""
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
