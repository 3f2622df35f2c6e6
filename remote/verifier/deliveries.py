"""Sends the drafters for the target to devices: the config, and each file from any byte on.

One drafter is for everybody. What was learnt for a token holder is for that holder alone: others get 404 even if they
know its digest.
"""

from __future__ import annotations

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


class Deliveries:
    """The files of the drafter in `folder`, and of what was learnt."""

    def __init__(self, folder: Path, delivery: Delivery, learning: Learning | None = None) -> None:
        self._folder, self._delivery, self._learning = folder, delivery, learning

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
        if wanted == self._delivery.digest.hex():
            return self._folder, self._delivery
        for one in [] if self._learning is None else self._learning.offers(holder_of(request)):
            if wanted == one.delivery.digest.hex():
                return one.folder, one.delivery
        raise HTTPException(404)

    async def _config(self, request: Request) -> Response:
        _, delivery = self._asked(request)
        return Response(delivery.config, media_type=MEDIA_TYPE)

    async def _file(self, request: Request) -> Response:
        folder, delivery = self._asked(request)
        name, begin = request.path_params["name"], request.query_params.get("from", "0")
        size = delivery.sizes.get(name)
        if size is None:
            raise HTTPException(404)
        if not begin.isascii() or not begin.isdigit() or len(begin) > 15 or int(begin) > size:
            raise HTTPException(400)
        left = size - int(begin)
        headers = {"Content-Length": str(left), "Cache-Control": "no-store"}
        return StreamingResponse(self._bytes(folder / name, int(begin), left), headers=headers, media_type=MEDIA_TYPE)

    async def _bytes(self, path: Path, begin: int, left: int) -> AsyncIterator[bytes]:
        async with await anyio.open_file(path, "rb") as file:
            await file.seek(begin)
            while left and (piece := await file.read(min(PIECE, left))):
                left -= len(piece)
                yield piece
