"""How the servers of tests stop listening."""

from __future__ import annotations

import asyncio


async def stop_listening(server: asyncio.Server) -> None:
    """Close `server`, after the connections that it has just accepted have reached their handler.

    asyncio builds the transport of a connection one turn of the loop after it has accepted it. If the server was
    closed meanwhile, that fails, and the socket is left open.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(4):
        await asyncio.sleep(0)
    server.close()
