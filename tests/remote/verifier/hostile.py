"""A verifier in a process of its own, with short deadlines and a log to look at, and what hostile clients send it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from remote import LinkDown, Refused, VerifierClient
from remote.protocol import Progress, Sampling, encode, unpack_tokens
from tests.remote.verifier.test_hosted import ask
from tests.remote.verifier.test_http import PATIENT, message
from tests.support.serving import VerifierProcess

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
    """Such a process. `said`: the file that takes its log."""

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


async def answered(url: str, prompt: list[int], count: int) -> list[int]:
    """The tokens of a stream. It is asked for again if the verifier is busy, or had to forget the session."""
    tokens: list[int] = []
    async with VerifierClient(url) as client:
        while len(tokens) < count:
            try:
                stream = await client.session().stream(
                    prompt + tokens, Sampling(), most=count - len(tokens), memory_from=None, deadline=PATIENT,
                    silence=PATIENT,
                )  # fmt: skip
                async for frame in stream:
                    tokens += unpack_tokens(frame.tokens) if isinstance(frame, Progress) else []
            except (Refused, LinkDown) as error:  # Its connection may have made room for others.
                if isinstance(error, Refused) and not error.retry:
                    raise
                await asyncio.sleep(0.05)
    return tokens


# ---- what is sent ----------------------------------------------------------------------------------------------------


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


async def sent(port: int, data: bytes, *, read: bool = True) -> bytes:
    """The response to these bytes, until the verifier closes the connection or has answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        await writer.drain()
        return await asyncio.wait_for(reader.read(1 << 16), PATIENT) if read else b""
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
