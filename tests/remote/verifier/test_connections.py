"""Connections that end: who does not ask or does not read is given up, and the oldest make room for new ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
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
from remote.verifier.connections import MAX_HEAD_BYTES, Listener, Server, network_of
from remote.verifier.stream_response import Cut, Streamed
from tests.remote.verifier.test_http import PATIENT

ASK = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HELD = b"GET /held HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


class Service:
    """Answers /, holds /held until it is let go, and reports on /endless and /cut what becomes of a stream."""

    def __init__(self) -> None:
        self.let_go, self.held, self.ended = threading.Event(), 0, threading.Event()
        self.refused: list[str] = []
        held, endless, cut = Route("/held", self._hold), Route("/endless", self._endless), Route("/cut", self._cut)
        self.app = Starlette(routes=[Route("/", lambda request: PlainTextResponse("ok")), held, endless, cut])

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
def serving(
    service: Service, most: int = 64, keep_alive: int = 90, devices: bool = True, **seconds: float
) -> Iterator[int]:
    """The port of a server with other deadlines."""
    settings = connections.config(
        service.app, most, refused=service.refused.append, devices=devices, timeout_keep_alive=keep_alive
    )
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


def connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENT, source_address=(source, 0))


def holding(service: Service, port: int, count: int, stack: contextlib.ExitStack) -> list[socket.socket]:
    """So many clients whose answers are held."""
    clients = [stack.enter_context(connect(port)) for _ in range(count)]
    for client in clients:
        client.sendall(HELD)
    while service.held < count:
        time.sleep(0.01)
    return clients


def read(client: socket.socket) -> bytes:
    """Everything that comes until the other side hangs up."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(1 << 16):
            found += chunk
    return found


