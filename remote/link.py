"""What is measured of the network: round trips, failures, traffic; and what follows for deadlines and probes.

Pure arithmetic over numbers that the caller measured: no clock and no sockets, so it tests without waiting.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Literal

State = Literal["online", "degraded", "offline"]

RECENT = 8
"""Exchanges that `Link.state` looks back on."""
SLOW_SECONDS = 1.0
"""A smoothed round trip above this is `degraded`."""
MARGIN_SECONDS = 0.5
"""Least slack of a deadline over the mean: a lost segment costs a retransmission time-out of 0.2 s or more (Linux)."""
FIRST_DEADLINE_SECONDS = 5.0
"""While no round trip is known: covers a name lookup, TCP and TLS over a poor line."""
MAX_DEADLINE_SECONDS = 60.0
"""Of the line's part, as in RFC 6298."""
SERVER_SLACK = 2.0
"""A verifier may take this many times its estimate, since other sessions share it."""
PROBE_SECONDS = (0.25, 15.0)


class Link:
    """A running picture of one device's line to its verifier.

    Round trips are smoothed as TCP does it (RFC 6298): gain 1/8 for the mean, 1/4 for the mean deviation, deadline at
    four deviations over the mean, doubled with each failure in a row.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()
        self._mean: float | None = None
        self._deviation = 0.0
        self._recent: deque[bool] = deque(maxlen=RECENT)
        self._failures = 0
        self._probes = 0
        self.bytes_up = 0
        self.bytes_down = 0

    def observe(self, round_seconds: float, server_seconds: float, bytes_up: int, bytes_down: int) -> None:
        """An exchange that worked: how long it took, how much of that was the verifier's own time, and its traffic."""
        rtt = max(0.0, round_seconds - server_seconds)
        if self._mean is None:
            self._mean, self._deviation = rtt, rtt / 2
        else:
            self._deviation += (abs(rtt - self._mean) - self._deviation) / 4
            self._mean += (rtt - self._mean) / 8
        self._recent.append(True)
        self._failures = self._probes = 0
        self.bytes_up += bytes_up
        self.bytes_down += bytes_down

    def failed(self) -> None:
        """An exchange that did not: broken, refused by the network, or late."""
        self._recent.append(False)
        self._failures += 1

    @property
    def rtt_seconds(self) -> float | None:
        """The smoothed round trip without the verifier's time; None before the first exchange."""
        return self._mean

    @property
    def jitter_seconds(self) -> float:
        """The smoothed mean deviation of round trips."""
        return self._deviation

    @property
    def state(self) -> State:
        """`offline`: the last exchange failed. `degraded`: it worked, but lately one failed or round trips are long.

        A line that nobody has tried yet is `online`.
        """
        if self._failures:
            return "offline"
        slow = self._mean is not None and self._mean > SLOW_SECONDS
        return "degraded" if slow or not all(self._recent) else "online"

    def deadline(self, server_estimate: float) -> float:
        """Seconds to wait for an answer that should cost the verifier `server_estimate` seconds."""
        line = FIRST_DEADLINE_SECONDS
        if self._mean is not None:
            line = self._mean + max(4 * self._deviation, MARGIN_SECONDS)
        backed_off = line * 2.0 ** min(self._failures, 10)
        return min(backed_off, MAX_DEADLINE_SECONDS) + SERVER_SLACK * server_estimate

    def next_probe_delay(self) -> float:
        """Seconds until the next probe of a dead line: doubling from 0.25 to 15, jittered by a half.

        Jitter keeps the devices of one office from knocking all at once when their line is back.
        """
        least, most = PROBE_SECONDS
        ceiling = min(most, 2 * least * 2.0 ** min(self._probes, 10))
        self._probes += 1
        return self._rng.uniform(ceiling / 2, ceiling)
