"""Diagnoses a server: yields one finding after another, from its token to the mode that suits its line.

`outrider remote test` and the screen of remotes print all findings. `outrider doctor` also asks a question, and prints
what is wrong.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from httpx import URL
from msgspec import UnsetType

from app.concurrency import beside
from app.config import BUNDLED_DRAFTER, Settings
from app.remotes.peer import choose_model
from app.remotes.source import RemoteSource, Source, SourceFailed
from app.sanitise import one_line
from drafter.shelf import kept
from models.config import DrafterConfig, DrafterError, read_config
from models.tree import DraftTree
from remote import CompletionsClient, LinkDown, RemoteError, Stranger, VerifierClient
from remote.detect import detect
from remote.handshake import Handshake
from remote.openai.schema import Model, UnlistedModel
from remote.protocol import Card, Sampling
from remote.proxies import environment_proxy, is_loopback

if TYPE_CHECKING:
    from drafter.runtime import Drafter

TRIPS = 5
"""Round trips that are measured."""
CHECK_SECONDS = 10.0
"""Longest wait for a first reply, in addition to the remote's time to connect. A person waits for it."""
QUESTION_SECONDS = 30.0
"""Longest wait for the reply to a question."""
SKEW_SECONDS = 120.0
"""Difference of the clocks from which on certificates may seem not yet valid or expired."""
SOON_DAYS = 14
"""Days before a certificate expires from which on there is a warning."""
MARKS = {"ok": "✓", "warning": "!", "broken": "✗"}
NAMED_MODELS = 5
"""Most models of a server that are listed by name."""


@dataclass(frozen=True)
class Finding:
    """One checked part and its state; `text` says how to repair it if it is not ok."""

    state: Literal["ok", "warning", "broken"]
    part: str
    text: str
    unreachable: bool = False
    """Whether nothing answered at all."""

    def __str__(self) -> str:
        return f"{MARKS[self.state]} {self.part:<11} {one_line(self.text)}"


async def check(
    source: Source,
    settings: Settings,
    *,
    drafter: Drafter | None = None,
    shelf: Path | None = None,
) -> AsyncIterator[Finding]:
    """Check token, name, connection, TLS, round trips, model, drafter and mode, then close the source.

    `drafter`: also ask a question with it, which a server may charge for; the finding's part is `answer`. `shelf`:
    folder of the drafters that were fetched from servers.
    """
    try:
        try:
            client = await source.client()
        except SourceFailed as error:
            yield Finding("broken", "set-up", str(error))
            return
        async for finding in _server(source, client, settings, drafter, shelf):
            yield finding
        for finding in _clock(client):  # Also after a failure, because the clock may be its reason.
            yield finding
    finally:
        await source.close()


async def _server(
    source: Source,
    client: VerifierClient,
    settings: Settings,
    drafter: Drafter | None,
    shelf: Path | None,
) -> AsyncIterator[Finding]:
    """Every finding except the clock. Ends after the first part that makes the others pointless."""
    if isinstance(source, RemoteSource):
        for finding in _token(source):
            yield finding
    if source.address is not None and (resolved := await _resolve(source.address, source.options.proxy)):
        yield resolved
        if resolved.state == "broken":
            return
    patience = (source.options.connect_seconds or 0.0) + CHECK_SECONDS
    chat = source.chat
    try:
        found = await detect(client, chat, patience, kind=source.kind, model=source.model)
    except RemoteError as error:
        yield _failed("connection", error)
        return
    peer = client if isinstance(found, Card) else chat
    assert peer is not None
    if (handshake := client.handshake or peer.handshake) is not None:
        for finding in _connected(handshake, source.options.ca, source.address or f"http://{client.host}"):
            yield finding
    try:
        trips = [await _trip(peer, patience, source.model) for _ in range(TRIPS)]
    except RemoteError as error:
        yield _failed("round trips", error)
        return
    spread = f"of {len(trips)} between {_ms(min(trips))} and {_ms(max(trips))}"
    yield Finding("ok", "round trips", f"{_ms(median(trips))}, {spread}")
    if isinstance(found, Card):
        name = source.name or client.host
        async for finding in _verifier(client, found, settings, drafter, shelf, name):
            yield finding
    else:
        assert chat is not None
        async for finding in _endpoint(chat, found, source.model, settings, ask=drafter is not None):
            yield finding


def _failed(part: str, error: RemoteError) -> Finding:
    # Another program's answer is an answer too.
    return Finding("broken", part, str(error), isinstance(error, LinkDown) and not isinstance(error, Stranger))


# ---- the way to the server -------------------------------------------------------------------------------------------


