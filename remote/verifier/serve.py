"""`outrider serve`: load a target, bind, and answer until told to stop.

Stdout carries one line, `outrider server ready at URL`, once requests are answered. Everything else goes to stderr:
what is loaded, how large it is, and how long it took.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import ssl
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from drafter.delivery import delivery
from drafter.floors import why_no_drafts
from drafter.runtime import Drafter
from models.config import GRAPH, TEMPLATE, read_config
from models.engines.choice import EngineKind, licence
from models.engines.engine import Engine
from models.engines.threads import spin_briefly
from models.free_memory import CACHE_SHARE
from models.text.text_side import TextSide, read_template
from remote.protocol import VERSION, Card, DrafterOffer, Limits, MemoryFormat
from remote.verifier.admission import Admission
from remote.verifier.connections import (
    BURST,
    DRAIN_SECONDS,
    MAX_CONNECTIONS,
    MAX_PER_ADDRESS,
    Server,
    bind,
)
from remote.verifier.connections import config as connection_config
from remote.verifier.deliveries import Deliveries
from remote.verifier.freed_memory import give_back_at_once, start_giving_back
from remote.verifier.holders import EVERYONE, Tokens
from remote.verifier.http import MAX_SESSIONS, MAX_WAIT_SECONDS, MAX_WAITING, VerifierApp, create_app
from remote.verifier.learning.learning import Learning, Teaching, cannot_learn
from remote.verifier.loader import opened, say, timed_step
from remote.verifier.maker import Maker, Making, task_for
from remote.verifier.metrics import Metrics
from remote.verifier.own_drafter import OwnDrafter
from remote.verifier.rate_limits import RateLimits
from remote.verifier.request_log import LogFormat, write_log
from remote.verifier.security import check_binding, is_loopback, web_origins
from remote.verifier.start_errors import BadCertificate, NoMemory
from remote.verifier.table import Session, Table

try:
    import resource
except ImportError:  # Windows has no such limits.
    resource = None  # type: ignore[assignment]

MAX_NODES = 256

KEEP_ALIVE_SECONDS = 90
"""Longer than a device keeps an idle connection, so a device never sends into one that is just being closed."""

MAX_TOKENS = 32_768

BODY_SLACK = 64 << 10

SPARE_FILES = 64
"""Open files for everything except connections."""


def card(target: TextSide, engine: Engine, *, max_tokens: int = MAX_TOKENS) -> Card:
    """The card of this target, for `GET /v1/card`."""
    tokens = min(max_tokens, target.positions or max_tokens)
    nodes = min(MAX_NODES, engine.most_nodes or MAX_NODES)
    body = 4 * tokens + 6 * nodes + BODY_SLACK
    encoder = engine.encoder
    return Card(
        version=VERSION,
        target=target.name,
        vocabulary=engine.vocabulary,
        tokenizer=target.tokenizer,
        chat_template=target.chat_template,
        stop_tokens=target.stop_tokens,
        limits=Limits(max_nodes=nodes, max_depth=nodes, max_tokens=tokens, max_body_bytes=body),
        memory=None if encoder is None else MemoryFormat(digest=encoder.digest, layers=encoder.layers),
    )


def serve(
    model: str,
    *,
    drafter: Path | None = None,
    making: Making | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    engine: EngineKind = "auto",
    quantize: Literal["int8", "int4"] | None = None,
    tokens: Tokens | None = None,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    watch_stdin: bool = False,
    max_sessions: int = MAX_SESSIONS,
    max_tokens: int = MAX_TOKENS,
    max_waiting: int = MAX_WAITING,
    max_wait: float = MAX_WAIT_SECONDS,
    max_connections: int = MAX_CONNECTIONS,
    max_cached_bytes: int | None = None,
    threads: int | None = None,
    teaching: Teaching | None = None,
    rate_limits: RateLimits | None = None,
    max_per_address: int = MAX_PER_ADDRESS,
    drain_seconds: float = DRAIN_SECONDS,
    log_format: LogFormat = "text",
    metrics_by_holder: bool = False,
    kept_texts: Path | None = None,
    chat_template: Path | None = None,
) -> None:
    """Serve a target until SIGINT or SIGTERM, and then until running answers have ended. Port 0 takes a free one.

    `drafter`: folder of the one that was made for it. `maker`: without a folder, one is made while nobody asks, and
    used from the next start on; None: it is served without a drafter. `engine`: see `graph_of`. `max_cached_bytes`: for
    all sessions together; None: a share of the free memory. `threads`: for the products of the model; None: as many as
    suit the engine. `max_waiting`, `max_wait`: see `create_app`. `watch_stdin`: the process also ends when its stdin
    does, so an app that started it and is killed leaves no orphan. `hosts`: see `BearerAuth`. `origins`: see
    `web_origins`. `teaching`: how the drafter learns from what is answered; None: nothing is kept. `rate_limits`: for
    each token holder; None: none. `max_per_address`: connections of one address. `drain_seconds`: most time for running
    answers after the signal to end. `metrics_by_holder`: the metrics page counts by the names of holders, too.
    `kept_texts`: the folder that keeps the text sides that are made of GGUF files; None: they are made each time.
    `chat_template`: a Jinja file in the place of the model's own chat template. Raises what `START_ERRORS` names.
    """
    give_back_at_once()
    spin_briefly()
    if watch_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    check_exposure(host, tokens, tls_cert, tls_key)
    pages = web_origins(origins, tokens)
    template = None if chat_template is None else read_template(chat_template)
    connections = _connections(max_connections)
    with contextlib.closing(bind(host, port, connections)) as listener:
        listener.most_per_address = max_per_address + BURST
        admission, metrics = Admission(rate_limits), Metrics(by_holder=metrics_by_holder)
        with ends_while_loading():
            app, beside = build_app(
                model,
                drafter=drafter,
                making=making,
                engine=engine,
                quantize=quantize,
                tokens=tokens,
                hosts=hosts,
                origins=pages,
                max_sessions=max_sessions,
                max_tokens=max_tokens,
                max_waiting=max_waiting,
                max_wait=max_wait,
                max_cached_bytes=max_cached_bytes,
                threads=threads,
                teaching=teaching,
                admission=admission,
                metrics=metrics,
                kept_texts=kept_texts,
                template=template,
            )
        write_log(log_format)
        start_giving_back()
        config = connection_config(
            app,
            connections,
            max_per_address,
            metrics.connection_refused,
            devices=True,
            log_config=None,
            ssl_certfile=tls_cert,
            ssl_keyfile=tls_key,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        config.load()
        url = address(host, listener.getsockname()[1], tls=config.is_ssl)
        with contextlib.suppress(KeyboardInterrupt), contextlib.nullcontext() if beside is None else beside:
            server = Server(
                config, lambda: print(f"outrider server ready at {url}", flush=True), admission, drain_seconds
            )
            gc.freeze()  # Else a full collection walks through all modules, and holds every answer up meanwhile.
            server.run(sockets=[listener])


@contextlib.contextmanager
def ends_while_loading() -> Iterator[None]:
    """Let SIGTERM end the process at once, also where it is the first one of a container.

    Linux drops a signal that the first process of a container has no handler for, and the server's own handler is
    there only once the model is loaded. Call it in the main thread.
    """
    if os.getpid() != 1:
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def build_app(
    model: str,
    *,
    drafter: Path | None = None,
    making: Making | None = None,
    engine: EngineKind = "auto",
    quantize: Literal["int8", "int4"] | None = None,
    tokens: Tokens | None = None,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    max_sessions: int = MAX_SESSIONS,
    max_tokens: int = MAX_TOKENS,
    max_waiting: int = MAX_WAITING,
    max_wait: float = MAX_WAIT_SECONDS,
    max_cached_bytes: int | None = None,
    threads: int | None = None,
    teaching: Teaching | None = None,
    cache_share: float = CACHE_SHARE,
    admission: Admission | None = None,
    metrics: Metrics | None = None,
    kept_texts: Path | None = None,
    template: str | None = None,
) -> tuple[VerifierApp, Learning | Maker | None]:
    """Load a target, and make the app that serves it, and what works beside it while nobody asks.

    For the arguments, see `serve`. `cache_share`: of the free memory, for all sessions together, unless
    `max_cached_bytes` is given. `admission` and `metrics`: those of the whole server; None: new ones. `template`: the
    text of a chat template in the place of the model's own.
    """
    found = opened(model, drafter, making, engine, quantize, threads, kept=kept_texts, template=template)
    target, running, drafter = found.side, found.engine, found.drafter
    if not target.chat_template:
        say(
            f"{target.name} is a base model: without a chat template it continues text, and nobody can chat with it. "
            "If you know how it is asked, give that as a file: --chat-template FILE"
        )
    if drafter is not None:
        _tell_differences(drafter, target)
    own = None
    if drafter is not None and (drafter / GRAPH).is_file():  # Devices that draft need only the encoder.
        with timed_step(f"loading the drafter {drafter} ({(drafter / GRAPH).stat().st_size / 1e6:.0f} MB)"):
            own = OwnDrafter(Drafter.load(drafter), running)
            own.warm()
    budget = int(running.free_bytes() * cache_share) if max_cached_bytes is None else max_cached_bytes
    served = _fitting(target, running, own, max_tokens, budget)
    learning = None if teaching is None else _learning(teaching, drafter, own, tokens)
    deliveries = None
    if own is not None and drafter is not None and own.drafter.prompt is None and not why_no_drafts(own.drafter.config):
        # A prompt recipe reads a database, and devices open none that a server sends.
        offered = delivery(drafter)
        offer = DrafterOffer(digest=offered.digest, size=offered.bytes, licence=licence(model))
        served, deliveries = msgspec.structs.replace(served, drafter=offer), Deliveries(drafter, offered, learning)
        say(f"devices may fetch the drafter: {offered.bytes / 1e6:.0f} MB")
    maker = None
    if (
        found.due
        and making is not None
        and target.chat_template
        and (task := task_for(model, making, kept_texts, template))
    ):
        maker = Maker(task)
    app = create_app(
        running,
        served,
        tokens=tokens,
        hosts=hosts,
        origins=origins,
        max_sessions=max_sessions,
        max_cached_bytes=budget,
        max_waiting=max_waiting,
        max_wait=max_wait,
        own=own,
        text=target.text,
        deliveries=deliveries,
        learning=learning,
        quiet=None if maker is None else maker.quiet,
        admission=admission,
        metrics=metrics,
    )
    return app, learning or maker


def _tell_differences(drafter: Path, target: TextSide) -> None:
    """Say where a drafter's text side is not the target's: devices that draft ask with the drafter's."""
    config = read_config(drafter)
    if config.tokenizer and config.tokenizer != target.tokenizer.hex():
        say(f"warning: devices cannot use the drafter {drafter}, because it was made for another tokenizer")
    elif (drafter / TEMPLATE).is_file() and (drafter / TEMPLATE).read_bytes() != target.chat_template.encode():
        say(f"warning: the drafter {drafter} has another chat template. Devices that use it ask with that one")


