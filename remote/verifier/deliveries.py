"""Sends files to devices, resumable at any byte: the drafters for the target, and the target's tokenizer.

One drafter is for everybody. What was learnt for a token holder is for that holder alone: others get 404 even if they
know its digest.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from drafter.delivery import Delivery
from remote.protocol import DrafterOffer
from remote.verifier.holders import holder_of
from remote.verifier.learning.learning import Learning

PIECE = 1 << 18
"""Bytes that are read from the disk at once."""
MEDIA_TYPE = "application/octet-stream"
NOT_STORED = {"Cache-Control": "no-store"}


class Deliveries:
    """The files of drafters for everybody, and of what was learnt."""

    def __init__(self, learning: Learning | None = None) -> None:
        self._made: dict[str, tuple[Path, Delivery]] = {}
        self._learning = learning

    def add(self, folder: Path, delivery: Delivery) -> None:
        """Let everybody fetch the drafter in `folder`."""
        self._made[delivery.digest.hex()] = folder, delivery

    def routes(self) -> list[Route]:
        """The two addresses below `/v1/drafters`."""
        path = "/v1/drafters/{digest}"
        return [Route(path, self._config), Route(f"{path}/{{name}}", self._file)]

    def offer(self, holder: str, first: DrafterOffer) -> DrafterOffer:
        """The newest drafter for a holder. `first`: the offer of the one for everybody."""
        if self._learning is None or not (learnt := self._learning.offers(holder)):
            return first
        newest = learnt[-1].delivery
        return msgspec.structs.replace(first, digest=newest.digest, size=newest.bytes)

    def _asked(self, request: Request) -> tuple[Path, Delivery]:
        """The requested drafter. Raises `HTTPException`."""
        wanted = request.path_params["digest"]
        if wanted in self._made:
            return self._made[wanted]
        for one in [] if self._learning is None else self._learning.offers(holder_of(request)):
            if wanted == one.delivery.digest.hex():
                return one.folder, one.delivery
        raise HTTPException(404)

    async def _config(self, request: Request) -> Response:
        _, delivery = self._asked(request)
        return Response(delivery.config, media_type=MEDIA_TYPE)

    async def _file(self, request: Request) -> Response:
        folder, delivery = self._asked(request)
        name = request.path_params["name"]
        size = delivery.sizes.get(name)
        if size is None:
            raise HTTPException(404)
        begin = _begin(request, size)
        headers = {"Content-Length": str(size - begin), **NOT_STORED}
        pieces = self._bytes(folder / name, begin, size - begin)
        return StreamingResponse(pieces, headers=headers, media_type=MEDIA_TYPE)

    async def _bytes(self, path: Path, begin: int, left: int) -> AsyncIterator[bytes]:
        async with await anyio.open_file(path, "rb") as file:
            await file.seek(begin)
            while left and (piece := await file.read(min(PIECE, left))):
                left -= len(piece)
                yield piece


class TokenizerDelivery:
    """The tokenizer of the target, compressed, which takes 0.05 s for 150,000 tokens."""

    def __init__(self, digest: bytes, tokenizer: bytes) -> None:
        self._digest, self._packed = digest.hex(), zlib.compress(tokenizer, zlib.Z_BEST_SPEED)

    def routes(self) -> list[Route]:
        """The address below `/v1/tokenizers`."""
        return [Route("/v1/tokenizers/{digest}", self._file)]

    async def _file(self, request: Request) -> Response:
        if request.path_params["digest"] != self._digest:
            raise HTTPException(404)
        packed = self._packed[_begin(request, len(self._packed)) :]
        return Response(packed, headers=NOT_STORED, media_type=MEDIA_TYPE)


def _begin(request: Request, size: int) -> int:
    """The byte of a file of `size` bytes from which on a device asks for it. Raises `HTTPException`."""
    begin = request.query_params.get("from", "0")
    if not begin.isascii() or not begin.isdigit() or len(begin) > 15 or int(begin) > size:
        raise HTTPException(400)
    return int(begin)
