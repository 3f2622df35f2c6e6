"""A line between a device and its verifier, as a TCP proxy on loopback: delay, jitter, bandwidth, loss, outages.

It needs no privileges. It forwards bytes, not packets: it does to a connection what a line does to the stream that TCP
makes of it. Bytes go in segments of `SEGMENT`, each direction on its own. A segment waits for its turn at the
bandwidth, which all connections share. Then it takes half a round trip plus jitter, and never overtakes one before it.
A segment that is lost, with chance `loss`, comes a retransmission time-out later, together with everything behind it,
as TCP's receiver delivers it. In an outage nothing gets through. What was sent waits for the end of the outage, and for
the first of its retransmissions after that, whose time-outs double. The first bytes of a connection wait one round trip
more, for TCP's handshake.

It leaves out slow start and congestion (the whole bandwidth is there at once), reordering, which TCP would hide anyway,
and the fast retransmission of long transfers: a lost segment always stalls. The random numbers of a direction are a
function of the seed, the number of the connection and the direction. The times of the machine are not.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.support.listeners import stop_listening

PROFILES = Path(__file__).with_name("profiles.json")
SEGMENT = 1448
"""Bytes that TCP puts into an Ethernet packet."""
LEAST_TIMEOUT = 0.2
"""Linux's least retransmission time-out, in seconds."""
LONGEST_TIMEOUT = 120.0
TICK = 0.001
"""The event loop sleeps whole milliseconds, rounded up. In seconds."""
BACKLOG = 256 * 1024
"""Bytes on their way in one direction of a connection, beyond which the sender has to wait."""


class BadProfile(ValueError):
    """A profile file that cannot be used. The message says where and why."""


class LinkProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The properties of a line."""

    name: str
    rtt_ms: float
    """Round trip without jitter and queues."""
    jitter_ms: float = 0.0
    """Mean time that a segment takes beyond half a round trip; exponentially distributed."""
    up_mbps: float
    down_mbps: float
    loss: float = 0.0
    """Chance that a segment has to be sent again."""
    outages: tuple[tuple[float, float], ...] = ()
    """(start, length) in seconds since the emulator's start."""
    source: str = ""
    """Source of the numbers."""

    def __post_init__(self) -> None:
        if min(self.rtt_ms, self.jitter_ms) < 0 or min(self.up_mbps, self.down_mbps) <= 0 or not 0 <= self.loss < 1:
            raise ValueError(f"{self.name}: times are 0 or more, bandwidths above 0, and loss is in [0, 1)")
        ends = 0.0
        for start, length in self.outages:
            if start < ends or length <= 0:
                raise ValueError(f"{self.name}: outages follow one another and last longer than 0 seconds")
            ends = start + length


def read_profiles(path: Path = PROFILES) -> dict[str, LinkProfile]:
    """Read the profiles of a JSON file (a list of objects) by name. Raises `BadProfile`."""
    try:
        profiles = msgspec.json.decode(path.read_bytes(), type=list[LinkProfile])
    except OSError as error:
        raise BadProfile(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BadProfile(f"{path}: {error}") from None
    named = {profile.name: profile for profile in profiles}
    if len(named) != len(profiles):
        raise BadProfile(f"{path}: two profiles have one name")
    return named


@dataclass
class Course:
    """When the segments of one direction arrive. Pure arithmetic over times that the caller gives."""

    profile: LinkProfile
    bits_per_second: float
    rng: random.Random
    handshake: bool = True
    """The next segment is the first of its connection."""
    _last: float = 0.0

    def arrival(self, sent: float, size: int, share: Share) -> float:
        """When a segment arrives that was handed over at `sent`, in seconds since the start."""
        profile = self.profile
        gone = share.take(sent, 8 * size / self.bits_per_second)
        if self.handshake:
            self.handshake = False
            gone += profile.rtt_ms / 1000
        timeout = max(LEAST_TIMEOUT, 1.5 * profile.rtt_ms / 1000 + 4 * profile.jitter_ms / 1000)
        while self._lost(gone):
            gone += timeout
            timeout = min(2 * timeout, LONGEST_TIMEOUT)
        jitter = self.rng.expovariate(1000 / profile.jitter_ms) if profile.jitter_ms else 0.0
        self._last = max(self._last, gone + profile.rtt_ms / 2000 + jitter)
        return self._last

    def _lost(self, sent: float) -> bool:
        """True if a segment that is sent now does not get through."""
        out = any(start <= sent < start + length for start, length in self.profile.outages)
        return out or self.rng.random() < self.profile.loss


@dataclass
class Share:
    """The bandwidth of one direction, which all connections share."""

    free: float = 0.0
    """When the line is free again, in seconds since the start."""

    def take(self, sent: float, seconds: float) -> float:
        """Occupy the line for this many seconds as soon as it is free, and return when that is over."""
        self.free = max(self.free, sent) + seconds
        return self.free


class Emulator:
    """A proxy that listens on loopback. It is an asynchronous context manager."""

    def __init__(self, profile: LinkProfile, host: str, port: int, *, seed: int = 0) -> None:
        """Connects to `host`:`port`."""
        self.profile = profile
        self.bytes_up = self.bytes_down = self.connections = 0
        self._to, self._seed = (host, port), seed
        self._up, self._down = Share(), Share()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun = 0.0

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Emulator:
        self._begun = asyncio.get_running_loop().time()
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0, limit=SEGMENT)
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self._server is not None
        await stop_listening(self._server)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        number, self.connections = self.connections, self.connections + 1
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(writer):
            # If nobody listens there, the device sees its connection end.
            there_reader, there_writer = await asyncio.open_connection(*self._to, limit=SEGMENT)
            profile = self.profile
            up, down = (
                Course(profile, 1e6 * mbps, random.Random(f"{self._seed} {number} {name}"))
                for name, mbps in (("up", profile.up_mbps), ("down", profile.down_mbps))
            )
            down.handshake = False  # The verifier's first bytes answer the device's.
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._carry(reader, there_writer, up, self._up, "bytes_up"))
                    both.create_task(self._carry(there_reader, writer, down, self._down, "bytes_down"))
            except* OSError:
                pass  # One side broke the connection off, so the other side's ends too.
            finally:
                there_writer.close()
        self._tasks.discard(task)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, course: Course, share: Share, count: str
    ) -> None:
        """Carry one direction of a connection, until its sender has no more to say."""
        loop = asyncio.get_running_loop()
        way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(BACKLOG // SEGMENT)

        async def deliver() -> None:
            while True:
                arrival, data = await way.get()
                await asyncio.sleep(arrival - (loop.time() - self._begun) - TICK / 2)
                if not data:
                    writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()

        async with asyncio.TaskGroup() as group:
            group.create_task(deliver())
            while True:
                data = await reader.read(SEGMENT)
                setattr(self, count, getattr(self, count) + len(data))
                await way.put((course.arrival(loop.time() - self._begun, len(data), share), data))
                if not data:
                    return
