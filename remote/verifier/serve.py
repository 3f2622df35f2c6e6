"""`outrider serve`: load a target, bind, and answer until a signal to stop.

Stdout carries one line, `outrider server ready at URL`, once requests are answered. Everything else goes to stderr:
what is loaded, how large it is, and how long it took.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from drafter.delivery import delivery
from drafter.floors import why_no_drafts
from drafter.runtime import Drafter
from models.config import GRAPH, TEMPLATE, read_config
from models.engines.choice import licence, timed
from models.engines.engine import Engine
from models.engines.threads import spin_briefly
from models.text.likeness import likeness
from models.text.text_side import TextSide
from remote.protocol import VERSION, Card, DrafterOffer, Limits, MemoryFormat
from remote.verifier.connections import BURST, Server, bind
from remote.verifier.connections import config as connection_config
from remote.verifier.deliveries import Deliveries, TokenizerDelivery
from remote.verifier.drafting.lookups import OwnLookups
from remote.verifier.drafting.own_drafter import OwnDrafter
from remote.verifier.freed_memory import start_giving_back, use_again
from remote.verifier.holders import EVERYONE
from remote.verifier.http import VerifierApp, create_app
from remote.verifier.idle import end_with_stdin
from remote.verifier.learning.learning import Learning, cannot_learn
from remote.verifier.loader import Opened, opened, remember_for
from remote.verifier.making.maker import Maker, task_for
from remote.verifier.observability.request_log import write_log
from remote.verifier.options import ServeOptions
from remote.verifier.security import check_binding, is_loopback, web_origins
from remote.verifier.sessions.table import Session, Table
from remote.verifier.start_errors import BadCertificate, NoMemory, say

try:
    import resource
except ImportError:  # Windows has no such limits.
    resource = None  # type: ignore[assignment]

MAX_NODES = 256

KEEP_ALIVE_SECONDS = 90
"""Longer than a device keeps an idle connection, so a device never sends on one that is being closed."""

BODY_SLACK = 64 << 10

SPARE_FILES = 64
"""Open files for everything except connections."""


def card(target: TextSide, engine: Engine, *, max_tokens: int = ServeOptions.max_tokens) -> Card:
    """The card of this target, for `GET /v1/card`."""
    tokens = min(max_tokens, target.positions or max_tokens)
    nodes = min(MAX_NODES, engine.most_nodes or MAX_NODES)
    body = 4 * tokens + 6 * nodes + BODY_SLACK
    return Card(
        version=VERSION,
        target=target.name,
        vocabulary=engine.vocabulary,
        tokenizer=target.tokenizer,
        chat_template=target.chat_template,
        special_tokens=dict(target.special_tokens),
        stop_tokens=target.stop_tokens,
        limits=Limits(max_nodes=nodes, max_depth=nodes, max_tokens=tokens, max_body_bytes=body),
        memory=_memory_format(engine),
    )


def _memory_format(engine: Engine) -> MemoryFormat | None:
    encoder = engine.encoder
    return None if encoder is None else MemoryFormat(encoder.config.memory_digest, encoder.config.memory_layers)


def serve(options: ServeOptions) -> None:
    """Serve a target until SIGINT or SIGTERM, and then until running answers have ended.

    Raises what `START_ERRORS` names.
    """
    use_again()
    spin_briefly()
    if options.watch_stdin:
        end_with_stdin(lambda: os._exit(0))  # The only client is gone, and nothing needs saving.
    options = options.read()
    check_exposure(options)
    connections = _connections(options.max_connections)
    with contextlib.closing(bind(options.host, options.port, connections)) as listener:
        listener.most_per_address = options.max_per_address + BURST
        with ends_while_loading():
            app = build_app(options)
        write_log(options.log_format)
        start_giving_back()
        config = connection_config(
            app,
            connections,
            options.max_per_address,
            lambda reason: app.metrics.connections.labels(reason).inc(),
            devices=True,
            log_config=None,
            ssl_certfile=options.tls_cert,
            ssl_keyfile=options.tls_key,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        config.load()
        url = address(options, listener.getsockname()[1])
        with contextlib.suppress(KeyboardInterrupt), app.beside or contextlib.nullcontext():
            server = Server(
                config,
                lambda: print(f"outrider server ready at {url}", flush=True),
                app.admission,
                options.drain_seconds,
            )
            gc.freeze()  # Else a full collection walks through all modules and delays every answer.
            server.run(sockets=[listener])


@contextlib.contextmanager
def ends_while_loading() -> Iterator[None]:
    """Let SIGTERM end the process at once, even if it is the first process of a container.

    Linux drops a signal that the first process of a container has no handler for, and the server's own handler is
    installed only once the model is loaded. Call this in the main thread.
    """
    if os.getpid() != 1:
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def build_app(options: ServeOptions) -> VerifierApp:
    """Load a target, and make the app that serves it. `options`: after `read`. Raises what `START_ERRORS` names."""
    found = opened(options)
    target, engine, drafter = found.side, found.engine, found.drafter
    if not target.chat_template:
        say(
            f"{target.name} is a base model: without a chat template it continues text and cannot chat. "
            "If you know its template, give it as a file: --chat-template FILE"
        )
    if drafter is not None:
        _report_differences(drafter, target)
    own = None
    if drafter is not None and (drafter / GRAPH).is_file():  # Devices that draft need only the encoder.
        with timed(f"loading the drafter {drafter} ({(drafter / GRAPH).stat().st_size / 1e6:.0f} MB)", say):
            own = _own(drafter, engine)
    budget = int(engine.free_bytes() * options.cache_share) if options.cache_mb is None else options.cache_mb << 20
    engine.most_bytes = budget
    drafts = own or (OwnLookups(engine) if engine.takes_drafts else None)
    served = _fitting(target, engine, drafts, options.max_tokens, budget)
    tokenizer = None
    if target.text is not None:
        served = msgspec.structs.replace(served, likeness=likeness(target.text))
    if target.tokenizer_json is not None and served.likeness is not None:
        served = msgspec.structs.replace(served, tokenizer_bytes=len(target.tokenizer_json))
        tokenizer = TokenizerDelivery(target.tokenizer, target.tokenizer_json)
    learning = None if options.learn is None else _learning(options, drafter, own)
    deliveries = Deliveries(learning)
    if own is not None and drafter is not None and own.drafter.prompt is None and not why_no_drafts(own.drafter.config):
        # A prompt recipe reads a database, and devices never open one that a server sends.
        served = msgspec.structs.replace(served, drafter=_offer(drafter, deliveries, options.model))

    def publish(folder: Path) -> None:
        """Draft with what was made meanwhile. Raises `NoMemory`, and what `Drafter.load` and `remember_for` raise."""
        made = _own(folder, engine)
        if _most_tokens(engine, made, served.limits.max_tokens, budget) < served.limits.max_tokens:
            raise NoMemory(f"with it, {budget >> 20} MB hold no session of {served.limits.max_tokens} tokens")
        offer = _offer(folder, deliveries, options.model)
        remember_for(folder, engine)
        memory = _memory_format(engine)
        assert memory is not None
        app.service.draft_with(made, memory, offer)

    app = create_app(
        engine,
        served,
        options,
        max_bytes=budget,
        own=drafts,
        text=target.text,
        deliveries=deliveries,
        tokenizer=tokenizer,
        beside=learning or _maker(options, found, publish),
    )
    return app


def _own(folder: Path, engine: Engine) -> OwnDrafter:
    own = OwnDrafter(Drafter.load(folder), engine)
    own.warm()
    return own


def _offer(folder: Path, deliveries: Deliveries, model: str) -> DrafterOffer:
    """Let devices fetch the drafter in `folder`."""
    offered = delivery(folder)
    deliveries.add(folder, offered)
    say(f"devices may fetch the drafter: {offered.bytes / 1e6:.0f} MB")
    return DrafterOffer(digest=offered.digest, size=offered.bytes, licence=licence(model))


def _maker(options: ServeOptions, found: Opened, publish: Callable[[Path], None]) -> Maker | None:
    """The maker of a drafter for the server's idle time, if one is needed and can be made here."""
    task = task_for(options) if found.due and found.side.chat_template else None
    # Devices and sessions have the memory of a drafter that is in use, so another one waits for the next start.
    return None if task is None else Maker(task, publish if found.drafter is None else None)