UNFINISHED = (b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nab")
DRIPPING = (b"GET / HTTP/1.1\r\nHost: ", b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n")
"""These go on byte after byte, and none of them buys the time of a request."""


def test_clients_that_do_not_finish_are_given_up_and_an_answer_may_take_longer() -> None:
    service = Service()
    with (
        serving(service, head_seconds=0.5, body_seconds=0.5, stall_seconds=0.5) as port,
        contextlib.ExitStack() as stack,
    ):
        (answered,) = holding(service, port, 1, stack)
        clients = [stack.enter_context(connect(port)) for _ in (*UNFINISHED, *DRIPPING)]
        for client, begun in zip(clients, (*UNFINISHED, *DRIPPING)):
            client.sendall(begun)
        until = time.monotonic() + PATIENT
        while len(service.refused) < len(clients) and time.monotonic() < until:
            for client in clients[len(UNFINISHED) :]:
                with contextlib.suppress(ConnectionError):
                    client.sendall(b"a")
            time.sleep(0.02)
        for client in clients:
            assert not (answer := read(client)) or answer.startswith(b"HTTP/1.1 405 ")
        assert service.refused == ["slow"] * len(clients)
        service.let_go.set()
        assert read(answered).endswith(b"let go")


def test_who_reads_nothing_is_given_up_and_who_reads_slowly_is_served_on() -> None:
    service = Service()
    with serving(service, stall_seconds=1.5) as port, connect(port) as silent, connect(port) as slow:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for client in (silent, slow):
            client.sendall(ASK.replace(b"/ ", b"/endless ", 1))
        while not service.ended.wait(0.1):
            assert slow.recv(1 << 20)
        service.ended.clear()
        for _ in range(10):
            assert slow.recv(1 << 20)
            time.sleep(0.1)
        assert not service.ended.is_set() and service.refused == ["slow"]


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


@pytest.mark.parametrize(
    ("limit", "count", "status", "why"), [("most", 3, 503, "full"), ("most_per_address", 2, 429, "address")]
)
def test_where_all_are_being_answered_a_newcomer_is_told_to_come_again(
    monkeypatch: pytest.MonkeyPatch, limit: str, count: int, status: int, why: str
) -> None:
    """Where one address has as many as it may, another one is served on."""
    service = Service()
    # Tests have no other addresses than those of loopback, which are not counted otherwise.
    monkeypatch.setattr(connections, "network_of", lambda address: address)
    with serving(service, **{limit: count}) as port, contextlib.ExitStack() as stack:
        clients = holding(service, port, count, stack)
        head, _, body = read(stack.enter_context(connect(port))).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status) and b"Retry-After: 1" in head
        assert service.refused == [why]
        error = decode(body, Error)
        assert (error.code, error.retry) == ("busy", True)
        if limit == "most_per_address":
            other = stack.enter_context(connect(port, "127.0.0.2"))
            other.sendall(ASK)
            assert other.recv(1000).startswith(b"HTTP/1.1 200 OK")
        service.let_go.set()
        assert all(read(client).endswith(b"let go") for client in clients)


def test_a_cut_answer_is_one_line_in_the_log_and_nobody_takes_it_for_whole(caplog: pytest.LogCaptureFixture) -> None:
    service = Service()
    with serving(service) as port, connect(port) as client:
        client.sendall(ASK.replace(b"/ ", b"/cut ", 1))
        answer = read(client)
    assert b"half" in answer and not answer.endswith(b"0\r\n\r\n")
    assert service.ended.is_set()
    told = [record.getMessage() for record in caplog.records if record.levelname != "DEBUG"]
    assert told == ["An answer was cut off: memory is full."]
    assert not any(record.exc_info for record in caplog.records)


def test_a_connection_without_requests_is_closed_after_a_while() -> None:
    with serving(Service(), keep_alive=1) as port, connect(port) as client:
        client.sendall(ASK)
        assert read(client).count(b"200 OK") == 1


@pytest.mark.parametrize(
    ("devices", "path", "openai"),
    [(True, b"/v1/chat/completions?x=/v1/card", True), (True, b"/v1/sessions/a", False), (False, b"/v1/rounds", True)],
)
def test_a_long_head_is_told_in_the_shape_of_its_path(path: bytes, devices: bool, openai: bool) -> None:
    service = Service()
    with serving(service, devices=devices) as port:
        for end in (b"\r\n\r\n", b""):
            with connect(port) as client:
                client.sendall(ASK)  # The path of an earlier request does not count.
                answer = b""
                while not answer.endswith(b"ok"):
                    answer += client.recv(1000)
                long = b" HTTP/1.1\r\nHost: 127.0.0.1\r\nx-long: " + b"a" * MAX_HEAD_BYTES
                client.sendall(b"POST " + path + long + end)
                head, _, body = read(client).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 431 ") and b"Connection: close" in head, end
            assert (b"Content-Type: application/json" in head) == openai
            assert (json.loads(body)["error"]["code"] if openai else decode(body, Error).code) == "too_large"
    assert service.refused == ["head"] * 2


@pytest.mark.parametrize(("most", "most_per_address"), [(2, 9), (9, 2)])
def test_a_listener_takes_no_more_than_it_may_hold(
    monkeypatch: pytest.MonkeyPatch, most: int, most_per_address: int
) -> None:
    monkeypatch.setattr(connections, "network_of", lambda address: address)
    with Listener(socket.AF_INET, socket.SOCK_STREAM) as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        listener.most, listener.most_per_address = most, most_per_address
        port = listener.getsockname()[1]
        clients = [stack.enter_context(connect(port)) for _ in range(4)]
        accepted = [stack.enter_context(listener.accept()[0]) for _ in range(2)]
        with pytest.raises(BlockingIOError):
            listener.accept()
        assert read(clients[3]) == b""
        other = stack.enter_context(connect(port, "127.0.0.2"))
        if most == 2:
            with pytest.raises(BlockingIOError):
                listener.accept()
            assert read(other) == b""
            accepted.pop().close()
            stack.enter_context(connect(port))
        assert stack.enter_context(listener.accept()[0]).fileno() >= 0


def test_addresses_of_one_network_are_counted_together_and_loopback_is_not() -> None:
    for one, other, same in (
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ):
        assert network_of(one) is not None and (network_of(one) == network_of(other)) == same, (one, other)
    for near in ("127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1", "", None):
        assert network_of(near) is None
