"""The connections to all servers that are needed now: by the open conversation, the running reply and the queue.

Each conversation is answered by the server that was chosen for it, or else by the default one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from app.remotes.choice import DEFAULT, Server
from app.remotes.connection import Connection
from app.remotes.source import Source
from storage import Choices


class Connections:
    """Makes a connection when a server is needed for the first time.

    `connect`: makes a connection to a source, or returns None if the drafter answers alone. `source`: the default
    server. `chosen`: finds the source of a server that was chosen, or None if choices for conversations do not count.
    """

    def __init__(
        self,
        connect: Callable[[Source | None], Connection | None],
        source: Source | None,
        chosen: Callable[[Server], Source | None] | None,
    ) -> None:
        self._connect, self._chosen = connect, chosen
        self._default = source
        self._open: dict[Server, Connection | None] = {DEFAULT: connect(source)}
        self._shown = DEFAULT
        """Who answers the open conversation."""

    @property
    def shown(self) -> Connection | None:
        """The connection to the server of the open conversation, or None for the drafter alone."""
        return self._open[self._shown]

    @property
    def shown_source(self) -> Source | None:
        """The source of the open conversation's server, even if nothing connects to it."""
        return self._source(self._shown)

    @property
    def open(self) -> list[Connection]:
        return [connection for connection in self._open.values() if connection is not None]

    def use(self, source: Source | None) -> Connection | None:
        """Make this the default server, and return the connection to the previous one."""
        self._default = source
        before, self._open[DEFAULT] = self._open[DEFAULT], self._connect(source)
        return before

    def show(self, choices: Choices) -> None:
        """Note that a conversation with these choices is now open."""
        self.to(choices)
        self._shown = self._server(choices)

    def to(self, choices: Choices) -> Connection | None:
        """The connection for a conversation with these choices, started, or None for the drafter alone."""
        server = self._server(choices)
        if server not in self._open:
            assert self._chosen is not None
            self._open[server] = self._connect(self._chosen(server))
        if (connection := self._open[server]) is not None:
            connection.start()
        return connection

    def present(self, choices: Choices) -> Connection | None:
        """The connection for these choices if it exists. Any thread may call it."""
        return self._open.get(self._server(choices))

    def source(self, choices: Choices) -> Source | None:
        """The source of the server for these choices, even if nothing connects to it."""
        return self._source(self._server(choices))

    def _source(self, server: Server) -> Source | None:
        return self._default if server == DEFAULT or self._chosen is None else self._chosen(server)

    def take_unneeded(self, needed: Collection[Connection | None]) -> list[Connection]:
        """Remove and return the connections except the default, the open conversation's and those `needed`."""
        servers = [
            server
            for server, connection in self._open.items()
            if server not in (DEFAULT, self._shown) and connection not in needed
        ]
        taken = [self._open.pop(server) for server in servers]
        return [connection for connection in taken if connection is not None]

    async def close(self) -> None:
        for connection in self.open:
            await connection.close()

    def _server(self, choices: Choices) -> Server:
        return DEFAULT if self._chosen is None else Server(choices.remote, choices.model)
