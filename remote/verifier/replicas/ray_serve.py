"""What Ray Serve runs: the replicas of a verifier, and the router that chooses one for each request.

Ray's proxies create the router by its name, and its workers the replicas, so nothing here depends on the process that
started them. This is the only module that imports Ray.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray import serve
from ray.exceptions import RayError
from ray.serve.config import HTTPOptions, RequestRouterConfig
from ray.serve.context import _get_global_client
from ray.serve.exceptions import RayServeException
from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

from remote.verifier.http import VerifierApp
from remote.verifier.replicas.affinity import SESSION_HEADERS, ranked, session_of

ROUTER = f"{__name__}:SessionRouter"
OTHER_HEADERS = [header.encode() for header in SESSION_HEADERS[1:]]
"""The session headers that Ray's proxy does not read itself."""
HEALTH_SECONDS = 60.0
"""Longest wait for the engine's thread. A turn is short, but a busy one may be a chunk of a long prompt."""
HEALTH_PERIOD_SECONDS = 10.0
GRACE_SECONDS = 20.0
"""Time for a replica that is being removed to finish its answers."""
QUIET = {"log_level": "WARNING", "enable_access_log": False}
RAY_ERRORS = (RayError, RayServeException, RuntimeError, ConnectionError, TimeoutError, ValueError, OSError)
"""What Ray raises if it does not start, cannot be reached or has no room."""


class SessionRouter(RequestRouter):  # type: ignore[misc] # Its types are Ray's.
    """Routes a session to its own replica, and a request without a session to the one with the fewest requests.

    If a replica accepts no more requests, its sessions go to the next one in their order, which answers 409 and is then
    sent all their tokens.
    """

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Groups of replicas in order of preference.

        Ray takes the first group with a free replica, and in it the one with the fewest requests.
        """
        replicas = list(candidate_replicas)
        random.shuffle(replicas)  # Ray takes the first of those with equally few.
        if pending_request is None:
            return [replicas]
        pending_request.routing_context.should_backoff = True  # Otherwise Ray retries without a pause if all are full.
        session = _session(pending_request)
        if session is None:
            return [replicas]
        named = [(replica.replica_id.unique_id, replica) for replica in replicas]
        return [[replica] for replica in ranked(session, named)]


def _session(request: PendingRequest) -> str | None:
    """The session of a request, as found by the proxy or in a header that the proxy does not know."""
    if request.metadata.session_id:
        return str(request.metadata.session_id)
    packed = request.args[0] if request.args else None
    if not isinstance(packed, bytes) or not any(header in packed.lower() for header in OTHER_HEADERS):
        return None
    return session_of(pickle.loads(packed).asgi_scope["headers"])  # This process packed it itself.


class Replica:
    """One verifier with its own loaded model."""

    def __init__(self, build: Callable[[], VerifierApp]) -> None:
        self._build = build

    def __serve_build_asgi_app__(self) -> VerifierApp:
        app = self._build()
        self._turns = app.turns
        return app

    async def check_health(self) -> None:
        """Raise `TimeoutError` if the engine's thread no longer takes turns; Ray then replaces this replica."""
        async with asyncio.timeout(HEALTH_SECONDS):
            await self._turns.take("", lambda: None)


DEPLOYMENT: Any = serve.deployment(name="verifier")(serve.ingress()(Replica))


