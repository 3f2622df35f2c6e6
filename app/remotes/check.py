"""What `outrider remote test` and the screen of remotes find out about a remote, one finding after another."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal
from urllib.parse import urlsplit

from app.concurrency import beside
from app.config import ConfigError, Settings
from app.remotes.connection import chosen
from app.remotes.mode_meter import ModeMeter
from app.remotes.named import options_of
from app.remotes.registry import Remote, Remotes
from app.sanitise import sanitise
from drafter.config import DrafterConfig, DrafterError, read_config
from remote import (
    CompletionsClient,
    Incompatible,
    LinkDown,
    Misconfigured,
    RemoteError,
    Stranger,
    VerifierClient,
    detect,
)
from remote.handshake import Handshake
from remote.openai.schema import Model
from remote.protocol import Card

TRIPS = 5
TEST_SECONDS = 10.0
"""For a first answer where the remote says nothing else: a person waits, but for this only."""
SOON_DAYS = 14
MARKS = {"ok": "✓", "warning": "!", "broken": "✗"}
NAMED_MODELS = 5


@dataclass(frozen=True)
class Found:
    """One thing that was looked at. `unreachable`: nothing could be asked at all."""

    state: Literal["ok", "warning", "broken"]
    part: str
    text: str
    unreachable: bool = False

    def __str__(self) -> str:
        return f"{MARKS[self.state]} {self.part:<11} {self.text}"


@dataclass(frozen=True)
class Subject:
    """A remote under test."""

    remote: Remote
    token: Callable[[], str | None]
    """Fetches its token, which may wait for a keyring; None: it has none. Raises `ConfigError`."""
    place: str | None = None
    """Where it is kept, in words."""

    @classmethod
    def named(cls, name: str, remotes: Remotes) -> Subject:
        remote = remotes.get(name)
        return cls(remote, lambda: remotes.token(name), remotes.token_place(remote))


async def check(subject: Subject, settings: Settings, environment: Mapping[str, str]) -> AsyncIterator[Found]:
    """Look at name, connection, certificate, round trips, what is there, whether it fits, and what mode that gives."""
    remote, patience = subject.remote, (subject.remote.connect_timeout or 0.0) + TEST_SECONDS
    async with contextlib.AsyncExitStack() as stack:
        try:
            token = await beside(subject.token)
            if token and subject.place is not None:
                yield Found("ok", "token", f"from {subject.place}")
            elif (variable := remote.token_variable) is not None:
                yield Found("warning", "token", f"none: {variable} is not set; export it with the token in it")
            options = options_of(remote)
            verifier = await stack.enter_async_context(VerifierClient(remote.url, token, options=options))
            chat = None
            if remote.kind != "verifier":
                chat = await stack.enter_async_context(CompletionsClient(remote.url, token, options=options))
        except (ConfigError, Misconfigured) as error:
            yield Found("broken", "set-up", str(error))
            return
        if (resolved := await _resolve(remote, environment)) is not None:
            yield resolved
            if resolved.state == "broken":
                return
        try:
            wanted = remote.model or settings.remote_model
            found = await detect(verifier, chat, patience, kind=remote.kind, model=wanted)
        except RemoteError as error:
            yield Found("broken", "connection", str(error), unreachable=_nobody(error))
            return
        client = verifier if isinstance(found, Card) else chat
        assert client is not None
        if (handshake := verifier.handshake or client.handshake) is not None:
            for seen in _connected(handshake, options.ca, remote.url):
                yield seen
        try:
            trips = [await _trip(client, patience, wanted) for _ in range(TRIPS)]
        except RemoteError as error:
            yield Found("broken", "round trips", str(error), unreachable=_nobody(error))
            return
        yield Found("ok", "round trips", _times(trips))
        if isinstance(found, Card):
            async for seen in _verifier(found, settings, median(trips)):
                yield seen
        else:
            for seen in _endpoint(found, wanted, settings, verifier.host):
                yield seen


def _nobody(error: RemoteError) -> bool:
    """Whether nothing answered; somebody else's answer is one."""
    return isinstance(error, LinkDown) and not isinstance(error, Stranger)


