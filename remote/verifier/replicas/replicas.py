"""`outrider serve --replicas N`: several verifiers of one model behind Ray Serve's proxy.

Each replica is a process with its own copy of the model. The proxy always sends a session to the same one
(`ray_serve.py`). Ray runs on this machine for as long as the server does, unless the variable `RAY_ADDRESS` names a
running cluster.
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
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from models.cores import usable_cores
from models.engines.choice import timed
from models.errors import MissingPackage
from models.extras import how_to_install
from models.free_memory import CACHE_SHARE
from models.telemetry import switch_off
from remote.verifier.connections import bind
from remote.verifier.freed_memory import start_giving_back, use_again
from remote.verifier.http import VerifierApp
from remote.verifier.idle import end_with_stdin
from remote.verifier.making.maker import look_up
from remote.verifier.options import ServeOptions
from remote.verifier.serve import KEEP_ALIVE_SECONDS, address, build_app, check_exposure
from remote.verifier.start_errors import CannotBind, NoReplicas, say

APPLICATION = "outrider"
"""The name under which Ray Serve knows the replicas."""
RAY_ADDRESS = "RAY_ADDRESS"
REACH_SECONDS = 10.0
ALONE = {
    # Whoever can reach Ray can run programs. Each replica has a Ray port on all addresses, which a token protects.
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # All other ports of Ray are on loopback, on every system.
}
"""Variables for a Ray that runs on this machine alone. Ray reads them when it is imported."""
NAMED = re.compile(
    r"^(?:\x1b\[\d+m)*(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Target|Model|Package|Memory|Weights|Tokenizer): "
)
"""The class name that tracebacks put before an exception's message."""


def serve_replicas(options: ServeOptions) -> None:
    """Serve a target by several replicas until SIGINT or SIGTERM.

    Sessions, waiting answers and memory count for each replica, and `max_connections` is the number of requests that
    one answers at once. Raises what `START_ERRORS` names.
    """
    cluster = cluster_address()
    if options.watch_stdin:
        # Ray has its own processes, so this one cannot just exit.
        end_with_stdin(lambda: os.kill(os.getpid(), signal.SIGTERM))
    options = options.read()
    check_exposure(options)
    port = options.port
    if cluster is None:
        with contextlib.closing(bind(options.host, port)) as listener:  # A taken port is reported before loading.
            port = listener.getsockname()[1]
    elif port == 0:
        raise CannotBind(
            f"On a Ray cluster nobody can tell which port is free: choose one by --port, or unset {RAY_ADDRESS}."
        )
    if options.drafter is None:
        # Every replica must have the same drafter, or a device's memory would fit only some of them.
        drafter, said, due = look_up(options)
        if said or due:
            say(said or "no drafts: replicas make no drafter. One process does, without --replicas")
        options = replace(options, drafter=drafter, made=None)
    cores = None if cluster else usable_cores()
    out = sys.stdout
    # Ray reports on its processes there; this server prints only its address.
    with contextlib.redirect_stdout(sys.stderr), _ray(cluster, cores) as ray_serve:
        running = _running(ray_serve, options, port, cores, stays=cluster is not None)
        with running, _stopping() as stop:
            print(f"outrider server ready at {address(options, port)}", file=out, flush=True)
            stop.wait()


def cluster_address() -> str | None:
    """The cluster that the environment names, or None to run Ray on this machine alone."""
    told = os.environ.get(RAY_ADDRESS, "")
    return None if told in ("", "local") else told


def replica_app(options: ServeOptions) -> VerifierApp:
    """The app of one replica, in its own process. Raises what `START_ERRORS` names."""
    use_again()
    app = build_app(options)
    start_giving_back()
    return app


def cpus(cores: int | None, threads: int | None, beside: int) -> float:
    """Processor cores that Ray counts for one replica.

    `cores`: of this machine, or None for a cluster. `beside`: number of replicas that share them.
    """
    if cores is None:
        return threads or 1
    return cores // beside or math.floor(100 * cores / beside) / 100  # Ray accepts fractions only below one core.


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
        from remote.verifier.replicas import ray_serve
    except ImportError as error:
        raise MissingPackage(
            f"--replicas needs Ray Serve ({error.name} is missing): {how_to_install('ray')}"
        ) from error
    where = f"the Ray cluster at {cluster}" if cluster else "Ray on this machine"
    with contextlib.ExitStack() as undo:
        try:
            with timed(f"{'joining' if cluster else 'starting'} {where}", say):
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
    """Raise `OSError` if nothing listens at a cluster's address; Ray itself would try for minutes."""
    host, _, port = cluster.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():  # Otherwise it is a word that Ray resolves itself, such as "auto".
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()


@contextlib.contextmanager
def _running(ray_serve: Any, options: ServeOptions, port: int, cores: int | None, *, stays: bool) -> Iterator[None]:
    """Run the replicas, and remove them at the end. Raises `NoReplicas`."""
    least = options.replicas or 1
    most = options.max_replicas or least
    beside = 1 if cores is None else most
    threads = options.threads if cores is None or options.threads else max(1, cores // beside)
    build = partial(replica_app, replace(options, threads=threads, cache_share=CACHE_SHARE / beside))
    deployed = ray_serve.Deployed(
        least=least,
        most=most,
        requests=options.max_connections,
        cpus=cpus(cores, options.threads, beside),
        on_gpu=options.engine in ("auto", "torch"),
    )
    proxy = ray_serve.Proxy(options.host, port, options.tls_cert, options.tls_key, KEEP_ALIVE_SECONDS)
    with contextlib.ExitStack() as undo:
        try:
            with timed(f"starting {least} replicas", say):
                undo.enter_context(ray_serve.running(APPLICATION, build, deployed, proxy, stays=stays))
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


def last_line(said: str) -> str:
    """The reason of a Ray error: the last line of the traceback that it quotes, without the class name."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = next((line for line in reversed(lines) if NAMED.match(line)), lines[-1] if lines else "it does not say why")
    return NAMED.sub("", told).rstrip(".")
