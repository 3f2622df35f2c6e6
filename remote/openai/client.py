"""The device's end of OpenAI's API. Any server that speaks it can answer, in text and without memory.

Every failure is a `RemoteError`, as with a verifier. So a caller that can continue alone handles both in one way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from remote.clock import CLOCK, Clock
from remote.errors import Broken, Busy, Incompatible, Refused, Stranger
from remote.openai.delta import AnswerDelta, read_delta
from remote.openai.dialect import ordered, refused_field, takes_prediction, without_field
from remote.openai.error_bodies import read_error
from remote.openai.lenient_json import UNREADABLE, parse
from remote.openai.model_list import ModelList, find_model, read_model_list, unlisted_model
from remote.openai.schema import (
    EVENTS,
    JSON,
    ChatMessage,
    ChatRequest,
    Content,
    Model,
    Prediction,
    StreamOptions,
    UnlistedModel,
)
from remote.openai.server_errors import NOT_SERVED, BadRequest, Forbidden, refusal, refused
from remote.openai.stream import ChatStream
from remote.protocol import Sampling
from remote.response import Response, Traffic
from remote.transport import DEFAULT, TransportOptions
from remote.wire import Wire

VERSIONED = re.compile(r"/v\d[^/]*(/|$)")
"""A base address that names its version, as in most servers' documentation."""
MAX_LIST_BYTES = 16 << 20
"""Longest list of models. A service that resells hundreds sends a page of text for each."""
MENDS = 2
"""How often a question is changed as a server wants it."""
IDLE_SECONDS = 4.0
"""Idle time after which a connection is not used again. Many servers close theirs after 5 s. A request sent at that
moment is lost, and cannot be repeated, because the server may have begun to answer."""
CONNECT_SECONDS = 10.0
"""Time to connect if the remote sets none. The first words may take far longer."""


