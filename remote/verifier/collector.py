"""The page for Prometheus: metrics of requests, and the counters of sessions, turns and the engine."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from remote.verifier.admission import Admission
from remote.verifier.observability.metrics import Metrics
from remote.verifier.sessions.sessions import Sessions
from remote.verifier.sessions.turns import Turns

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTERS = {
    "rounds": "Rounds of devices that the model has checked.",
    "streams": "Streams begun, including chat completions.",
    "forwards": "Rounds of devices and streams that the model has checked.",
    "replays": "Repeated rounds that were answered from memory.",
    "conflicts": "Requests based on tokens that the server does not hold.",
    "prompt_tokens": "Tokens appended to sessions.",
    "shared_tokens": "Of these, tokens that another session had computed.",
    "drafted_nodes": "Tokens drafted by devices and by the server.",
    "pruned_nodes": "Tokens of devices' drafts left unchecked in favour of other clients.",
    "accepted_nodes": "Drafted tokens that the model accepted.",
    "new_tokens": "Tokens of answers.",
    "away_tokens": "Of these, tokens written while the device was disconnected.",
    "memory_tokens": "Tokens whose memory was sent.",
    "evictions": "Sessions dropped for others.",
    "refusals": "Requests refused because the server was full.",
    "batches": "Passes through the model.",
    "engine_seconds": "Seconds that the engine worked.",
}
GAUGES = {
    "sessions": "Sessions held.",
    "running_sessions": "Sessions with an answer in progress.",
    "away_sessions": "Of these, sessions whose device is disconnected.",
    "max_sessions": "Maximum number of sessions.",
    "cached_tokens": "Tokens of all sessions.",
    "cached_bytes": "Bytes held by sessions.",
    "max_cached_bytes": "Maximum number of bytes held by sessions.",
    "waiting_rounds": "Requests waiting for their first tokens.",
    "running_answers": "Answers in progress, including those of devices between two rounds.",
    "draining": "1 while the server drains.",
}


class ServiceCollector(Collector):
    """Reads the counters of all parts of the service when the page is requested."""

    def __init__(self, sessions: Sessions, turns: Turns, admission: Admission, target: str) -> None:
        """`target`: the model's name."""
        self._sessions, self._turns, self._admission = sessions, turns, admission
        self._labels = {
            "version": _own_version(),
            "python": platform.python_version(),
            "engine": type(sessions.engine).__name__,
            "target": target,
        }
        self.refusals = 0
        """Number of 503 answers."""

    def collect(self) -> Iterator[Metric]:
        table, turns, admission = self._sessions.table, self._turns, self._admission
        counts = {
            **dataclasses.asdict(self._sessions.counters),
            "evictions": table.evictions,
            "refusals": self.refusals,
            "batches": turns.batches,
            "engine_seconds": round(turns.seconds, 6),
        }
        values = {
            "sessions": len(table),
            "running_sessions": table.running,
            "away_sessions": len(table.away),
            "max_sessions": table.max_sessions,
            "cached_tokens": table.tokens,
            "cached_bytes": table.bytes,
            "max_cached_bytes": table.max_bytes,
            "waiting_rounds": turns.waiting,
            "running_answers": admission.running,
            "draining": admission.draining,
        }
        for name, count in counts.items():
            yield CounterMetricFamily(f"outrider_{name}", COUNTERS[name], count)
        for name, value in values.items():
            yield GaugeMetricFamily(f"outrider_{name}", GAUGES[name], value)
        build = GaugeMetricFamily("outrider_build_info", "The version and what it runs on.", labels=list(self._labels))
        build.add_metric(list(self._labels.values()), 1)
        yield build


def page(service: ServiceCollector, metrics: Metrics) -> bytes:
    """The text that Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(service)
    return generate_latest(registry) + generate_latest(metrics.registry)


def _own_version() -> str:
    """Outrider's version, as it was installed."""
    try:
        return version("outrider")
    except PackageNotFoundError:
        return "unknown"
