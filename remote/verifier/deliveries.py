"""Sends the drafter for its target to devices: its config, and each file from any byte on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from drafter.delivery import Delivery

PIECE = 1 << 18
"""Bytes that are read from the disk at once."""
MEDIA_TYPE = "application/octet-stream"


class Deliveries:
    """The files of one drafter's folder."""

    def __init__(self, folder: Path, delivery: Delivery) -> None:
        self._folder, self._delivery = folder, delivery

    def routes(self) -> list[Route]:
        """The two addresses below `/v1/drafters`."""
        path = f"/v1/drafters/{self._delivery.digest.hex()}"
        return [Route(path, self._config), Route(f"{path}/{{name}}", self._file)]

    async def _config(self, request: Request) -> Response:
        return Response(self._delivery.config, media_type=MEDIA_TYPE)

    async def _file(self, request: Request) -> Response:
        name, begin = request.path_params["name"], request.query_params.get("from", "0")
        size = self._delivery.sizes.get(name)
        if size is None:
            raise HTTPException(404)
        if not begin.isascii() or not begin.isdigit() or len(begin) > 15 or int(begin) > size:
            raise HTTPException(400)
        left = size - int(begin)
        headers = {"Content-Length": str(left), "Cache-Control": "no-store"}
        return StreamingResponse(self._bytes(name, int(begin), left), headers=headers, media_type=MEDIA_TYPE)

    async def _bytes(self, name: str, begin: int, left: int) -> AsyncIterator[bytes]:
        async with await anyio.open_file(self._folder / name, "rb") as file:
            await file.seek(begin)
            while left and (piece := await file.read(min(PIECE, left))):
                left -= len(piece)
                yield piece
