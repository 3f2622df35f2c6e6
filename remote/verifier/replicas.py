"""`outrider serve --replicas N`: several verifiers of one model behind Ray Serve's proxy.

Each replica is a process with the model of its own. The proxy sends a session always to the same one
(`remote/verifier/ray_serve.py`). Ray runs on this machine for as long as the server, or it is a cluster that runs
already, if the variable `RAY_ADDRESS` names one.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from models.cores import usable_cores
from models.engines.choice import EngineKind
from models.errors import MissingPackage
from models.extras import how_to_install
from models.free_memory import CACHE_SHARE
from models.telemetry import switch_off
from models.text.text_side import read_template
from remote.verifier.connections import MAX_CONNECTIONS, bind
from remote.verifier.freed_memory import give_back_at_once, start_giving_back
from remote.verifier.holders import Tokens
from remote.verifier.http import MAX_SESSIONS, MAX_WAIT_SECONDS, MAX_WAITING, VerifierApp
from remote.verifier.loader import say, timed_step
from remote.verifier.maker import Making, look_up
from remote.verifier.security import web_origins
from remote.verifier.serve import KEEP_ALIVE_SECONDS, MAX_TOKENS, address, build_app, check_exposure
from remote.verifier.start_errors import CannotBind, NoReplicas

APPLICATION = "outrider"
"""The name under which Ray Serve knows the replicas."""
RAY_ADDRESS = "RAY_ADDRESS"
REACH_SECONDS = 10.0
ALONE = {
    # Whoever reaches Ray can run programs. Each replica has a port of Ray's on all addresses, which a token guards.
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # All other ports of Ray are on loopback, on every system.
}
"""Variables for a Ray that is only this machine's. It reads them when it is imported."""
NAMED = re.compile(
    r"^(?:\x1b\[\d+m)*(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Target|Model|Package|Memory|Weights|Tokenizer): "
)
"""The name of an exception's class, as tracebacks put it before what the exception says."""


@dataclass(frozen=True)
class Replicas:
    """How many verifiers there are: `least` at any time, and up to `most` while many requests wait."""

    least: int
    most: int