def _report_differences(drafter: Path, target: TextSide) -> None:
    """Warn where a drafter's text side is not the target's: devices that draft ask with the drafter's."""
    config = read_config(drafter)
    if config.tokenizer and config.tokenizer != target.tokenizer.hex():
        say(f"warning: devices cannot use the drafter {drafter}, because it was made for another tokenizer")
    elif (drafter / TEMPLATE).is_file() and (drafter / TEMPLATE).read_bytes() != target.chat_template.encode():
        say(f"warning: the drafter {drafter} has another chat template. Devices that use it render questions with that")


def _learning(options: ServeOptions, drafter: Path | None, own: OwnDrafter | None) -> Learning | None:
    """The learner, or None if the drafter cannot learn; says which, and why."""
    tokens = options.tokens
    holders = frozenset({EVERYONE}) if tokens is None else tokens.holders
    if own is None or drafter is None:
        say("nothing is learnt: there is no drafter")
    elif (why := cannot_learn(own.drafter.config)) is not None:
        say(f"nothing is learnt: {why}")
    elif options.learn == "shared" and len(holders) < options.learn_holders:
        known = "there is no token file" if tokens is None else f"the token file has {len(holders)}"
        say(f"nothing is learnt: a shared drafter needs {options.learn_holders} token holders, and {known}")
    else:
        try:
            learning = Learning(options, drafter, own.drafter.config, own, holders)
        except OSError as error:
            say(f"nothing is learnt: {error}")
            return None
        say(f"the drafter learns from answers, {learning}. They are kept in memory until the server stops")
        return learning
    return None


