"""An answer during which the model may call tools, from a server with OpenAI's API or Anthropic's.

The server is asked again after each turn of calls, with their results, until it ends with text. Each request is sent
once. If the line breaks, a call that was half received is dropped, and those that were made stay with the answer: what
continues it sends their results and makes none of them again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from app.events import ToolCalled
from app.exits import GO_ON
from app.remotes.connection import Connection
from app.remotes.peer import Endpoint, Peer, Verifier
from app.reply.answer import Shown
from app.reply.call_desk import MOST_CALLS, CallDesk
from app.reply.call_history import answer_with_calls
from app.reply.endpoint import BETWEEN_SECONDS, Continuation, Diverged, EndpointText
from app.reply.errors import NoAnswer
from app.reply.generation import Generation, Step
from remote import ChatStream, LinkDown, RemoteError, Unsent
from remote.openai.ends import end_of
from remote.openai.schema import OWNER, Model, ToolCall
from remote.openai.server_errors import BadRequest


def tool_endpoint(connection: Connection, peer: Peer) -> Endpoint | None:
    """The server in the form in which it takes tools, or None if it takes none."""
    if isinstance(peer, Endpoint):
        return peer
    if (client := connection.source.chat) is None:
        return None
    model = Model(id=peer.model_name, owned_by=OWNER, max_model_len=peer.most_read)
    return Endpoint(client, model, peer.name)


class ToolText(EndpointText):
    def __init__(
        self, generation: Generation, connection: Connection, peer: Peer, endpoint: Endpoint, desk: CallDesk
    ) -> None:
        super().__init__(generation, connection, endpoint)
        self._peer, self._desk = peer, desk
        self._apart = False
        """Whether the next text begins a new paragraph, because calls precede it."""
        self._tools: list[dict[str, Any]] = []
        self._asked: Sequence[ToolCall] = ()
        """The calls with which the last request ended."""
        self._join = self._continuation(self._known)

    async def steps(self) -> AsyncGenerator[Step, None]:
        """See `EndpointText.steps`."""
        generation, desk = self._generation, self._desk
        yield self._mode()
        offered = await generation.unless_stopped(desk.offered())
        if offered is None:
            generation.end("stopped")
            return
        self._tools = offered
        for call in desk.calls:
            yield ToolCalled(call)
        while generation.reason is None:
            async with aclosing(desk.settle(generation.unless_stopped)) as settling:
                async for called in settling:
                    yield called
            if not desk.seat.taken() and not generation.stopping:
                yield self._mode("waits for a place at the server")
                await desk.seat.back()
                yield self._mode()
            if generation.stopping:
                generation.end("stopped")
                return
            self._asked = ()
            self._back.clear()
            async with aclosing(super().steps()) as steps:
                async for step in steps:
                    yield step
            if not self._asked:
                return
            for called in desk.add(self._asked, len(generation.answer.text)):
                yield called
            self._known = generation.answer.server_text or self._known
            self._join = Continuation("", continues=False)
            self._apart = bool(generation.answer.text.strip())

    def _continuation(self, known: str) -> Continuation:
        """The text that the server is to continue, after the last call."""
        begun = self._desk.calls[-1].at if self._desk.calls else 0
        model, rest = self._endpoint.model, known[begun:]
        self._apart = bool(begun) and not rest
        return Continuation(rest, continues=model.continues and model.owned_by != OWNER)

    async def _ask(self) -> ChatStream:
        given, client, options = self._generation.given, self._endpoint.client, self._endpoint.client.options
        text, calls = self._generation.answer.text, self._desk.calls
        made = answer_with_calls(text[: calls[-1].at], calls) if calls else []
        begun = [{"role": "assistant", "content": self._join.sent}] if self._join.sent else []
        request: dict[str, Any] = {
            "model": self._endpoint.model.id,
            "messages": [*given.spoken, *made, *begun],
            "tools": self._tools,
            **self._sampling(),
        }
        if begun:
            request |= {"continue_final_message": True, "add_generation_prompt": False}
        if self._desk.full:
            request["tool_choice"] = "none"
        if not self._tools:
            del request["tools"]
        first = options.first_words_seconds or given.settings.first_words_timeout
        return await client.relay(request, deadline=first, silence=options.read_seconds or BETWEEN_SECONDS)

    def _sampling(self) -> dict[str, Any]:
        given, sampling = self._generation.given, self._generation.given.sampling
        fields: dict[str, Any] = {"temperature": sampling.temperature}
        if sampling.top_p < 1:
            fields["top_p"] = sampling.top_p
        if sampling.top_k:
            fields["top_k"] = sampling.top_k
        if sampling.temperature or given.settings.seed is not None:
            fields["seed"] = sampling.seed
        if isinstance(self._peer, Endpoint):
            fields = {name: value for name, value in fields.items() if name not in given.left_to_server}
        if self._most is not None:
            fields["max_tokens"] = self._most
        return fields

    def _take(self, stream: ChatStream, piece: str) -> list[Step]:
        if not piece and stream.calls:
            return []  # It writes a call, and does not think.
        if piece.strip() and self._apart:
            self._apart, piece = False, f"\n\n{piece.lstrip()}"
        return super()._take(stream, piece)

    def _end(self, stream: ChatStream) -> list[Shown]:
        calls = stream.calls.whole
        if not calls or stream.overlong or end_of(stream.reason) not in ("whole", "tools"):
            return super()._end(stream)
        if self._desk.full:
            self._generation.end("end", cut_by=f"the model wanted more than {MOST_CALLS} tool calls", kind="other")
        else:
            self._asked = calls
            self._back.set()  # Ends the reading of this request, and not the answer.
        return []

    def _fail(self, error: RemoteError | Diverged) -> None:
        said = str(error).lower()
        if isinstance(error, BadRequest) and not self._desk.calls and (error.field == "tools" or "tool" in said):
            self._generation.desk = None  # It takes no tools with this model; it is asked without.
            return
        if isinstance(error, LinkDown) and isinstance(self._peer, Verifier):
            self._connection.lost(self._peer, error)
            if not isinstance(error, Unsent):
                raise self._failure(error) from error
        super()._fail(error)

    def _failure(self, error: Exception) -> NoAnswer:
        if self._desk.calls and not self._generation.answer.text:
            said = str(error).rstrip(".")
            return NoAnswer(
                f"{said}.", "broken", advice=f"The tool calls are kept, and are not made again. To continue: {GO_ON}."
            )
        return super()._failure(error)
