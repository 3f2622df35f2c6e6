"""What the metrics page shows: times and counts of requests, and what sessions, turns and the engine count themselves.

Labels are routes, statuses and reasons, never what somebody wrote. Names of token holders are among them only where
that is asked for.
"""

from __future__ import annotations

import dataclasses
import platform
from importlib.metadata import PackageNotFoundError, version

from remote.verifier.admission import Admission
from remote.verifier.exposition import Counter, Gauge, Histogram, Metric, Total
from remote.verifier.record import Record
from remote.verifier.sessions import Sessions
from remote.verifier.turns import Turns

PIECES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5, 5.0, 10.0)
"""Seconds of what happens once a round."""
ANSWERS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Seconds of what happens once an answer."""

COUNTERS = {
    "rounds": "Rounds of devices that were judged.",
    "streams": "Streams that began, chat completions among them.",
    "forwards": "Rounds of devices and of streams that the model has checked.",
    "replays": "Rounds that were asked again and answered from memory.",
    "conflicts": "Requests that built on tokens which the server does not hold.",
    "prompt_tokens": "Tokens that were appended to sessions.",
    "shared_tokens": "Tokens among them that another session had computed.",
    "drafted_nodes": "Tokens that were drafted, by devices and by the server.",
    "pruned_nodes": "Tokens of devices' drafts that were not checked, because others needed the time more.",
    "accepted_nodes": "Drafted tokens that the model accepted.",
    "new_tokens": "Tokens that answers gained.",
    "memory_tokens": "Tokens whose memory was sent.",
    "evictions": "Sessions that were dropped for others.",
    "refusals": "Requests that were refused because the server was full.",
    "batches": "Passes through the model.",
    "engine_seconds": "Seconds in which the engine worked.",
}
GAUGES = {
    "sessions": "Sessions that are kept.",
    "running_sessions": "Sessions whose answer is on its way.",
    "max_sessions": "Most sessions that are kept.",
    "cached_tokens": "Tokens of all sessions.",
    "cached_bytes": "Bytes that sessions hold.",
    "max_cached_bytes": "Most bytes that sessions may hold.",
    "waiting_rounds": "Requests that wait for their first tokens.",
    "running_answers": "Answers on their way, those of devices between two rounds among them.",
    "draining": "1 while the server ends and begins no more answers.",
}


class Metrics:
    """The times and counts of requests. Any thread may add to them."""

    def __init__(self, *, by_holder: bool = False) -> None:
        """`by_holder`: also count requests and tokens under the name of each token holder."""
        self._requests = Counter("outrider_http_requests_total", "Requests by route and status.", ("route", "status"))
        self._refused = Counter("outrider_not_admitted_total", "Requests that were not admitted.", ("reason",))
        self._connections = Counter(
            "outrider_connections_refused_total", "Connections that were refused or given up.", ("reason",)
        )
        self._durations = _seconds("http_request_duration", "Time from a request to the end of its answer.", ANSWERS)
        self._first = _seconds("time_to_first_token", "Time from a request to its first tokens.", ANSWERS)
        self._next = _seconds("time_between_pieces", "Time from tokens of an answer to the next ones.", PIECES)
        self._waits = _seconds("queue_wait", "Time in line before the engine takes a request.", ANSWERS)
        self._rounds = _seconds("round_duration", "Time of a check by the model, its turn included.", PIECES)
        self._holders = _Holders() if by_holder else None

    # ---- what a record tells -----------------------------------------------------------------------------------------

    def waited(self, route: str, seconds: float) -> None:
        self._waits.observe(seconds, route)

    def first_piece(self, route: str, seconds: float) -> None:
        self._first.observe(seconds, route)

    def next_piece(self, route: str, seconds: float) -> None:
        self._next.observe(seconds, route)

    def round(self, route: str, seconds: float) -> None:
        self._rounds.observe(seconds, route)

    # ---- what the event loop tells -----------------------------------------------------------------------------------

    def answered(self, record: Record, status: int, seconds: float) -> None:
        """A request has its answer."""
        self._requests.add(record.route, str(status))
        self._durations.observe(seconds, record.route)
        if self._holders is not None and record.holder is not None:
            self._holders.answered(record.holder, record)

    def not_admitted(self, reason: str) -> None:
        """A request was refused before it began."""
        self._refused.add(reason)

    def connection_refused(self, reason: str) -> None:
        """A connection was refused or given up."""
        self._connections.add(reason)

    def all(self) -> list[Metric]:
        """All of them."""
        found: list[Metric] = [
            self._requests,
            self._refused,
            self._connections,
            self._durations,
            self._first,
            self._next,
        ]
        found += [self._waits, self._rounds]
        return found if self._holders is None else [*found, *self._holders.all()]


class _Holders:
    """Counts under the names of token holders."""

    def __init__(self) -> None:
        self._requests = Counter("outrider_holder_requests_total", "Requests by token holder.", ("holder",))
        self._read = Counter("outrider_holder_prompt_tokens_total", "Tokens read, by token holder.", ("holder",))
        self._written = Counter("outrider_holder_new_tokens_total", "Tokens written, by token holder.", ("holder",))

    def answered(self, holder: str, record: Record) -> None:
        self._requests.add(holder)
        self._read.add(holder, count=record.prompt_tokens)
        self._written.add(holder, count=record.new_tokens)

    def all(self) -> list[Metric]:
        return [self._requests, self._read, self._written]


def service_metrics(sessions: Sessions, turns: Turns, admission: Admission, refused: int, target: str) -> list[Metric]:
    """What the parts of the service count themselves. `refused`: answers with 503. `target`: the model's name."""
    table = sessions.table
    counts = {
        **dataclasses.asdict(sessions.counters),
        "evictions": table.evictions,
        "refusals": refused,
        "batches": turns.batches,
        "engine_seconds": round(turns.seconds, 6),
    }
    values = {
        "sessions": len(table),
        "running_sessions": table.running,
        "max_sessions": table.max_sessions,
        "cached_tokens": table.tokens,
        "cached_bytes": table.bytes,
        "max_cached_bytes": table.max_bytes,
        "waiting_rounds": turns.waiting,
        "running_answers": admission.running,
        "draining": int(admission.draining),
    }
    engine = type(sessions.engine).__name__
    build = {"version": own_version(), "python": platform.python_version(), "engine": engine, "target": target}
    return [
        *(Total(f"outrider_{name}_total", COUNTERS[name], value) for name, value in counts.items()),
        *(Gauge(f"outrider_{name}", GAUGES[name], value) for name, value in values.items()),
        Gauge("outrider_build_info", "The version and what it runs on.", 1, **build),
    ]


def own_version() -> str:
    """Outrider's version, as it was installed."""
    try:
        return version("outrider")
    except PackageNotFoundError:
        return "unknown"


def _seconds(name: str, text: str, bounds: tuple[float, ...]) -> Histogram:
    return Histogram(f"outrider_{name}_seconds", f"{text.rstrip('.')}, in seconds.", bounds, ("route",))