def _fitting(target: TextSide, engine: Engine, own: OwnLookups | None, max_tokens: int, budget: int) -> Card:
    """The card, with sessions no longer than memory allows. Raises `NoMemory`."""
    wished = card(target, engine, max_tokens=max_tokens).limits.max_tokens
    fitting = _most_tokens(engine, own, wished, budget)
    if fitting < 1:
        raise NoMemory(
            f"{budget >> 20} MB are not enough for one session of {target.name}. Allow more with --cache-mb."
        )
    if fitting < wished:
        say(f"sessions hold {fitting} tokens, not {wished}: that is what {budget >> 20} MB take (--cache-mb)")
    else:
        say(f"sessions hold {wished} tokens each, and {budget >> 20} MB together")
    return card(target, engine, max_tokens=min(fitting, wished))


def _most_tokens(engine: Engine, own: OwnLookups | None, wished: int, budget: int) -> int:
    """How many tokens, up to `wished`, a session alone in `budget` bytes may have. Below 1 if there is no room."""
    table = Table(engine.bytes_per_token, max_sessions=1, max_bytes=budget)
    alone = Session(engine.context(), drafts=None if own is None else own.drafts())
    return table.largest(alone, wished + 2 * MAX_NODES) - 2 * MAX_NODES


def _connections(wished: int) -> int:
    """The requested number of connections, or fewer if this process may not open that many files."""
    if resource is None:
        return wished
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wished if files == resource.RLIM_INFINITY else max(8, min(wished, files - 2 * BURST - SPARE_FILES))


def address(options: ServeOptions, port: int) -> str:
    """The address of a server with these options that listens at `port`."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"{'http' if options.tls_cert is None else 'https'}://{host}:{port}"


def check_exposure(options: ServeOptions) -> None:
    """Warn if a token would cross the network unencrypted. Raises `Unprotected`, `BadOrigin`, `BadCertificate`."""
    host, tokens, cert, key = options.host, options.tokens, options.tls_cert, options.tls_key
    check_binding(host, tokens)
    web_origins(options.allow_origin, tokens)
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
