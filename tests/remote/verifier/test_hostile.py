"""Hostile clients: whatever they do, a healthy one is answered, memory is bounded, and the log has no traceback."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from drafter.runtime import Drafter
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from remote import LinkDown, Refused, VerifierClient
from remote.protocol import Error, Progress, Sampling, decode, encode, unpack_tokens
from tests.remote.verifier.test_hosted import ask
from tests.remote.verifier.test_http import PATIENT, message
from tests.remote.verifier.tiny import generated
from tests.support.serving import VerifierProcess

pytestmark = pytest.mark.faults

GROWTH = 256 << 20
"""Bytes by which the process may grow under attack: the cache, all bodies that may be open, and what Python keeps."""
COUNT = 24
MOST_SESSIONS, MOST_CONNECTIONS, CACHE_MB = 12, 48, 24
LAUNCH = """
import runpy
from remote.verifier import connections
connections.ClientConnection.head_seconds = 1.0
connections.ClientConnection.body_seconds = 1.0
connections.ClientConnection.stall_seconds = 2.0
runpy.run_module("app.cli", run_name="__main__")
"""


class LoggedVerifier(VerifierProcess):
    """A verifier in a process of its own, with short deadlines and a log to look at, in the file `said`."""

    def __init__(self, pair: Path, said: Path) -> None:
        limits = ["--max-sessions", MOST_SESSIONS, "--cache-mb", CACHE_MB, "--max-connections", MOST_CONNECTIONS]
        super().__init__(pair, said=said, options=[str(limit) for limit in limits])
        self.said = said

    def command(self) -> list[str]:
        python, _, _, *arguments = super().command()
        return [python, "-c", LAUNCH, *arguments]

    def log(self) -> str:
        return self.said.read_text(encoding="utf-8", errors="replace")

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.id}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) << 10

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.id}/fd").iterdir()))


@pytest.fixture(scope="module")
def verifier(tiny_pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoggedVerifier]:
    with LoggedVerifier(tiny_pair, tmp_path_factory.mktemp("hostile") / "log") as process:
        yield process


@pytest.fixture(scope="module")
def prompt(tiny_pair: Path) -> list[int]:
    return Drafter.load(tiny_pair / "drafter").text.render([("user", "unpack a tar archive")])


@pytest.fixture(scope="module")
def text(tiny_pair: Path, prompt: list[int]) -> list[int]:
    """What the target says by itself."""
    return generated(TorchEngine(load_target(str(tiny_pair / "target")).model).model, prompt, COUNT)


async def gauges(verifier: LoggedVerifier) -> dict[str, float]:
    async with httpx.AsyncClient(timeout=PATIENT, trust_env=False, verify=False) as client:
        while True:
            with contextlib.suppress(httpx.TransportError):
                reply = await client.get(f"{verifier.url}/metrics")
                if reply.status_code != 503:  # All its connections are taken.
                    break
            await asyncio.sleep(0.05)
    page = reply.raise_for_status().text
    lines = (line.split() for line in page.splitlines() if not line.startswith("#"))
    return {name.removeprefix("outrider_"): float(value) for name, value in lines}


async def settled(verifier: LoggedVerifier, files: int) -> None:
    """Wait until everything that the hostile clients held is given back."""
    while verifier.open_files() > files + 4 or (await gauges(verifier))["running_sessions"]:
        await asyncio.sleep(0.05)


async def answered(url: str, prompt: list[int]) -> list[int]:
    """The tokens of a stream. It is asked for again if the verifier is busy, or had to forget the session."""
    tokens: list[int] = []
    async with VerifierClient(url) as client:
        while len(tokens) < COUNT:
            try:
                stream = await client.session().stream(
                    prompt + tokens, Sampling(), most=COUNT - len(tokens), memory_from=None, deadline=PATIENT,
                    silence=PATIENT,
                )  # fmt: skip
                async for frame in stream:
                    tokens += unpack_tokens(frame.tokens) if isinstance(frame, Progress) else []
            except (Refused, LinkDown) as error:  # Its connection may have made room for others.
                if isinstance(error, Refused) and not error.retry:
                    raise
                await asyncio.sleep(0.05)
    return tokens


def post(path: str, body: bytes, length: int | None = None, **headers: str) -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body) if length is None else length}"]
    head += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(head) + "\r\n\r\n").encode("latin-1") + body


def opening(name: str, tokens: list[int], **fields: object) -> bytes:
    return message(1, [], tokens, session=name, **fields)


def streaming(name: str, tokens: list[int], **fields: object) -> bytes:
    return encode(ask([], tokens, **{"session": name, "most": 400, "memory_from": 0} | fields))


ROUND = opening("fuzz", [5, 9, 2, 30])
BOMBS = [
    b"\x91" * 200_000,  # Arrays in arrays.
    b"\x81\xa1a" * 60_000,
    b"\xdd\xff\xff\xff\xff",  # An array of four billion elements.
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",  # Bytes of four gigabytes.
    b"\x81\xa7session\xa2\xff\xfe",  # No UTF-8.
    b"\xc9\xff\xff\xff\xff\x01",
    b"",
    b"\xc1" * 100,
    ROUND[:-1],
    ROUND + b"\x00",
    msgspec.msgpack.encode({"session": "a" * 65, "round": -1}),
]
JSON_BOMBS = [
    b"[" * 100_000,
    b'{"messages":' * 20_000,
    b"\xff\xfe{}",
    b'{"messages":[{"role":"user","content":"\xc3"}]}',
]
HEADS = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)),  # TLS to a port that speaks none.
    b"\x00" * 500,
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /%ff%fe%00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /v1/card HTTP/1.1\r\n\r\n",
    b"GET /v1/card HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
    b"GET /v1/card HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET /v1/card HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    b"GET /v1/card HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"DELETE /v1/sessions/" + b"%00" * 500 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /v1/models/" + b"../" * 300 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"POST /v1/rounds HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/rounds HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999999999999\r\n\r\n",
    b"POST /v1/rounds HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    b"POST /v1/rounds HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
    b"POST /v1/rounds HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\nabc\r\n",
    b"POST /v1/rounds HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 200,  # Pipelined.
    post("/v1/rounds", ROUND) + b"\x00garbage after a request",
    b"HEAD /v1/card HTTP/1.0\r\n\r\n",
]


@asynccontextmanager
async def connections(port: int, count: int) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """Open as many of `count` connections as the verifier takes, and close them at the end."""
    made = await asyncio.gather(
        *(asyncio.open_connection("127.0.0.1", port) for _ in range(count)), return_exceptions=True
    )
    opened = [one for one in made if not isinstance(one, BaseException)]
    try:
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def sent(port: int, data: bytes) -> bytes:
    """The response to these bytes, until the verifier closes the connection or has answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        await writer.drain()
        return await asyncio.wait_for(reader.read(1 << 16), PATIENT)
    except OSError:
        return b""
    finally:
        writer.transport.abort()