async def _resolve(remote: Remote, environment: Mapping[str, str]) -> Found | None:
    """Which addresses a name stands for; with a proxy, that is for the proxy to know. None: it is an address."""
    if remote.proxy is not None:
        return Found("ok", "name", f"looked up by the proxy {urlsplit(remote.proxy).netloc}")
    parts = urlsplit(remote.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    begun = time.perf_counter()
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        names = (f"{parts.scheme}_proxy", f"{parts.scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
        if any(environment.get(name) for name in names):
            return Found("ok", "name", f"{parts.hostname} is not known here; the proxy of the environment looks it up")
        text = f"the name of {parts.hostname} was not found; check that this device is online, then the address"
        return Found("broken", "name", text, unreachable=True)
    addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
    if addresses == [parts.hostname]:
        return None
    return Found("ok", "name", f"{parts.hostname} is {', '.join(addresses[:4])} ({_ms(time.perf_counter() - begun)})")


def _connected(handshake: Handshake, ca: Path | None, url: str) -> list[Found]:
    found = [Found("ok", "connection", f"to {handshake.address} in {_ms(handshake.connect_seconds)}")]
    if handshake.tls_seconds is None:
        host = urlsplit(url).hostname or ""
        if host not in ("localhost", "::1") and not host.startswith("127."):
            text = "none: others on the way can read what you ask, and the token; use https:// outside your own network"
            found.append(Found("warning", "TLS", text))
        return found
    trust = "by this device" if ca is None else f"by {ca}"
    text = f"{handshake.version} in {_ms(handshake.tls_seconds)}, trusted {trust}"
    certificate = handshake.certificate
    if certificate is None:
        return [*found, Found("ok", "TLS", text)]
    days = int((certificate.expires - time.time()) / 86400)
    date = time.strftime("%Y-%m-%d", time.gmtime(certificate.expires))
    text += f"; {sanitise(certificate.subject)}, signed by {sanitise(certificate.issuer)}, until {date} ({days} days)"
    return [*found, Found("warning" if days < SOON_DAYS else "ok", "TLS", text)]


async def _trip(client: VerifierClient | CompletionsClient, patience: float, wanted: str | None) -> float:
    """Seconds of a small question and its answer, over a connection that is there."""
    begun = time.perf_counter()
    if isinstance(client, VerifierClient):
        await client.card(patience)
    else:
        await client.models(patience, wanted=wanted)
    return client.rtt_seconds if client.rtt_seconds is not None else time.perf_counter() - begun


def _times(trips: list[float]) -> str:
    return f"{_ms(median(trips))}, of {len(trips)} between {_ms(min(trips))} and {_ms(max(trips))}"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.{0 if seconds >= 0.01 else 1}f} ms"


# ---- what is there ---------------------------------------------------------------------------------------------------


async def _verifier(card: Card, settings: Settings, rtt: float) -> AsyncIterator[Found]:
    target = sanitise(card.target)
    limits = f"{card.limits.max_tokens} tokens, {card.limits.max_nodes} nodes a round"
    drafts = ", drafts by itself" if card.drafts else ""
    yield Found("ok", "verifier", f"{target}, {card.vocabulary:,} tokens of vocabulary; limits {limits}{drafts}")
    try:
        config = await beside(lambda: read_config(Path(settings.drafter)))
    except DrafterError as error:
        yield Found("broken", "drafter", str(error))
        return
    fits = True
    for found in _fit(card, config):
        fits = fits and found.state != "broken"
        yield found
    if not fits:
        yield Found("broken", "mode", "offline: this drafter cannot be used with that verifier, and would write alone")
    elif settings.mode == "auto":
        yield Found("ok", "mode", _chosen_mode(card, rtt))
    else:
        yield Found("ok", "mode", f"{settings.mode}, by choice")


def _fit(card: Card, config: DrafterConfig) -> list[Found]:
    """Whether the drafter here was made for that target."""
    drafter = f"the drafter for {config.target}"
    if config.tokenizer and bytes.fromhex(config.tokenizer) != card.tokenizer:
        text = f"no: {drafter} has another tokenizer; set `drafter` to the one made for {sanitise(card.target)}"
        return [Found("broken", "fits", text)]
    if config.vocabulary != card.vocabulary:
        text = f"no: {drafter} knows {config.vocabulary:,} tokens; set `drafter` to the one made for that target"
        return [Found("broken", "fits", text)]
    if card.memory is None:
        text = f"tokenizer and vocabulary; it sends no memory, so {drafter} guesses worse"
        return [Found("warning", "fits", text)]
    if card.memory.digest.hex() != config.memory:
        text = f"tokenizer and vocabulary; its memory is not for {drafter}, which guesses worse without"
        return [Found("warning", "fits", text)]
    return [Found("ok", "fits", f"tokenizer, vocabulary and memory are those of {drafter}")]


def _chosen_mode(card: Card, rtt: float) -> str:
    """What `auto` would begin with on this line, and by which figures."""
    meter = ModeMeter()
    meter.drafts = card.drafts
    mode = meter.choose(rtt)
    return f"{mode}: {meter.why(rtt)}; measured from the first answer on"


def _endpoint(models: tuple[Model, ...], wanted: str | None, settings: Settings, host: str) -> list[Found]:
    names = [sanitise(model.id) for model in models]
    more = f" and {len(names) - NAMED_MODELS} others" if len(names) > NAMED_MODELS else ""
    found = [Found("ok", "server", f"OpenAI-compatible, with {', '.join(names[:NAMED_MODELS])}{more}")]
    try:
        model = chosen(models, wanted, host)
    except Incompatible as error:
        return [*found, Found("broken", "model", sanitise(str(error)))]
    after = (
        "an answer that is cut off can be gone on with"
        if model.continues
        else "an answer that is cut off has to be asked for anew"
    )
    found.append(Found("ok", "model", f"{sanitise(model.id)}; {after}"))
    if settings.mode == "edge":
        text = "none: it verifies no drafts, and the mode edge asks for that; choose auto or hosted"
        return [*found, Found("broken", "mode", text)]
    return [*found, Found("ok", "mode", "hosted, without memory: it verifies no drafts, and answers by itself")]
