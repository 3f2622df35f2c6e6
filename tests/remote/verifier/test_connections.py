"""Connections that end: a client that does not ask or does not read is given up, and the oldest make room for new
ones."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from remote.protocol import Error, decode
from remote.verifier import connections
from remote.verifier.connections import Listener, Server
from remote.verifier.streaming import Cut, Streamed
from tests.remote.verifier.test_http import PATIENT

ASK = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HELD = b"GET /held HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


class Service:
    """Answers /, holds /held until it is let go, and reports on /endless and /cut what becomes of a stream."""

    def __init__(self) -> None:
        self.let_go, self.held, self.ended = threading.Event(), 0, threading.Event()
        self.app = Starlette(
            routes=[
                Route("/", lambda request: PlainTextResponse("ok")),
                Route("/held", self._hold),
                Route("/endless", self._endless),
                Route("/cut", self._cut),
            ]
        )

    async def _hold(self, request: Request) -> Response:
        self.held += 1
        while not self.let_go.is_set():
            await asyncio.sleep(0.01)
        return PlainTextResponse("let go")

    async def _endless(self, request: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            while True:
                await asyncio.sleep(0)
                yield b"x" * 10_000

        return Streamed(body(), self._close, headers={}, media_type="text/plain")

    async def _cut(self, request: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            yield b"half"
            raise Cut("memory is full")

        return Streamed(body(), self._close, headers={}, media_type="text/plain")

    async def _close(self) -> None:
        self.ended.set()


@contextlib.contextmanager
def serving(service: Service, most: int = 64, **seconds: float) -> Iterator[int]:
    """The port of a server with other deadlines."""
    settings = connections.config(service.app, most)
    for name, value in seconds.items():
        setattr(settings.http, name, value)
    server = Server(settings, lambda: None)
    with Listener(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield listener.getsockname()[1]
        finally:
            service.let_go.set()
            server.should_exit = True
            thread.join(PATIENT)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENT)


def read(client: socket.socket) -> bytes:
    """Everything that comes until the other side hangs up."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(1 << 16):
            found += chunk
    return found


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nab"],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_client_that_does_not_finish_is_given_up(begun: bytes) -> None:
    with serving(Service(), head_seconds=0.5, body_seconds=0.5) as port, connect(port) as client:
        client.sendall(begun)
        answer = read(client)
        assert not answer or answer.startswith(b"HTTP/1.1 405 ")


def test_half_a_head_after_a_whole_request_is_given_up_too() -> None:
    with serving(Service(), head_seconds=0.5) as port, connect(port) as client:
        client.sendall(ASK + b"GET / HT")
        assert read(client).count(b"200 OK") == 1


def test_an_answer_may_take_longer_than_any_request() -> None:
    service = Service()
    with serving(service, head_seconds=0.2, body_seconds=0.2, stall_seconds=0.2) as port, connect(port) as client:
        client.sendall(HELD)
        while not service.held:
            time.sleep(0.01)
        time.sleep(1.5)  # Two looks at it.
        service.let_go.set()
        assert read(client).endswith(b"let go")


def test_a_client_that_does_not_read_is_given_up_and_its_stream_is_closed() -> None:
    service = Service()
    with serving(service, stall_seconds=0.5) as port, connect(port) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(ASK.replace(b"/ ", b"/endless ", 1))
        assert service.ended.wait(PATIENT)


def test_a_slow_reader_that_goes_on_reading_is_served_on() -> None:
    service = Service()
    with serving(service, stall_seconds=1.5) as port, connect(port) as client:
        client.sendall(ASK.replace(b"/ ", b"/endless ", 1))
        for _ in range(30):
            assert client.recv(1 << 20)
            time.sleep(0.1)
        assert not service.ended.is_set()


def test_the_oldest_that_asks_for_nothing_makes_room() -> None:
    service = Service()
    with serving(service, most=3) as port, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(port)) for _ in range(3)]
        for client in clients:
            client.sendall(b"GET / HT")
            time.sleep(0.05)
        newcomer = stack.enter_context(connect(port))
        newcomer.sendall(ASK)
        assert newcomer.recv(1000).startswith(b"HTTP/1.1 200 OK")
        assert read(clients[0]) == b""
        clients[2].sendall(ASK[8:])
        assert clients[2].recv(1000).startswith(b"HTTP/1.1 200 OK")


def test_where_all_are_being_answered_a_newcomer_is_told_to_come_again() -> None:
    service = Service()
    with serving(service, most=3) as port, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(port)) for _ in range(3)]
        for client in clients:
            client.sendall(HELD)
        while service.held < 3:
            time.sleep(0.01)
        head, _, body = read(stack.enter_context(connect(port))).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1" in head
        error = decode(body, Error)
        assert (error.code, error.retry) == ("busy", True)
        service.let_go.set()
        assert all(read(client).endswith(b"let go") for client in clients)


def test_a_cut_answer_is_one_line_in_the_log_and_nobody_takes_it_for_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = Service()
    with serving(service) as port, connect(port) as client:
        client.sendall(ASK.replace(b"/ ", b"/cut ", 1))
        answer = read(client)
    assert b"half" in answer and not answer.endswith(b"0\r\n\r\n")
    assert service.ended.is_set()
    assert [record.getMessage() for record in caplog.records if record.levelname != "DEBUG"] == [
        "An answer was cut off: memory is full."
    ]
    assert not any(record.exc_info for record in caplog.records)


def test_a_listener_takes_no_more_than_it_may_hold() -> None:
    with Listener(socket.AF_INET, socket.SOCK_STREAM) as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        listener.most = 2
        clients = [stack.enter_context(connect(listener.getsockname()[1])) for _ in range(4)]
        accepted = [stack.enter_context(listener.accept()[0]) for _ in range(2)]
        with pytest.raises(BlockingIOError):
            listener.accept()
        assert read(clients[3]) == b""
        accepted.pop().close()
        stack.enter_context(connect(listener.getsockname()[1]))
        assert stack.enter_context(listener.accept()[0]).fileno() >= 0
