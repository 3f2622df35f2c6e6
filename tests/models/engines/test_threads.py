"""The number of threads follows the times of forwards."""

from __future__ import annotations

from collections.abc import Callable

from models.engines.threads import LATEST, Threads

QUIET = {1: 0.010, 2: 0.006, 4: 0.004}
BUSY = {1: 0.012, 2: 0.250, 4: 1.0}


def run(threads: Threads, steps: int, seconds: Callable[[int, int], float], rows: int = 1) -> tuple[float, list[int]]:
    """Seconds of this many forwards that take `seconds(threads, step)`, and the threads of each."""
    total, counts = 0.0, list[int]()
    for step in range(steps):
        counts.append(threads.count)
        took = seconds(threads.count, step)
        total += took
        threads.ran(rows, took)
    return total, counts


def test_the_fastest_number_is_found_and_a_busy_neighbour_noticed_at_little_cost() -> None:
    for times, best in ((QUIET, 4), (BUSY, 1), ({1: 0.01, 2: 0.006, 4: 0.009}, 2)):
        threads = Threads(4)
        run(threads, 12, lambda count, _, times=times: times[count])
        assert threads.count == best and not threads.trying
    threads = Threads(2)
    run(threads, 200, lambda count, _: QUIET[count])
    total, counts = run(threads, 5000, lambda count, _: BUSY[count])
    assert counts[-1] == 1 and total < 1.1 * 5000 * BUSY[1]
    run(threads, 2 * LATEST, lambda count, _: QUIET[count])
    assert threads.count == 2
