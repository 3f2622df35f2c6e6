"""A server's response: its status, its headers, and a body that is counted, decompressed and bounded as it arrives."""

from __future__ import annotations

import asyncio
import re
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import httpx

from remote.errors import Incompatible, LinkDown, quoted
from remote.handshake import ahead_seconds
from remote.tasks import end
from remote.transport import TransportOptions
from remote.transport_errors import translate_errors

MAX_BODY_BYTES = 1 << 20
"""Longest answer that is read as a whole. A card with its chat template has a few KiB."""
STEPS_TO_READ = 10
"""Steps of the event loop after which data that waited in a socket has passed through all layers."""
SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?")
PACKINGS = ("gzip", "x-gzip", "deflate")
"""Values of `content-encoding` that can be decompressed."""
MAX_PIECE = 1 << 16
"""Most bytes that are decompressed at once: a few compressed ones may hold gigabytes."""
ANY_HEADER, NO_HEADER = zlib.MAX_WBITS | 32, -zlib.MAX_WBITS
MAGIC = b"\x1f\x8b"
"""The first bytes of a gzip member."""


@dataclass
class Traffic:
    """Bytes of the HTTP/1.1 requests and responses of one reply so far, headers included, without chunk marks, TLS and
    TCP."""

    up: int = 0
    down: int = 0
    streamed: int = 0
    """Bytes of the last response's body, without those that arrived first."""
    streaming_seconds: float = 0.0
    """Seconds from the arrival of the first bytes to that of the last."""


class Response:
    """A server's response whose body is still arriving. Read it to the end or close it.

    `sent`: when the first byte of its request was written, on the clock of `time.perf_counter`.
    """

    def __init__(
        self,
        response: httpx.Response,
        host: str,
        sent: float,
        traffic: Traffic,
        options: TransportOptions,
        within: Callable[[float], AbstractAsyncContextManager[None]],
    ) -> None:
        self._within = within
        self._response = response
        self._host = host
        self._options = options
        self.traffic = traffic
        self.status = response.status_code
        self.silence: float | None = None
        """Seconds without a byte of the body after which the line counts as lost, or None for that of the request."""
        self.sent = sent
        self.arrived = time.perf_counter()
        """When the head had arrived."""

    @property
    def content_type(self) -> str:
        value: str = self._response.headers.get("content-type", "")
        return value.partition(";")[0].strip().lower()

    @property
    def _packing(self) -> str:
        value: str = self._response.headers.get("content-encoding", "")
        return value.strip().lower()

    @property
    def encoding(self) -> str:
        """How the body is compressed if that is not supported here; else empty."""
        return "" if self._packing in ("identity", *PACKINGS) else quoted(self._packing)

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the server wants to be asked again, which it may give as a date, or None."""
        headers = self._response.headers
        for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            value: str = headers.get(name, "").strip()
            if SECONDS.fullmatch(value):
                return float(value) * unit
        if value and (at := ahead_seconds(value, 0.0)) is not None:
            now = ahead_seconds(headers.get("date"), 0.0)
            return max(0.0, at - (time.time() if now is None else now))
        return None

    @property
    def location(self) -> str:
        return quoted(self._response.headers.get("location", ""))

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, decompressed. Raises `LinkDown`, and `Incompatible` if it cannot be decompressed."""
        chunks = self._raw_chunks()
        return self._unpacked(chunks) if self._packing in PACKINGS else chunks

    async def _unpacked(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        unpacker = Unpacker()
        try:
            async for chunk in chunks:
                for piece in unpacker.feed(chunk):
                    yield piece
        except zlib.error as error:
            told = f"{self._host} compresses its answers ({self._packing}) in a way that cannot be read ({error})"
            raise Incompatible(f"{quoted(told)}; turn that off there") from None

    async def _raw_chunks(self) -> AsyncIterator[bytes]:
        traffic, first = self.traffic, 0.0
        with translate_errors(self._host, self._options):
            raw = self._response.aiter_raw()
            while (chunk := await self._next(raw)) is not None:
                traffic.down += len(chunk)
                if not first:
                    first, traffic.streamed = time.perf_counter(), 0
                else:
                    traffic.streamed += len(chunk)
                    traffic.streaming_seconds = time.perf_counter() - first
                yield chunk

    async def _next(self, raw: AsyncIterator[bytes]) -> bytes | None:
        if self.silence is None:
            return await anext(raw, None)
        coming = asyncio.ensure_future(anext(raw, None))
        try:
            async with self._within(self.silence):
                return await asyncio.shield(coming)
        except LinkDown:
            # If this process was suspended, what arrived meanwhile has not been read yet.
            for _ in range(STEPS_TO_READ):
                await asyncio.sleep(0)
            if not coming.done():
                raise
            return coming.result()
        finally:
            if not coming.done():
                await end(coming)

    async def read(self, most: int = MAX_BODY_BYTES) -> bytes:
        """The whole body. Raises `LinkDown`, and `Incompatible` if it is longer than `most` bytes."""
        body = bytearray()
        try:
            async for chunk in self.chunks():
                body += chunk
                if len(body) > most:
                    raise Incompatible(f"{self._host} answered with more than {most} bytes; check the address")
        finally:
            await self.aclose()
        return bytes(body)

    async def aclose(self) -> None:
        await self._response.aclose()


# ---- compression ---------------------------------------------------------------------------------------------------


class Unpacker:
    """Decompresses one body, however its bytes are split."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(ANY_HEADER)
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The decompressed `chunk`, in pieces of at most `MAX_PIECE` bytes. Raises `zlib.error`."""
        full = False
        while chunk or full:
            if self._stream.eof:
                if not MAGIC.startswith(chunk[:2]):
                    return  # Padding.
                self._stream = zlib.decompressobj(ANY_HEADER)
            piece = self._unpacked(chunk)
            full = len(piece) == MAX_PIECE
            if piece:
                yield piece
            chunk = self._stream.unconsumed_tail or self._stream.unused_data

    def _unpacked(self, chunk: bytes) -> bytes:
        begun, self._begun = self._begun, True
        try:
            return self._stream.decompress(chunk, MAX_PIECE)
        except zlib.error:
            if begun:
                raise
            self._stream = zlib.decompressobj(NO_HEADER)  # What some servers mean by `deflate`.
            return self._stream.decompress(chunk, MAX_PIECE)