def mutated(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(4)
        if kind == 0 and changed:
            changed[at % len(changed)] = rng.randrange(256)
        elif kind == 1:
            changed[at:at] = rng.randbytes(rng.choice([1, 4, 64]))
        elif kind == 2:
            del changed[at : at + rng.choice([1, 3, 40])]
        else:
            changed[at:at] = rng.choice(
                [b"\xff" * 4, b"\r\n\r\n", b"\xdd" + b"\xff" * 4, b"\0", b"\xcb\x7f\xf8" + bytes(6)]
            )
    return bytes(changed)


# ---- attacks: each holds on for as long as its block lasts -----------------------------------------------------------


@asynccontextmanager
async def half_open_heads(port: int) -> AsyncIterator[None]:
    async with connections(port, 4 * MOST_CONNECTIONS) as opened:
        for _, writer in opened:
            writer.write(b"POST /v1/rou")
        yield


@asynccontextmanager
async def slow_bodies(port: int) -> AsyncIterator[None]:
    async with connections(port, MOST_CONNECTIONS - 8) as opened:
        for _, writer in opened:
            writer.write(post("/v1/rounds", b"", length=50_000))

        async def drip() -> None:
            while True:
                for _, writer in opened:
                    writer.write(b"x")
                await asyncio.sleep(0.05)

        task = asyncio.create_task(drip())
        yield
        task.cancel()


@asynccontextmanager
async def streams_that_are_never_read(port: int) -> AsyncIterator[None]:
    async with connections(port, 2 * MOST_SESSIONS) as opened:
        for index, (reader, writer) in enumerate(opened):
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(post("/v1/streams", streaming(f"unread{index}", [5, 9, 2] * 40, draft=False)))
        yield


@asynccontextmanager
async def answers_that_are_never_read(port: int) -> AsyncIterator[None]:
    """Ask for the card again and again, without reading, until all buffers on the way are full."""
    async with connections(port, 8) as opened:
        for reader, writer in opened:
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            writer.write(b"GET /v1/card HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000)
        yield


@asynccontextmanager
async def hang_ups(port: int) -> AsyncIterator[None]:
    async def flood() -> None:
        rng = random.Random(5)
        while True:
            async with connections(port, 6) as opened:
                for index, (_, writer) in enumerate(opened):
                    body = streaming(f"gone{rng.randrange(10**9)}", [5, 9, 2] * 30)
                    path = "/v1/streams" if index % 2 else "/v1/chat/completions"
                    writer.write(post(path, body if index % 2 else b'{"messages":[{"role":"user","content":"ls"}]}'))
                await asyncio.sleep(rng.random() / 10)

    task = asyncio.create_task(flood())
    yield
    task.cancel()


@asynccontextmanager
async def hundreds_of_sessions(port: int) -> AsyncIterator[None]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENT, trust_env=False) as client:

        async def open_one(index: int) -> None:
            reply = await client.post("/v1/rounds", content=opening(f"many{index}", [5, 9, 2, index % 90]))
            assert reply.status_code in (200, 503)
            if reply.status_code == 503:
                assert decode(reply.content, Error).retry and reply.headers["retry-after"]

        async def flood() -> None:
            for start in range(0, 160, 20):
                await asyncio.gather(*(open_one(index) for index in range(start, start + 20)))

        task = asyncio.create_task(flood())
        await asyncio.sleep(0)
        yield
        await task


Attack = Callable[[int], AbstractAsyncContextManager[None]]
ATTACKS: list[Attack] = [
    half_open_heads, slow_bodies, streams_that_are_never_read, answers_that_are_never_read, hang_ups,
    hundreds_of_sessions,
]  # fmt: skip


async def unharmed(verifier: LoggedVerifier, prompt: list[int], text: list[int]) -> None:
    assert await answered(verifier.url, prompt) == text
    assert verifier.alive() and "Traceback" not in verifier.log(), verifier.log()[-4000:]


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_healthy_client_is_answered_all_the_while(
    verifier: LoggedVerifier, prompt: list[int], text: list[int], attack: Attack
) -> None:
    assert await answered(verifier.url, prompt) == text
    files, resident = verifier.open_files(), verifier.resident_bytes()
    async with attack(verifier.port):
        for _ in range(3):
            assert await answered(verifier.url, prompt) == text
            seen = await gauges(verifier)
            assert seen["sessions"] <= MOST_SESSIONS and seen["cached_bytes"] <= CACHE_MB << 20
            assert verifier.open_files() < files + MOST_CONNECTIONS + 300
            assert verifier.resident_bytes() < resident + GROWTH
    await settled(verifier, files)
    await unharmed(verifier, prompt, text)


async def test_nonsense_gets_an_answer_or_a_closed_door(
    verifier: LoggedVerifier, prompt: list[int], text: list[int]
) -> None:
    paths = {"/v1/rounds": BOMBS, "/v1/streams": BOMBS, "/v1/chat/completions": JSON_BOMBS}
    for path, bomb in ((path, bomb) for path, bombs in paths.items() for bomb in bombs):
        answer = await sent(verifier.port, post(path, bomb))
        assert b" 400 " in answer[:30] or b" 413 " in answer[:30], (path, bomb[:20], answer[:200])
    for head in HEADS:
        await sent(verifier.port, head)
    await unharmed(verifier, prompt, text)


async def test_changed_bytes_break_nothing(verifier: LoggedVerifier, prompt: list[int], text: list[int]) -> None:
    rng = random.Random(18)
    chat = b'{"messages":[{"role":"user","content":"ls"}],"max_tokens":2,"temperature":1e-40}'
    warm = opening("warm", [5, 9], sampling=Sampling(temperature=1e-40, top_p=1e-30, seed=-1))
    seeds = [post("/v1/rounds", ROUND), post("/v1/rounds", warm), post("/v1/chat/completions", chat)]
    seeds.append(post("/v1/streams", streaming("fuzz", [5, 9], most=3)))
    for _ in range(2):  # As many at the same time as there may be connections.
        data = [mutated(rng, rng.choice(seeds)) for _ in range(MOST_CONNECTIONS - 8)]
        data.append(post("/v1/rounds", mutated(rng, ROUND)))
        data.append(post("/v1/streams", mutated(rng, streaming("f", [5], most=2))))
        await asyncio.gather(*(sent(verifier.port, one) for one in data))
    await unharmed(verifier, prompt, text)
