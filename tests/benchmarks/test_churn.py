"""The benchmark of clients that come and go: a short run, and what it calls wrong."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.churn import SESSIONS, Sample, churned, grown, slope, summary
from benchmarks.churn_clients import Met

pytestmark = [pytest.mark.benchmarks, pytest.mark.bundled]
SAMPLE = Sample(
    at=0.0, rss_mb=250.0, threads=10, files=20, connections=12, cpu_seconds=1.0, sessions=SESSIONS, running_sessions=3
)
IDLE = replace(SAMPLE, files=8, connections=2, running_sessions=0)


def growing(every: float, by: float = 1.0) -> list[Sample]:
    """Forty samples, `every` so many seconds, with `by` so many MB more each time."""
    return [replace(SAMPLE, at=every * at, rss_mb=250.0 + by * at) for at in range(40)]


@pytest.mark.parametrize("gateway", [False, True])
def test_clients_come_and_go(gateway: bool) -> None:
    found = asyncio.run(churned(0.2, 0.05, 6.0, 3, gateway=gateway, asked=2, rest=0.0))
    told = found["summary"]
    assert told["wrong"] == [] and found["failures"] == [] and found["different"] == []
    assert sum(told["answers"].values()) >= 5 and sum(told["left"].values()) >= 1
    assert found["rows"][-1]["rss_mb"] > 50 and len(found["samples"]) >= 2
    assert any(kind.startswith("device") for kind in told["answers"]) is not gateway


def test_the_slope_is_that_of_most_pairs() -> None:
    points = [(float(at), 100.0 + 0.5 * at) for at in range(20)]
    points[7] = (7.0, 900.0)
    assert slope(points) == pytest.approx(0.5)
    assert slope(points[:1]) == 0.0


def test_only_what_goes_on_growing_has_grown() -> None:
    assert grown(list(range(10, 30))) and not grown([10, 14, 9, 17] * 5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"met": Met(failures=["chat: ReadTimeout"])}, ["an answer failed"]),
        ({"met": Met(different=[{"said": "ls"}])}, ["a text differs"]),
        ({"after": replace(IDLE, running_sessions=1)}, ["something runs when all clients have gone"]),
        ({"after": replace(IDLE, files=9)}, ["files stay open"]),
        ({"after": replace(IDLE, files=9), "kept": 1}, []),
        ({"samples": [replace(SAMPLE, sessions=SESSIONS + 1)]}, ["there are more sessions than allowed"]),
        ({"samples": [replace(SAMPLE, at=float(at), files=20 + at) for at in range(40)]}, ["open files grow"]),
        ({"samples": [replace(SAMPLE, at=float(at), threads=10 + at) for at in range(40)]}, ["threads grow"]),
        ({"samples": growing(every=16.0)}, ["memory grows"]),
        ({"samples": growing(every=14.0)}, []),  # Too short to tell.
        ({"samples": growing(every=60.0, by=0.5)}, []),
    ],
)
def test_what_must_not_be_is_named(change: dict[str, Any], said: list[str]) -> None:
    given = {"met": Met(), "after": IDLE, "samples": [replace(SAMPLE, at=float(at)) for at in range(1, 40)], **change}
    samples = [replace(sample, at=sample.at + 1) for sample in given["samples"]]
    assert summary(samples, IDLE, given["after"], given["met"], 0.0, given.get("kept", 0))["wrong"] == said
