"""The metrics of requests: their times and counts. Any thread may add to them.

Labels are routes, statuses and reasons, never anything that a client wrote. Names of token holders are included only on
request.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call] # The page has no second line for each count.

PIECES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5, 5.0, 10.0)
"""Buckets, in seconds, for events that happen once a round."""
ANSWERS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Buckets, in seconds, for events that happen once an answer."""


class Metrics:
    """The counters and timers of requests, in a separate registry."""

    def __init__(self, *, by_holder: bool = False) -> None:
        """`by_holder`: also count requests and tokens under the name of each token holder."""
        self.registry = registry = CollectorRegistry()

        def count(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"outrider_{name}", text, labels, registry=registry)

        def times(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(
                f"outrider_{name}_seconds", f"{text}, in seconds.", ("route",), registry=registry, buckets=buckets
            )

        self.requests = count("http_requests", "Requests by route and status.", "route", "status")
        self.refused = count("not_admitted", "Requests that were not admitted.", "reason")
        self.connections = count("connections_refused", "Connections refused or closed.", "reason")
        self.durations = times("http_request_duration", "Time from a request to the end of its answer", ANSWERS)
        first = times("time_to_first_token", "Time from a request to its first tokens", ANSWERS)
        further = times("time_between_pieces", "Time between consecutive tokens of an answer", PIECES)
        self.waits = times("queue_wait", "Time in the queue before the engine takes a request", ANSWERS)
        rounds = times("round_duration", "Time of one check by the model, including its wait", PIECES)
        self._pieces = rounds, first, further
        self._of_routes: dict[str, list[Histogram]] = {}
        self._of_holders: tuple[Counter, ...] = ()
        if by_holder:
            self._of_holders = (
                count("holder_requests", "Requests by token holder.", "holder"),
                count("holder_prompt_tokens", "Tokens read, by token holder.", "holder"),
                count("holder_new_tokens", "Tokens written, by token holder.", "holder"),
            )

    def pieces(self, route: str) -> list[Histogram]:
        """The times of a route's rounds, of the first tokens of its answers, and between further ones."""
        if route not in self._of_routes:
            self._of_routes[route] = [each.labels(route) for each in self._pieces]
        return self._of_routes[route]

    def count_holder(self, holder: str, prompt_tokens: int, new_tokens: int) -> None:
        """Count a request of a token holder, if that is enabled."""
        for counter, more in zip(self._of_holders, (1, prompt_tokens, new_tokens)):
            counter.labels(holder).inc(more)