def _learning(
    teaching: Teaching, drafter: Path | None, own: OwnDrafter | None, tokens: Tokens | None
) -> Learning | None:
    """What learns, or None where nobody can learn; it is said which, and why."""
    holders = frozenset({EVERYONE}) if tokens is None else tokens.holders
    if own is None or drafter is None:
        say("nothing is learnt: there is no drafter")
    elif (why := cannot_learn(own.drafter.config)) is not None:
        say(f"nothing is learnt: {why}")
    elif teaching.shared and len(holders) < teaching.holders:
        known = "there is no token file" if tokens is None else f"the token file knows {len(holders)}"
        say(f"nothing is learnt: a shared drafter needs {teaching.holders} token holders, and {known}")
    else:
        try:
            learning = Learning(teaching, drafter, own.drafter.config, own, holders)
        except OSError as error:
            say(f"nothing is learnt: {error}")
            return None
        say(f"it learns from what is answered, {learning}. The answers stay in memory, and go when the server stops")
        return learning
    return None


def _fitting(target: TextSide, engine: Engine, own: OwnDrafter | None, max_tokens: int, budget: int) -> Card:
    """The card, with sessions no longer than memory allows. Raises `NoMemory`."""
    wished = card(target, engine, max_tokens=max_tokens).limits.max_tokens
    table = Table(engine.bytes_per_token, max_sessions=1, max_bytes=budget)
    alone = Session(engine.context(), drafts=None if own is None else own.drafts())
    fitting = table.largest(alone, wished + 2 * MAX_NODES) - 2 * MAX_NODES
    if fitting < 1:
        raise NoMemory(f"{budget >> 20} MB are too little for one session of {target.name}. Give more with --cache-mb.")
    if fitting < wished:
        say(f"sessions hold {fitting} tokens, not {wished}: that is what {budget >> 20} MB take (--cache-mb)")
    else:
        say(f"sessions hold {wished} tokens each, and {budget >> 20} MB together")
    return card(target, engine, max_tokens=min(fitting, wished))


def _connections(wished: int) -> int:
    """The wished number of connections, or fewer if this process may not open so many files."""
    if resource is None:
        return wished
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wished if files == resource.RLIM_INFINITY else max(8, min(wished, files - 2 * BURST - SPARE_FILES))


def address(host: str, port: int, *, tls: bool) -> str:
    """The address of a server that listens there."""
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def check_exposure(host: str, tokens: Tokens | None, cert: Path | None, key: Path | None) -> None:
    """Raise `Unprotected` and `BadCertificate`, and warn where a token would cross the network unencrypted."""
    check_binding(host, tokens)
    if cert is None:
        if tokens is not None and not is_loopback(host):
            say(
                f"warning: on {host} the token and all text cross the network unencrypted. Add --tls-cert and "
                "--tls-key, or listen on 127.0.0.1 behind a proxy that speaks TLS."
            )
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except OSError as error:  # ssl.SSLError is one.
        raise BadCertificate(f"The TLS certificate {cert} with the key {key} cannot be used: {error}.") from error


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    # It ends at once, whatever the other threads do: the only client is gone, and nothing here is on a disk.
    os._exit(0)