def serve_replicas(
    model: str,
    *,
    replicas: Replicas,
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
    kept_texts: Path | None = None,
    chat_template: Path | None = None,
) -> None:
    """Serve a target by several replicas until SIGINT or SIGTERM.

    The arguments are those of `serve`; sessions, waiting answers and memory count for each replica.
    `max_connections`: most requests that one replica answers at once. Raises what `START_ERRORS` names.
    """
    cluster = cluster_address()
    if watch_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    check_exposure(host, tokens, tls_cert, tls_key)
    pages = web_origins(origins, tokens)
    template = None if chat_template is None else read_template(chat_template)
    if cluster is None:
        with contextlib.closing(bind(host, port)) as listener:  # A taken port is reported before minutes of loading.
            port = listener.getsockname()[1]
    elif port == 0:
        raise CannotBind(
            f"On a Ray cluster nobody can tell which port is free: choose one by --port, or unset {RAY_ADDRESS}."
        )
    if drafter is None and making is not None:
        # Every replica must have the same one, or a device's memory would fit only some of them.
        drafter, said, due = look_up(model, making, template)
        if said or due:
            say(said or "no drafts: replicas make no drafter. One process does, without --replicas")
    cores = None if cluster else usable_cores()
    out = sys.stdout
    # Ray tells there what becomes of its processes; what this server says there is its address alone.
    with contextlib.redirect_stdout(sys.stderr), _ray(cluster, cores) as ray_serve:
        beside = 1 if cores is None else replicas.most
        build = partial(
            replica_app,
            model,
            drafter=drafter,
            engine=engine,
            quantize=quantize,
            tokens=tokens,
            hosts=tuple(hosts),
            origins=pages,
            max_sessions=max_sessions,
            max_tokens=max_tokens,
            max_waiting=max_waiting,
            max_wait=max_wait,
            max_cached_bytes=max_cached_bytes,
            threads=threads if cores is None or threads else max(1, cores // beside),
            cache_share=CACHE_SHARE / beside,
            kept_texts=kept_texts,
            template=template,
        )
        options = ray_serve.Options(
            least=replicas.least,
            most=replicas.most,
            requests=max_connections,
            cpus=cpus(cores, threads, beside),
            on_gpu=engine in ("auto", "torch"),
        )
        proxy = ray_serve.Proxy(host, port, tls_cert, tls_key, KEEP_ALIVE_SECONDS)
        with _running(ray_serve, build, options, proxy, stays=cluster is not None), _stopping() as stop:
            print(f"outrider server ready at {address(host, port, tls=tls_cert is not None)}", file=out, flush=True)
            stop.wait()


def cluster_address() -> str | None:
    """The cluster that the environment names; None: Ray is to run on this machine alone."""
    told = os.environ.get(RAY_ADDRESS, "")
    return None if told in ("", "local") else told


def replica_app(model: str, **options: Any) -> VerifierApp:
    """The app of one replica, in its own process. Raises what `START_ERRORS` names."""
    give_back_at_once()
    app, _ = build_app(model, **options)
    start_giving_back()
    return app


def cpus(cores: int | None, threads: int | None, beside: int) -> float:
    """Processor cores that Ray counts for one replica.

    `cores`: of this machine; None: a cluster. `beside`: the replicas that share them.
    """
    if cores is None:
        return threads or 1
    return cores // beside or math.floor(100 * cores / beside) / 100  # Ray takes parts of one core only.


@contextlib.contextmanager
def _ray(cluster: str | None, cores: int | None) -> Iterator[Any]:
    """Start Ray on this machine, or join a cluster; yields the module that imports Ray.

    Raises `MissingPackage`, `NoReplicas`.
    """
    # Ray reports its use to its makers unless this is set before it is imported.
    switch_off()
    if cluster is None:
        os.environ |= ALONE | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
    try:
        from remote.verifier import ray_serve
    except ImportError as error:
        raise MissingPackage(
            f"--replicas needs Ray Serve ({error.name} is missing): {how_to_install('ray')}"
        ) from error
    where = f"the Ray cluster at {cluster}" if cluster else "Ray on this machine"
    with contextlib.ExitStack() as undo:
        try:
            with timed_step(f"{'joining' if cluster else 'starting'} {where}"):
                if cluster:
                    reach(cluster)
                undo.enter_context(ray_serve.connected(cluster, cores))
        except ray_serve.RAY_ERRORS as error:
            advice = (
                f"Check the variable {RAY_ADDRESS}, and that the cluster has the same versions of Ray and Python; "
                "without the variable, Ray is started on this machine"
                if cluster
                else "Its own log is in /tmp/ray/session_latest/logs"
            )
            raise NoReplicas(f"No connection to {where}: {last_line(str(error))}. {advice}.") from error
        yield ray_serve


def reach(cluster: str) -> None:
    """Raise `OSError` if nothing listens at a cluster's address, where Ray itself would try for minutes."""
    host, _, port = cluster.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():  # Else it is a word that Ray looks up itself, as "auto".
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()


@contextlib.contextmanager
def _running(
    ray_serve: Any, build: Callable[[], VerifierApp], options: Any, proxy: Any, *, stays: bool
) -> Iterator[None]:
    """Run the replicas, and take them away at the end. Raises `NoReplicas`."""
    with contextlib.ExitStack() as undo:
        try:
            with timed_step(f"starting {options.least} replicas"):
                undo.enter_context(ray_serve.running(APPLICATION, build, options, proxy, stays=stays))
        except ray_serve.RAY_ERRORS as error:
            raise NoReplicas(f"The replicas do not start: {last_line(str(error))}.") from error
        say(f"Ray's own figures for Prometheus: {', '.join(ray_serve.metrics())}")
        yield


@contextlib.contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set."""
    stop = threading.Event()

    def end(*_: object) -> None:
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)  # Ray has processes of its own, so this one cannot just vanish.


def last_line(said: str) -> str:
    """What an error of Ray is about: the last line of the traceback that it quotes, without the name of the class."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = next((line for line in reversed(lines) if NAMED.match(line)), lines[-1] if lines else "it does not say why")
    return NAMED.sub("", told).rstrip(".")
