"""The device's end of OpenAI's dialect: any server that speaks it can answer, in text and without memory.

Fails as a verifier does: every failure is a `RemoteError`, so whoever can carry on alone from one can from the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import TracebackType

import httpx
import msgspec

from remote.chat_stream import ChatStream
from remote.errors import Broken, Busy, Incompatible, Refused, Stranger
from remote.handshake import Handshake
from remote.listing import Listing, named, read_listing
from remote.openai import EVENTS, JSON, ChatRequest, Message, Model, StreamOptions
from remote.protocol import Sampling
from remote.refusals import refusal
from remote.timing import CLOCK, Clock
from remote.transport import DEFAULT, TransportOptions
from remote.wire import Answer, Traffic, Wire

VERSIONED = re.compile(r"/v\d[^/]*(/|$)")
"""A base address that names its version, as most servers' documents give it."""
MAX_LIST_BYTES = 16 << 20
"""Of a list of models: a service that resells hundreds tells a page of each."""
IDLE_SECONDS = 4.0
"""After which a connection is not used again. Many servers close theirs after 5 s, and a request that goes out just
then is lost: it cannot be sent again, since nobody knows whether the server has begun to answer."""
CONNECT_SECONDS = 10.0
"""To connect, where the remote says nothing: the first words may take far longer."""


class CompletionsClient:
    """One OpenAI-compatible server.

    `url`: its base address, with or without `/v1` at the end. The other arguments are those of `VerifierClient`.
    Raises `Misconfigured`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        options: TransportOptions = DEFAULT,
        clock: Clock = CLOCK,
    ) -> None:
        base = url.strip().rstrip("/")
        path = base.partition("://")[2].partition("/")
        if not VERSIONED.search("".join(path[1:])):
            base += "/v1"
        accept = f"{JSON}, {EVENTS}"
        self._wire = Wire(
            base,
            token,
            transport=transport,
            options=options,
            accept=accept,
            peer="a chat server",
            probed=True,
            keep_alive=IDLE_SECONDS,
            clock=clock,
        )
        self.options = options
        """How it is reached."""
        self.rtt_seconds: float | None = None
        """How long the last list of models took to arrive, which costs a server next to nothing; None before."""

    @property
    def host(self) -> str:
        return self._wire.host

    @property
    def handshake(self) -> Handshake | None:
        """As for `VerifierClient`."""
        return self._wire.handshake

    @property
    def ahead_seconds(self) -> float | None:
        """How far the server's clock was ahead of this device's at its last answer; None where it tells no time."""
        return self._wire.ahead_seconds

    async def __aenter__(self) -> CompletionsClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def models(self, timeout: float, *, wanted: str | None = None) -> tuple[Model, ...]:
        """What can be asked, at least one.

        `wanted`: a model that the person has named. It counts as listed where the server lists nothing that can be
        read, or loads what it does not list: then only the answer can tell. Raises `LinkDown`, `Refused`,
        `Incompatible`.
        """
        try:
            async with self._wire.within(timeout):
                answer = await self._asked("GET", "/models", (JSON,), timeout)
                body = await answer.read(MAX_LIST_BYTES)
        except (Refused, Stranger) as error:
            if wanted is None or not _lists_nothing(error):
                raise
            return (Model(id=wanted),)
        self.rtt_seconds = answer.arrived - answer.sent
        listing = read_listing(body)
        if listing is None and wanted is None:
            raise Incompatible(f"{self._wire.host} sent no readable list of models; name the model to ask for")
        listing = listing or Listing(())
        unlisted = wanted is not None and named(listing.models, wanted) is None
        if wanted is not None and unlisted and (listing.loads_others or not listing.models):
            return (Model(id=wanted), *listing.models)
        if not listing.models:
            raise Incompatible(f"{self._wire.host} serves no model; load one there, or name the model to ask for")
        return listing.models

    async def chat(
        self,
        messages: Sequence[tuple[str, str]],
        sampling: Sampling,
        *,
        model: str,
        most: int | None,
        deadline: float,
        silence: float,
        patience: float,
        continued: bool = False,
    ) -> ChatStream:
        """Ask for an answer to `messages`, (role, text) in order. The request is sent once, whatever happens.

        `most`: tokens that the answer may have; None: as many as the server gives. `continued`: the last message is the
        assistant's, and is gone on with; only where the model `continues`. `deadline`: seconds until the first words;
        `silence`: without a byte after them; `patience`: without words after them, where the line is kept open.
        Raises `LinkDown`, `Refused`, `Incompatible`; `Unsent` and `Busy` where nothing was begun.
        """
        request = ChatRequest(
            messages=tuple(Message(role=role, content=text) for role, text in messages),
            model=model,
            max_tokens=most,
            temperature=sampling.temperature,
            top_p=sampling.top_p if sampling.top_p < 1 else None,
            top_k=sampling.top_k or None,  # Not every server knows it, and some refuse what they do not know.
            seed=sampling.seed if sampling.temperature else None,
            stream=True,
            stream_options=StreamOptions(include_usage=True),
            add_generation_prompt=False if continued else None,
            continue_final_message=True if continued else None,
        )
        traffic, body, begun = Traffic(), msgspec.json.encode(request), self._wire.clock.now()
        async with self._wire.within(deadline):
            answer = await self._asked(
                "POST", "/chat/completions", (EVENTS, JSON), max(deadline, silence, patience), traffic, body
            )
        limits = {"deadline": deadline, "silence": silence, "patience": patience}
        return ChatStream(self._wire, answer, traffic, begun=begun, **limits)

    async def _asked(
        self,
        method: str,
        path: str,
        kinds: tuple[str, ...],
        silence: float,
        traffic: Traffic | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """An answer with one of these content types; any other is raised.

        A question that costs nothing is asked once more where the connection breaks: it may be one that the server had
        given up long ago.
        """
        for last in (False, True) if body is None else (True,):
            try:
                answer = await self._wire.exchange(
                    method,
                    path,
                    traffic or Traffic(),
                    silence=silence,
                    body=body,
                    content_type=JSON,
                    connect=CONNECT_SECONDS,
                )
                break
            except Broken:
                if last:
                    raise
        if answer.status != 200 or answer.content_type not in kinds:
            raise await refusal(self._wire, answer)
        if answer.encoding:
            await answer.aclose()
            raise Incompatible(
                f"{self._wire.host} packs its answers ({answer.encoding}), though asked not to; turn that off there"
            )
        return answer

    async def close(self) -> None:
        """Close all connections, and with them answers still on their way."""
        await self._wire.aclose()


def _lists_nothing(error: Refused | Stranger) -> bool:
    """Whether this says that a server has no list of models, rather than that something is wrong."""
    if isinstance(error, Refused):  # `transformers serve` fails at its list where nothing was ever downloaded.
        return error.code == "not_found" or (error.code == "unavailable" and not isinstance(error, Busy))
    return error.status in (404, 405, 500, 501)
