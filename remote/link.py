"""Round trips, bandwidth and failures of a line, and the deadlines and probes that follow from them.

Pure arithmetic on the caller's measurements. No clock and no sockets, so tests do not wait.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import Literal

State = Literal["online", "degraded", "offline"]

RECENT = 8
"""Exchanges that `Link.state` looks back on."""
SLOW_SECONDS = 1.0
"""A line with longer smoothed round trips is `degraded`."""
MARGIN_SECONDS = 0.5
"""Least margin of a deadline over the mean. A lost segment costs a retransmission time-out of 0.2 s or more (Linux)."""
FIRST_DEADLINE_SECONDS = 5.0
"""Deadline before the first round trip. It covers a name lookup, TCP and TLS over a poor line."""
MAX_DEADLINE_SECONDS = 60.0
"""Longest deadline for the line's part, as in RFC 6298."""
MAX_SERVER_SECONDS = 300.0
"""Longest deadline for the verifier's part: a slow verifier that reads a very long prompt."""
STALL_SECONDS = 1.0
"""Shortest deadline after the first round trip: a busy machine at either end may stall for that long."""
BUSY_SECONDS = 10.0
"""Time that a verifier may take beyond its deadline while it sends signs of life."""
SERVER_SLACK = 2.0
"""A verifier may take this many times its estimate, because other sessions share it."""
PROBE_SECONDS = (0.25, 15.0)
EAGER_SECONDS = 1.0
"""Longest wait between probes while somebody waits for the line."""
LARGE = 4096
"""A request or a stream must be larger than usual by this many bytes for its time to measure the bandwidth."""
RATES = 8
"""Transfers from which a bandwidth is estimated."""
FIRST_BYTES_PER_SECOND = 48_000.0
"""Assumed uplink before one was measured, for deadlines only: half of the slowest uplink of 3G."""


@dataclass(frozen=True)
class Signs:
    """How long a device waits on a stream whose verifier gives signs of life, in seconds.

    `line`: without a byte, in addition to the time between two signs. `busy`: without any other frame while signs
    arrive.
    """

    line: float
    busy: float