class CompletionsClient(Wire):
    """One OpenAI-compatible server, at its base address with or without `/v1`. For the arguments, see `Wire`.

    Where the address names no version, `/v1` is tried first, and then the address as it is.
    """

    own_headers = {"accept": f"{JSON}, {EVENTS}"}
    keep_alive = IDLE_SECONDS
    probed = True
    connect_seconds = CONNECT_SECONDS
    api: ClassVar[str] = "OpenAI-compatible"
    """The API that the server speaks, as an adjective."""
    list_path: str = "/models"
    chat_path: ClassVar[str] = "/chat/completions"
    lacks: ClassVar[tuple[str, ...]] = ()
    """Fields of a request that the API does not have."""
    relays: ClassVar[bool] = True
    """Whether `relay` sends a request as it is. Otherwise only the fields of `ChatRequest` are, and no plain text."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        options: TransportOptions = DEFAULT,
        clock: Clock = CLOCK,
    ) -> None:
        base = url.strip().rstrip("/")
        path = base.partition("://")[2].partition("/")
        super().__init__(base, token, options=options, clock=clock)
        self._url = base
        self._version, self._settled = ("", True) if VERSIONED.search("".join(path[1:])) else ("/v1", False)
        """The prefix of each path, and whether the server has answered there."""
        self._refused: dict[tuple[str, str], tuple[str, ...]] = {}
        """Fields that the server rejected, by model."""
        self.options = options
        """How the server is reached."""

    async def models(self, timeout: float, *, wanted: str | None = None) -> tuple[Model, ...]:
        """The models that can be asked, at least one.

        `wanted`: a model that the person named. If the server does not list it, it comes first all the same: only an
        answer can show whether it exists. Raises `LinkDown`, `Refused`, `Incompatible`.
        """
        try:
            async with self.within(timeout):
                answer = await self._asked("GET", self.list_path, timeout, Traffic())
                body = await answer.read(MAX_LIST_BYTES)
            listed = self._listed(answer, body)
        except (Refused, Stranger, Incompatible) as error:
            if wanted is None or not _lists_nothing(error):
                raise
            return (UnlistedModel(id=wanted),)
        self.rtt_seconds = answer.arrived - answer.sent
        if wanted is not None:
            return listed if find_model(listed, wanted) is not None else (unlisted_model(listed, wanted), *listed)
        if not listed:
            raise Incompatible(f"{self.host} serves no model; load one there, or name the model to ask for")
        return listed

    def _listed(self, answer: Response, body: bytes) -> tuple[Model, ...]:
        """The models in an answer to `GET /models`. Raises `Stranger`, `Refused`, `Incompatible`."""
        found = parse(body)
        if found is UNREADABLE:
            raise self.stranger(answer)
        if (listed := read_model_list(found)) is not None:
            return self._models(listed)
        if (told := read_error(found)) is not None:
            raise refused(self.host, 500, self.hiding(told.message), told.code)
        raise Incompatible(f"{self.host} sent no readable list of models; name the model to ask for")

    def may_predict(self, model: Model) -> bool:
        """Whether to try sending a prediction: the server accepts it, or that is unknown."""
        return "prediction" not in self._refused.get((self.chat_path, model.id), ()) and (
            takes_prediction(self._url, model.owned_by) is not False
        )

    async def chat(
        self,
        messages: Sequence[tuple[str, Content]],
        sampling: Sampling,
        *,
        model: str,
        most: int | None,
        deadline: float,
        silence: float,
        unset: Collection[str] = (),
        continued: bool = False,
        prediction: str = "",
    ) -> ChatStream:
        """Ask for an answer to `messages`, (role, content) in order, sent in a form that every server accepts.

        An optional field that the server rejects is left out at once, and in later questions to the model too; the
        stream's `left_out` names such fields. In any case, the server answers only once.

        `most`: tokens that the answer may have, or None for as many as the server gives. `deadline`: seconds until the
        first words, and later without words while the line is kept open. `silence`: seconds without a byte after
        the first words. `unset`: fields of `sampling` that nobody chose; they are not sent. `continued`: the last
        message is the assistant's, and the answer continues it; only for a model that `continues`. `prediction`: text
        that the answer will probably have; only where `may_predict`. Raises `LinkDown`, `Refused`, `Incompatible`;
        `Unsent` and `Busy` if no work has begun.
        """
        # Without fields that have no effect, because some servers reject fields.
        request = ChatRequest(
            messages=tuple(ChatMessage(role=role, content=content) for role, content in ordered(messages)),
            model=model,
            max_tokens=most,
            temperature=sampling.temperature,
            top_p=sampling.top_p if sampling.top_p < 1 else None,
            top_k=sampling.top_k or None,
            seed=sampling.seed if sampling.temperature or "temperature" in unset else None,
            stream=True,
            stream_options=StreamOptions(include_usage=True),
            add_generation_prompt=False if continued else None,
            continue_final_message=True if continued else None,
            prediction=Prediction(content=prediction) if prediction else None,
        )
        request = msgspec.structs.replace(request, **dict.fromkeys(unset))
        return await self._answer(request, deadline, silence, self._encoded, self.chat_path, continued=continued)

    async def relay(
        self, request: Mapping[str, Any], *, deadline: float, silence: float, path: str = "/chat/completions"
    ) -> ChatStream:
        """Ask with another program's own request, which may offer tools. It is sent once, as it is.

        `path`: that of chat, or of plain text, which may be empty. For `deadline` and `silence`, and what it raises,
        see `chat`.
        """
        own = {name: value for name, value in request.items() if name not in ("max_tokens", "stream", "stream_options")}
        optional = ChatRequest(
            messages=(),
            model=request.get("model"),
            max_tokens=request.get("max_tokens"),
            stream=True,
            stream_options=StreamOptions(include_usage=True),
        )

        def encoded(optional: ChatRequest) -> bytes:
            fields = msgspec.to_builtins(optional)
            del fields["messages"]
            return msgspec.json.encode({**own, **fields})

        plain = path != "/chat/completions"
        return await self._answer(optional, deadline, silence, encoded, path, continued=plain, tools=True)

    # ---- what another API does in its own way ------------------------------------------------------------------------

    def _encoded(self, request: ChatRequest) -> bytes:
        """The body that asks for an answer."""
        return msgspec.json.encode(request)

    def _mended(self, request: ChatRequest, error: BadRequest) -> ChatRequest | None:
        """The request as the server wants it, according to its refusal. None if it does not say."""
        return None

    def _reader(self, request: ChatRequest) -> Callable[[Any], AnswerDelta]:
        """What reads the events of the answer to a request."""
        return read_delta

    def _models(self, listed: ModelList) -> tuple[Model, ...]:
        """The models of a list, with what is known of this server's."""
        return listed.models

    def _signature(self, path: str) -> dict[str, str]:
        """Headers with the token, for a server that wants it elsewhere at one path than at another."""
        return {}

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def _answer(
        self,
        request: ChatRequest,
        deadline: float,
        silence: float,
        encoded: Callable[[ChatRequest], bytes],
        path: str,
        *,
        continued: bool,
        tools: bool = False,
    ) -> ChatStream:
        """Send a request as `encoded`, without what the server is known to reject, and again without what it rejects.

        What it rejects is known from then on, once it has accepted the rest. See `chat`, and `ChatStream` for
        `continued` and `tools`.
        """
        of, rejected = (path, request.model or ""), list[str]()
        never = (*self.lacks, *self._refused.get(of, ()))
        left_out = tuple(field for field in never if getattr(request, field) is not None)
        for field in left_out:
            request = without_field(request, field)
        traffic, begun, mends = Traffic(), self.clock.now(), MENDS
        async with self.within(deadline):
            while True:
                try:
                    answer = await self._asked("POST", path, max(deadline, silence), traffic, encoded(request))
                    break
                except BadRequest as error:  # No work has begun, so nothing is charged twice.
                    if mends and (mended := self._mended(request, error)) is not None:
                        request, mends = mended, mends - 1
                        continue
                    refused = refused_field(error.status, error.field, error.said, request)
                    if refused is None:
                        raise
                rejected.append(refused)
                request = without_field(request, refused)
        if rejected:
            self._refused[of] = (*self._refused.get(of, ()), *rejected)
        return ChatStream(
            self,
            answer,
            begun,
            deadline,
            silence,
            self._reader(request),
            continued=continued,
            predicted=request.prediction is not None,
            left_out=(*left_out, *rejected),
            tools=tools,
        )

    async def _asked(
        self, method: str, path: str, silence: float, traffic: Traffic, body: bytes | None = None
    ) -> Response:
        """Send a request and return its answer. A refusal is raised.

        A request without a body costs nothing, so it is repeated once if the connection breaks: the server may have
        closed that idle connection long ago.
        """
        answer = await self._sent(method, self._version + path, silence, traffic, body)
        if self._version and not self._settled and answer.status in NOT_SERVED:
            error = await refusal(self, answer)
            if body is not None and not isinstance(error, Stranger):
                raise error  # The API's own words, about the model.
            answer = await self._sent(method, path, silence, traffic, body)
            if answer.status != 200 or answer.content_type not in (JSON, EVENTS):
                await answer.aclose()
                raise error
            self._version = ""
        if not 200 <= answer.status < 300:
            raise await refusal(self, answer)
        self._settled = True
        if answer.encoding:
            await answer.aclose()
            raise Incompatible(
                f"{self.host} compresses its answers ({answer.encoding}) despite being asked not to; disable that there"
            )
        return answer

    async def _sent(self, method: str, path: str, silence: float, traffic: Traffic, body: bytes | None) -> Response:
        headers = self._signature(path) if body is None else {**self._signature(path), "content-type": JSON}
        try:
            return await self.exchange(method, path, traffic, silence=silence, body=body, headers=headers)
        except Broken:
            if body is not None:
                raise
        return await self.exchange(method, path, traffic, silence=silence, headers=headers)


def _lists_nothing(error: Refused | Stranger | Incompatible) -> bool:
    """True if the error only means that the server has no list of models."""
    if isinstance(error, Stranger):
        return error.status in (404, 405, 500, 501)
    # `transformers serve` cannot list its models before the first download. A token may allow answers only.
    if isinstance(error, Refused):
        return not isinstance(error, Busy) and (isinstance(error, Forbidden) or error.code != "unauthorised")
    return True