@dataclass(frozen=True)
class Deployed:
    """How many replicas Ray runs, and which resources each one gets.

    `least`: replicas at any time; `most`: while many requests wait. `requests`: most that one answers at once. `cpus`:
    its processor cores. `on_gpu`: it uses graphics processors, if there are any.
    """

    least: int
    most: int
    requests: int
    cpus: float
    on_gpu: bool

    def of_deployment(self) -> dict[str, Any]:
        """These as Ray's options of a deployment."""
        count: dict[str, Any] = {"num_replicas": self.least}
        if self.most > self.least:
            count = {"autoscaling_config": {"min_replicas": self.least, "max_replicas": self.most}}
        return {
            **count,
            "ray_actor_options": {"num_cpus": self.cpus, "num_gpus": self._gpus()},
            "max_ongoing_requests": self.requests,
            "request_router_config": RequestRouterConfig(request_router_class=ROUTER),
            "health_check_period_s": HEALTH_PERIOD_SECONDS,
            "health_check_timeout_s": 2 * HEALTH_SECONDS,
            "graceful_shutdown_timeout_s": GRACE_SECONDS,
            "max_constructor_retry_count": 1,  # What cannot be loaded once cannot be loaded the second time either.
        }

    def _gpus(self) -> float:
        """The share of a graphics processor that one replica gets."""
        found = float(ray.cluster_resources().get("GPU", 0)) if self.on_gpu else 0.0
        return 1 if found >= self.most else math.floor(100 * found / self.most) / 100


@dataclass(frozen=True)
class Proxy:
    """The place at which Ray's proxy listens. `keep_alive`: seconds for idle connections."""

    host: str
    port: int
    cert: Path | None
    key: Path | None
    keep_alive: int

    def of_serve(self) -> HTTPOptions:
        """These as Ray's own options."""
        return HTTPOptions(
            host=self.host,
            port=self.port,
            keep_alive_timeout_s=self.keep_alive,
            ssl_keyfile=None if self.key is None else str(self.key.absolute()),
            ssl_certfile=None if self.cert is None else str(self.cert.absolute()),
        )


@contextlib.contextmanager
def connected(cluster: str | None, cores: int | None) -> Iterator[None]:
    """Ray on this machine, with this many `cores`, while the block runs; or a cluster that is already running.

    Raises what `RAY_ERRORS` names.
    """
    for name in ("ray", "ray.serve"):
        logging.getLogger(name).setLevel(logging.ERROR)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if cluster is None:
        ray.init("local", num_cpus=cores, include_dashboard=False, **quiet)
    else:
        ray.init(cluster, **quiet)
    try:
        yield
    finally:
        ray.shutdown()


@contextlib.contextmanager
def running(
    name: str, build: Callable[[], VerifierApp], deployed: Deployed, proxy: Proxy, *, stays: bool
) -> Iterator[None]:
    """Replicas that answer, as the application `name`. `build` loads the model and makes the app of one replica.

    `stays`: Ray keeps running after this block, so the application must be removed at its end. Raises what `RAY_ERRORS`
    names.
    """
    wished, found = proxy.of_serve(), _proxy_there()
    if found is not None and (found.host, found.port, found.ssl_certfile) != (
        wished.host,
        wished.port,
        wished.ssl_certfile,
    ):
        raise RayServeException(
            f"Ray Serve runs on this cluster already, and listens on {found.host}:{found.port}: choose these by --host "
            "and --port (and its certificate), or end it with `serve shutdown`"
        )
    serve.start(proxy_location="HeadOnly", http_options=wished, logging_config=QUIET)
    try:
        bound = DEPLOYMENT.options(**deployed.of_deployment()).bind(build)
        try:
            serve.run(bound, name=name, route_prefix="/", logging_config=QUIET)
        except RuntimeError as error:
            # Ray only says here that it failed; the reason is in the deployment's status.
            told = [of.message for of in serve.status().applications[name].deployments.values() if of.message]
            raise RuntimeError(" ".join(told) or str(error)) from error
        yield
    finally:
        serve.delete(name)
        if stays and found is None and not serve.status().applications:
            serve.shutdown()


def metrics() -> list[str]:
    """The addresses of Ray's own metrics for Prometheus: one for each machine."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    return [f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics" for node in nodes]


def _proxy_there() -> HTTPOptions | None:
    """Where Ray Serve listens if it is already running, or None."""
    try:
        client = _get_global_client()
    except RayServeException:
        return None
    return None if client is None else client.http_config