def _token(source: RemoteSource) -> Iterator[Finding]:
    if source.token_place is not None:
        yield Finding("ok", "token", f"from {source.token_place}")
    elif (variable := source.remote.token_variable) is not None:
        yield Finding("warning", "token", f"none: {variable} is not set; export it with the token in it")


async def _resolve(address: str, proxy: str | None) -> Finding | None:
    """The IP addresses of the host's name, or None if the host is an IP address itself."""
    if (through := environment_proxy(address) if proxy is None else URL(proxy)) is not None:
        whose = "of the environment " if proxy is None else ""
        return Finding("ok", "name", f"looked up by the proxy {whose}{through.netloc.decode('ascii')}")
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    begun = time.perf_counter()
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        text = f"the name of {parts.hostname} was not found; check that this device is online, then the address"
        return Finding("broken", "name", text, unreachable=True)
    addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
    if addresses == [parts.hostname]:
        return None
    return Finding("ok", "name", f"{parts.hostname} is {', '.join(addresses[:4])} ({_ms(time.perf_counter() - begun)})")


def _connected(handshake: Handshake, ca: Path | None, address: str) -> Iterator[Finding]:
    """The connection and its TLS. Without TLS there is a warning, except for a server on this device."""
    yield Finding("ok", "connection", f"to {handshake.address} in {_ms(handshake.connect_seconds)}")
    if handshake.tls_seconds is None:
        if not is_loopback(urlsplit(address).hostname or ""):
            risk = "others on the network can read what you ask, and the token"
            yield Finding("warning", "TLS", f"no encryption: {risk}; use https:// outside your own network")
        return
    trust = "by this device" if ca is None else f"by {ca}"
    text = f"{handshake.version} in {_ms(handshake.tls_seconds)}, trusted {trust}"
    certificate = handshake.certificate
    if certificate is None:
        yield Finding("ok", "TLS", text)
        return
    days = int((certificate.expires - time.time()) / 86400)
    date = time.strftime("%Y-%m-%d", time.gmtime(certificate.expires))
    text += f"; {certificate.subject}, signed by {certificate.issuer}, until {date} ({days} days)"
    yield Finding("warning" if days < SOON_DAYS else "ok", "TLS", text)


async def _trip(client: VerifierClient | CompletionsClient, patience: float, wanted: str | None) -> float:
    """Seconds of a small request and its reply, over an open connection."""
    begun = time.perf_counter()
    if isinstance(client, VerifierClient):
        await client.card(patience)
    else:
        await client.models(patience, wanted=wanted)
    return client.rtt_seconds if client.rtt_seconds is not None else time.perf_counter() - begun


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.{0 if seconds >= 0.01 else 1}f} ms"


def _clock(client: VerifierClient) -> Iterator[Finding]:
    """A warning if the server's clock is so far off that certificates may be refused."""
    ahead = client.ahead_seconds
    if ahead is not None and abs(ahead) > SKEW_SECONDS:
        which = "behind" if ahead > 0 else "ahead of"
        text = f"this device's clock is {abs(ahead) / 60:,.0f} minutes {which} {client.host}'s; set whichever is wrong"
        yield Finding("warning", "clock", f"{text}, or certificates may be refused")


# ---- the server ------------------------------------------------------------------------------------------------------


async def _verifier(
    client: VerifierClient,
    card: Card,
    settings: Settings,
    drafter: Drafter | None,
    shelf: Path | None,
    name: str,
) -> AsyncIterator[Finding]:
    drafts = "; the server can draft" if card.drafts else ""
    yield Finding("ok", "model", f"{card.target}; limit {card.limits.max_tokens:,} tokens{drafts}")
    if not card.chat_template:
        text = f"{card.target} is a base model: it continues text and cannot chat"
        yield Finding("warning", "chat", f"{text}; serve another model, or give it a chat template: --chat-template")
    try:
        config = await beside(lambda: _config_for(card, Path(settings.drafter), shelf))
    except DrafterError as error:
        yield Finding("broken", "drafter", str(error))
        return
    own = settings.drafter == str(BUNDLED_DRAFTER)  # Otherwise it drafts for every server.
    foreign = _foreign(card, config)
    if not (foreign and own) or card.drafter is not None:  # Otherwise there is nothing that a person could do about it.
        yield _fits(card, config, f"to fetch its own: outrider drafter fetch {name}" if own and card.drafter else "")
    if foreign:
        yield Finding("ok", "mode", "hosted: the server answers in plain text, without drafts from this device")
        return
    yield Finding("ok", "mode", _auto_mode(card, config) if settings.mode == "auto" else f"{settings.mode}, by choice")
    if drafter is not None and drafter.text.digest == card.tokenizer:
        yield await _round(client, card, drafter)


