"""A real MCP server, made with the SDK: `python -m tests.support.mcp_server FOLDER [--http PORT]`.

Each of its tools first appends its name to `calls` in the folder. Over HTTP it prints its port (0: any), and takes only
the token in the variable MCP_TOKEN.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import Image, MCPServer
from mcp_types import ToolAnnotations
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
server = MCPServer("tests")


def _count(name: str) -> None:
    with (FOLDER / "calls").open("a") as file:
        file.write(f"{name}\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True))
def write_file(name: str, text: str) -> str:
    """Write a file."""
    _count("write_file")
    (FOLDER / name).write_text(text)
    return f"wrote {len(text)} characters"


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
def environment() -> str:
    """The names of its environment variables."""
    _count("environment")
    return " ".join(sorted(os.environ))


@server.tool()
async def meet(name: str) -> str:
    """Ends when somebody else calls it too."""
    (FOLDER / f"met-{name}").touch()
    _count("meet")
    while len(list(FOLDER.glob("met-*"))) < 2:
        await asyncio.sleep(0.01)
    return f"{name} met somebody"


@server.tool()
async def slow() -> str:
    """Never ends."""
    _count("slow")
    await asyncio.Event().wait()
    return "never"


@server.tool()
def die() -> str:
    """Ends the server in mid-call."""
    _count("die")
    print("the roof is on fire", file=sys.stderr, flush=True)
    os._exit(7)


@server.tool()
def huge() -> str:
    """A result that is too long."""
    _count("huge")
    return "x" * 1_000_000


@server.tool()
def picture() -> list[str | Image]:
    """A text and an image."""
    _count("picture")
    return ["a picture", Image(data=bytes(300), format="png")]


@server.tool()
def wrong() -> str:
    """Always fails."""
    _count("wrong")
    raise ValueError("the disk is full")


def _guarded() -> Starlette:
    """The server over HTTP, behind a token."""
    app = server.streamable_http_app()

    async def guard(request: Request, call_next: RequestResponseEndpoint) -> Response:
        if request.headers.get("authorization") != f"Bearer {os.environ['MCP_TOKEN']}":
            return PlainTextResponse("no", 401)
        return await call_next(request)

    app.add_middleware(BaseHTTPMiddleware, dispatch=guard)
    return app


if __name__ == "__main__":
    if "--http" not in sys.argv:
        server.run()
    else:
        import socket

        import uvicorn

        listener = socket.create_server(("127.0.0.1", int(sys.argv[-1])))
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(_guarded(), log_level="error")).run(sockets=[listener])
