"""Metrics as Prometheus reads them: counters, gauges and histograms, and their text.

The text has the format of version 0.0.4. Engines and the event loop both write, so each metric has a lock.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]


class Metric(Protocol):
    """Anything that has lines on the page."""

    def lines(self) -> Iterator[str]:
        """Its description and its samples."""
        ...


class Gauge:
    """One value that is known when the page is asked for, with labels or without."""

    kind = "gauge"

    def __init__(self, name: str, text: str, value: float, **labels: str) -> None:
        self._name, self._text, self._value, self._labels = name, text, value, labels

    def lines(self) -> Iterator[str]:
        yield from _head(self._name, self._text, self.kind)
        yield _sample(self._name, tuple(self._labels), tuple(self._labels.values()), self._value)


class Total(Gauge):
    """A count that somebody else keeps."""

    kind = "counter"


class Counter:
    """Counts, one for each set of label values."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self._name, self._text, self._labels = name, text, tuple(labels)
        self._lock = threading.Lock()
        self._counts: dict[Labels, float] = {}

    def add(self, *values: str, count: float = 1) -> None:
        """Add to the count of these label values."""
        with self._lock:
            self._counts[values] = self._counts.get(values, 0) + count

    def lines(self) -> Iterator[str]:
        with self._lock:
            counts = sorted(self._counts.items())
        yield from _head(self._name, self._text, "counter")
        for values, count in counts:
            yield _sample(self._name, self._labels, values, count)


class Histogram:
    """How often a value was at most so large, one distribution for each set of label values."""

    def __init__(self, name: str, text: str, bounds: Sequence[float], labels: Sequence[str]) -> None:
        """`bounds`: rising upper bounds of the buckets; one without a bound is added."""
        self._name, self._text, self._labels = name, text, tuple(labels)
        self._bounds = tuple(bounds)
        self._lock = threading.Lock()
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *values: str) -> None:
        """Note a value under these label values."""
        bucket = bisect_left(self._bounds, value)
        with self._lock:
            counts = self._counts.setdefault(values, [0] * (len(self._bounds) + 1))
            counts[bucket] += 1
            self._sums[values] = self._sums.get(values, 0.0) + value

    def lines(self) -> Iterator[str]:
        with self._lock:
            found = [(values, list(counts), self._sums[values]) for values, counts in sorted(self._counts.items())]
        yield from _head(self._name, self._text, "histogram")
        for values, counts, total in found:
            below = 0
            for bound, count in zip((*map(_number, self._bounds), "+Inf"), counts):
                below += count
                yield _sample(f"{self._name}_bucket", (*self._labels, "le"), (*values, bound), below)
            yield _sample(f"{self._name}_sum", self._labels, values, total)
            yield _sample(f"{self._name}_count", self._labels, values, below)


def page(metrics: Iterable[Metric]) -> str:
    """The text of all metrics."""
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines())


def _head(name: str, text: str, kind: str) -> Iterator[str]:
    described = text.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {name} {described}"
    yield f"# TYPE {name} {kind}"


def _sample(name: str, labels: Sequence[str], values: Sequence[str], value: float) -> str:
    told = ",".join(f'{label}="{_escaped(shown)}"' for label, shown in zip(labels, values))
    return f"{name}{{{told}}} {_number(value)}" if told else f"{name} {_number(value)}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