def _config_for(card: Card, folder: Path, shelf: Path | None) -> DrafterConfig:
    """The config of the drafter that this device would use: a fetched one, if it fits, or the first."""
    memory = "" if card.memory is None else card.memory.digest.hex()
    first = read_config(folder)
    others = () if shelf is None or first.memory == memory else kept(shelf)
    return next((config for _, config in others if config.memory == memory), first)


def _foreign(card: Card, config: DrafterConfig) -> str:
    """Why the drafter here cannot use the target's tokens; empty if it can."""
    if config.tokenizer and bytes.fromhex(config.tokenizer) != card.tokenizer:
        return "tokenizer"
    return "vocabulary" if config.vocabulary != card.vocabulary else ""


def _fits(card: Card, config: DrafterConfig, how: str) -> Finding:
    """Whether the drafter here was made for the verifier's target.

    `how`: how to get the right one; empty: by a setting.
    """
    if why := _foreign(card, config):
        text = f"the small model was made for {config.target}, not for {card.target} (another {why})"
        return Finding("warning", "fits", f"{text}; {how or 'set `drafter` to one that was'}")
    if card.memory is None:
        text = "the small model fits, but the server sends it no memory of what the model read"
        return Finding("warning", "fits", f"{text}, so fewer of its drafts are kept")
    if card.memory.digest.hex() != config.memory:
        text = f"the small model was made for a similar model, {config.target}, so fewer of its drafts are kept"
        return Finding("warning", "fits", f"{text}; {how}" if how else text)
    return Finding("ok", "fits", f"the small model fits {card.target}")


def _auto_mode(card: Card, config: DrafterConfig) -> str:
    """How `auto` begins with this server, and the figures of the small model."""
    begins = f"auto: the server {'drafts' if card.drafts else 'writes'} at first; the first answers show what is faster"
    if isinstance(config.measured, UnsetType) or _foreign(card, config):
        return begins
    return f"{begins}; the small model yielded {config.measured.tau:.1f} tokens a round when it was tested"


async def _round(client: VerifierClient, card: Card, drafter: Drafter) -> Finding:
    try:
        session = client.session()
        prompt = drafter.asked_as("hello")
        reply = await session.round(prompt, DraftTree.empty(), Sampling(), memory_from=None, deadline=QUESTION_SECONDS)
        await reply.aclose()
        await session.close(CHECK_SECONDS)
    except RemoteError as error:
        return _failed("answer", error)
    trip = f"round trip {1000 * reply.rtt_seconds:.0f} ms"
    return Finding("ok", "answer", f"{card.target} answers; {trip}, limit {card.limits.max_tokens:,} tokens")


async def _endpoint(
    client: CompletionsClient, models: tuple[Model, ...], wanted: str | None, settings: Settings, *, ask: bool
) -> AsyncIterator[Finding]:
    listed = [model for model in models if not isinstance(model, UnlistedModel)]
    names = ", ".join(model.id for model in listed[:NAMED_MODELS])
    more = f" and {len(listed) - NAMED_MODELS} others" if len(listed) > NAMED_MODELS else ""
    yield Finding("ok", "server", f"{client.api}, with {names}{more}" if listed else client.api)
    model = choose_model(models, wanted)
    after = f"an answer that is cut off {'can be continued' if model.continues else 'must be requested again'}"
    if isinstance(model, UnlistedModel) and listed:
        text = f"{model.id}, which the server does not list; only an answer shows whether it is there"
        yield Finding("warning", "model", text)
    else:
        yield Finding("ok", "model", f"{model.id}; {after}")
    if settings.mode == "edge":
        text = "edge is not possible: the server checks no drafts; choose auto or hosted"
        yield Finding("broken", "mode", text)
    else:
        yield Finding("ok", "mode", "hosted: the server answers without drafts")
    if ask:
        others = "" if len(models) == 1 else f" of {len(models)} models"
        yield await _first_token(client, model, f"{model.id}{others}", after)


async def _first_token(client: CompletionsClient, model: Model, name: str, after: str) -> Finding:
    try:
        stream = await client.chat(
            [("user", "hello")],
            Sampling(),
            unset=("temperature", "seed"),
            model=model.id,
            most=1,
            deadline=QUESTION_SECONDS,
            silence=QUESTION_SECONDS,
        )
        async for _ in stream:
            pass
    except RemoteError as error:
        return _failed("answer", error)
    text = (
        f"{client.host} is an {client.api} server; {name} answers; "
        f"round trip {1000 * (client.rtt_seconds or 0.0):.0f} ms; {after}"
    )
    return Finding("ok", "answer", text)