class Link:
    """A running estimate of one device's line to its verifier.

    Round trips are smoothed as in TCP (RFC 6298): gain 1/8 for the mean and 1/4 for the mean deviation; the deadline is
    four deviations over the mean, at least `STALL_SECONDS`, and doubles with each failure in a row. The first eight
    round trips weigh the same, because long streams have few of them and the very first one may have met a verifier
    that was just starting.

    A bandwidth is the median rate of the last few large transfers. A busy verifier makes a transfer look slower than
    the line, and packets that were held up and arrive together make it look faster.

    `read_seconds`: how long an answer may take, as set by a person, or None for what the measurements suggest.
    `connect_seconds`: the same for making a connection.
    """

    def __init__(
        self,
        rng: random.Random | None = None,
        *,
        read_seconds: float | None = None,
        connect_seconds: float | None = None,
    ) -> None:
        self._rng = rng or random.Random()
        self._read_seconds = read_seconds
        self._connect_seconds = connect_seconds or 0.0
        self._mean: float | None = None
        self._deviation = 0.0
        self._count = 1
        self._recent: deque[bool] = deque(maxlen=RECENT)
        self._failures = 0
        self._probes = 0
        self._greeting: float | None = None
        self._request = 0.0
        self._up: deque[float] = deque(maxlen=RATES)
        self._down: deque[float] = deque(maxlen=RATES)
        self.bytes_up = 0
        self.bytes_down = 0

    def observe(self, round_seconds: float, server_seconds: float, bytes_up: int, bytes_down: int) -> None:
        """Record a successful exchange: its time, the verifier's part of that, and its bytes."""
        rtt = max(0.0, round_seconds - server_seconds)
        large = self._mean is not None and bytes_up - self._request >= LARGE
        if large and self._mean is not None:
            # The extra time of a long prompt is its upload, which says nothing about the round trip.
            if (longer := rtt - self._mean) > 0:
                self._up.append((bytes_up - self._request) / longer)
        elif self._mean is None:
            self._mean, self._deviation = rtt, rtt / 2
        else:
            self._deviation += (abs(rtt - self._mean) - self._deviation) / 4
            self._count += 1
            self._mean += (rtt - self._mean) / min(self._count, 8)
        self._request = self._request if large else bytes_up
        self._recent.append(True)
        self._failures = self._probes = 0
        self.bytes_up += bytes_up
        self.bytes_down += bytes_down

    def greeted(self, seconds: float) -> None:
        """Record the time of a small exchange without work. It counts as the round trip until one is measured."""
        self._greeting = seconds

    def received(self, size: int, seconds: float) -> None:
        """Record the size of a stream, and the seconds from its first byte to its last."""
        if size >= LARGE and seconds > 0:
            self._down.append(size / seconds)

    def failed(self) -> None:
        """Record a failed exchange: broken, refused by the network, or late."""
        self._recent.append(False)
        self._failures += 1

    @property
    def rtt_seconds(self) -> float | None:
        """The smoothed round trip without the verifier's time. None before the first exchange."""
        return self._greeting if self._mean is None else self._mean

    @property
    def up_bytes_per_second(self) -> float | None:
        """Bandwidth to the verifier. None before a long prompt."""
        return median(self._up) if self._up else None

    @property
    def down_bytes_per_second(self) -> float | None:
        """Bandwidth from the verifier, or its own speed if that is lower. None before a larger transfer."""
        return median(self._down) if self._down else None

    @property
    def state(self) -> State:
        """`offline`: the last exchange failed. `degraded`: it worked, but one failed lately or round trips are long.

        A line that was never tried is `online`.
        """
        if self._failures:
            return "offline"
        slow = self._mean is not None and self._mean > SLOW_SECONDS
        return "degraded" if slow or not all(self._recent) else "online"

    def deadline(self, server_estimate: float, size: int = 0) -> float:
        """Seconds to wait for an answer that should cost the verifier `server_estimate` seconds.

        `size`: bytes of the request beyond the usual.
        """
        sending = size / (self.up_bytes_per_second or FIRST_BYTES_PER_SECOND)
        if self._read_seconds is not None:
            return self._read_seconds + sending
        line = FIRST_DEADLINE_SECONDS
        if self._mean is not None:
            line = max(STALL_SECONDS, self._mean + max(4 * self._deviation, MARGIN_SECONDS))
        backed_off = (line + sending) * 2.0 ** min(self._failures, 10)
        return min(backed_off, MAX_DEADLINE_SECONDS) + min(SERVER_SLACK * server_estimate, MAX_SERVER_SECONDS)

    def signs(self, server_estimate: float, size: int = 0) -> Signs:
        """How long to wait on a stream that gives signs of life. For the arguments, see `deadline`."""
        line, busy = self.deadline(0.0), self.deadline(server_estimate, size)
        return Signs(line, busy + BUSY_SECONDS if self._read_seconds is None else busy)

    def probe_deadline(self) -> float:
        """Seconds that a probe may take: connecting, and a little more than one exchange on the line as last measured.

        It is short, because a packet that was sent into an outage is retransmitted late, while a new probe starts at
        once.
        """
        line = FIRST_DEADLINE_SECONDS if self._mean is None else 3 * self._mean + MARGIN_SECONDS + EAGER_SECONDS
        return line + self._connect_seconds

    def pause(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row of a server that could be reached."""
        if not failures:
            return 0.0
        ceiling = min(PROBE_SECONDS[1], PROBE_SECONDS[0] * 2.0 ** min(failures, 10))
        return self._rng.uniform(ceiling / 2, ceiling)

    def next_probe_delay(self, *, eager: bool = False) -> float:
        """Seconds until the next probe of a dead line: doubling from 0.25 to 15, with random jitter of a half.

        `eager`: at most 1. Jitter keeps the devices of one office from probing all at once when their line is back.
        """
        least, most = PROBE_SECONDS[0], EAGER_SECONDS if eager else PROBE_SECONDS[1]
        ceiling = min(most, 2 * least * 2.0 ** min(self._probes, 10))
        self._probes += 1
        return self._rng.uniform(ceiling / 2, ceiling)
