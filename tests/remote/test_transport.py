"""TLS with authorities and client certificates of a test's own, real proxies, and servers that say nothing."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import re
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trustme

from remote import CompletionsClient, LinkDown, Misconfigured, RemoteError, TransportOptions, VerifierClient, handshake
from remote.transport import system_trust
from tests.remote.toy_verifier import CARD, ToyVerifier, http, listening, raw_peer, serving
from tests.support.patience import PATIENCE_SECONDS as PATIENCE

SHORT = 0.3


@dataclass
class Authority:
    """A throw-away authority, and the files of what it signed."""

    folder: Path
    signer: trustme.CA = field(default_factory=trustme.CA)

    @property
    def file(self) -> Path:
        path = self.folder / "ca.pem"
        self.signer.cert_pem.write_to_path(str(path))
        return path

    def issue(self, name: str, expires: datetime.datetime | None = None) -> tuple[Path, Path]:
        """A certificate with its chain, and its key."""
        issued = self.signer.issue_cert(name, not_after=expires)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())
        return certificate, key


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    (tmp_path / "stranger").mkdir()
    return Authority(tmp_path / "stranger")


@pytest.fixture
def port(authority: Authority) -> Iterator[int]:
    """A toy verifier behind TLS, as `localhost`."""
    yield from _serving(*authority.issue("localhost"))


@pytest.fixture
def guarded_port(authority: Authority) -> Iterator[int]:
    """The port of a server that requires a client certificate of the same authority, and says so if it gets none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("localhost"))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    encrypted = partial(context.wrap_socket, server_side=True, do_handshake_on_connect=False)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), accepted, encrypted(accepted) as tls:
                try:
                    tls.do_handshake()
                    tls.recv(65536)
                    tls.sendall(http(msgspec.msgpack.encode(CARD)))
                    tls.unwrap()
                except ssl.SSLError:  # OpenSSL has sent its alert; closing at once would take it back.
                    tls.shutdown(socket.SHUT_WR)
                    while socket.socket.recv(tls, 65536):
                        pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def _serving(certificate: Path, key: Path, **options: object) -> Iterator[int]:
    app = ToyVerifier().app()
    with serving(app, ssl_certfile=str(certificate), ssl_keyfile=str(key), **options) as port:  # type: ignore[arg-type]
        yield port


async def trouble(url: str, options: TransportOptions, patience: float = PATIENCE) -> str:
    """What both clients say. They must say the same about the way to a server."""
    async with VerifierClient(url, options=options) as verifier, CompletionsClient(url, options=options) as chat:
        with pytest.raises(LinkDown) as card:
            await verifier.card(patience)
        with pytest.raises(LinkDown) as models:
            await chat.models(patience)
    # How far a server came before it hung up is chance, and httpx has another word for each.
    one, other = (re.sub(r"broke \([^()]*\)", "broke", str(error.value)) for error in (card, models))
    assert one == other
    return str(card.value)


# ---- whom to trust ---------------------------------------------------------------------------------------------------


async def test_whom_a_device_trusts(
    port: int, authority: Authority, stranger: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"https://localhost:{port}"
    said = await trouble(url, TransportOptions())
    assert "does not know who signed it" in said and "--ca" in said
    said = await trouble(url, TransportOptions(ca=stranger.file))
    assert f"nobody in {stranger.file} signed it" in said and "--ca" in said
    assert "for another name" in await trouble(f"https://127.0.0.1:{port}", TransportOptions(ca=authority.file))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    for options in (TransportOptions(), TransportOptions(ca=authority.file)):
        async with VerifierClient(url, options=options) as client:
            assert (await client.card(PATIENCE)).target == "toy"
            first = client.handshake
            await client.card(PATIENCE)
            assert client.handshake is first  # The connection is kept.
    assert first.tls_seconds > 0 < first.connect_seconds and first.certificate.expires > 0
    assert first.address == f"127.0.0.1:{port}" and first.version.startswith("TLS")
    assert first.certificate.subject == "localhost" and "trustme" in first.certificate.issuer


async def test_an_expired_certificate(authority: Authority) -> None:
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    for port in _serving(*authority.issue("localhost", yesterday)):
        said = await trouble(f"https://localhost:{port}", TransportOptions(ca=authority.file))
        assert "has expired" in said and "clock" in said


@pytest.mark.parametrize("has_store", [True, False])
def test_a_device_without_a_store_trusts_mozillas(has_store: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = ssl.DefaultVerifyPaths(None, None, "", "", "", "")  # type: ignore[arg-type]
    monkeypatch.setattr("remote.transport.STORES", (__file__,) if has_store else ())
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nowhere)
    monkeypatch.setattr("sys.platform", "linux")
    context = system_trust()
    assert (type(context) is ssl.SSLContext) is not has_store
    assert has_store or len(context.get_ca_certs()) > 50
    assert context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname


# ---- who we are ------------------------------------------------------------------------------------------------------


async def test_a_client_certificate(guarded_port: int, authority: Authority, stranger: Authority) -> None:
    url, both = f"https://localhost:{guarded_port}", authority.folder / "both.pem"
    certificate, key = authority.issue("device")
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    for shown in ({"certificate": certificate, "key": key}, {"certificate": both}):
        async with VerifierClient(url, options=TransportOptions(ca=authority.file, **shown)) as client:
            assert (await client.card(PATIENCE)).target == "toy"
    said = await trouble(url, TransportOptions(ca=authority.file))
    assert "requires a client certificate" in said and "--cert" in said
    unknown, key = stranger.issue("device")
    said = await trouble(url, TransportOptions(ca=authority.file, certificate=unknown, key=key))
    assert "does not accept the client certificate" in said and str(unknown) in said


async def test_a_server_that_hangs_up_without_a_client_certificate(authority: Authority) -> None:
    wants = {"ssl_ca_certs": str(authority.file), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    for port in _serving(*authority.issue("localhost"), **wants):  # asyncio sends no alert.
        said = await trouble(f"https://localhost:{port}", TransportOptions(ca=authority.file))
        assert "broke" in said and "whether it requires a client certificate" in said


def test_files_that_cannot_be_used(authority: Authority, stranger: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("device")
    _, other_key = stranger.issue("device")
    secret = tmp_path / "secret.key"
    command = ["openssl", "pkey", "-in", str(key), "-aes128", "-passout", "pass:x", "-out", str(secret)]
    subprocess.run(command, check=True, capture_output=True)
    empty, nowhere = tmp_path / "empty.pem", tmp_path / "nowhere.pem"
    empty.write_text("nothing")
    for options, says in (
        (TransportOptions(ca=nowhere), "nowhere.pem cannot be read"),
        (TransportOptions(ca=empty), "holds no certificate"),
        (TransportOptions(certificate=nowhere, key=key), "client certificate .*nowhere.pem cannot be read"),
        (TransportOptions(certificate=certificate, key=nowhere), "the key .*nowhere.pem cannot be read"),
        (TransportOptions(certificate=certificate, key=other_key), "is not that of the client certificate"),
        (TransportOptions(certificate=certificate, key=secret), "has a passphrase"),
        (TransportOptions(certificate=certificate, key=empty), "not a client certificate and its key"),
        (TransportOptions(key=key), "without its certificate"),
    ):
        with pytest.raises(Misconfigured, match=says):
            VerifierClient("https://localhost:1", options=options)


# ---- proxies ---------------------------------------------------------------------------------------------------------


@dataclass
class HttpProxy:
    """A proxy: CONNECT for TLS, forwarding for the rest."""

    asked: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        async with listening(self._serve) as port:
            yield f"http://127.0.0.1:{port}"

    async def _serve(self, _: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _version = head.split(b"\r\n")[0].decode().split(" ")
        self.asked.append(f"{method} {target}")
        place, path = target, ""
        if method != "CONNECT":
            place, _, path = target.removeprefix("http://").partition("/")
        host, _, port = place.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far_writer.write(head.replace(target.encode(), b"/" + path.encode(), 1))
        await _relay((reader, far_writer), (far_reader, writer))


@asynccontextmanager
async def socks_proxy(asked: list[str], far: int) -> AsyncIterator[str]:
    """SOCKS 5 (RFC 1928) without credentials. It connects to the port `far` here, whatever name it is asked for."""

    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _version, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\x05\x00")
        *_head, kind, size = await reader.readexactly(5)
        name = await reader.readexactly(size)
        asked.append(f"{name.decode()}:{int.from_bytes(await reader.readexactly(2), 'big')}")
        assert kind == 3, "the proxy looks the name up, not this device"
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", far)
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await _relay((reader, far_writer), (far_reader, writer))

    async with listening(serve) as port:
        yield f"socks5://127.0.0.1:{port}"


async def _relay(*ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()

    await asyncio.gather(*(one(*way) for way in ways))


async def test_a_proxy_with_tls_through_it(port: int, authority: Authority) -> None:
    proxy = HttpProxy()
    async with proxy.listening() as address:
        options = TransportOptions(ca=authority.file, proxy=address)
        async with VerifierClient(f"https://localhost:{port}", options=options) as client:
            assert (await client.card(PATIENCE)).target == "toy"
            handshake = client.handshake
    assert proxy.asked == [f"CONNECT localhost:{port}"]
    assert handshake.certificate and handshake.tls_seconds and handshake.address == address.removeprefix("http://")
    with serving(ToyVerifier().app()) as plain:  # Without TLS it forwards.
        said = await trouble(f"https://localhost:{plain}", TransportOptions(ca=authority.file))
        assert "does not speak TLS" in said and "http://" in said
        async with proxy.listening() as address:
            options = TransportOptions(proxy=address)
            async with VerifierClient(f"http://127.0.0.1:{plain}", options=options) as client:
                assert (await client.card(PATIENCE)).target == "toy"
    assert proxy.asked[1:] == [f"GET http://127.0.0.1:{plain}/v1/card"]


# ---- time ------------------------------------------------------------------------------------------------------------


async def silence(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take all that comes, and say nothing."""
    await reader.read()


async def test_a_port_that_accepts_and_says_nothing() -> None:
    async with listening(silence) as port:
        options = TransportOptions(connect_seconds=SHORT)
        said = await trouble(f"https://localhost:{port}", options)  # TLS is part of connecting.
        assert "did not answer in time" in said
        async with VerifierClient(f"http://localhost:{port}", options=options) as client:
            with pytest.raises(RemoteError, match="silent for too long|did not answer within"):
                await client.card(SHORT)


async def test_a_proxy_that_refuses_is_not_there_or_says_nothing() -> None:
    async def said(proxy: str, address: str = "https://localhost:1", patience: float = PATIENCE) -> str:
        return await trouble(address, TransportOptions(proxy=proxy, connect_seconds=patience), patience)

    async with raw_peer(lambda _: http(b"", status="403 Forbidden")) as port:
        refused = await said(f"http://127.0.0.1:{port}")
        assert f"the proxy 127.0.0.1:{port} does not let" in refused and "403 Forbidden" in refused
    assert "nothing listens at the proxy 127.0.0.1:9" in await said("http://127.0.0.1:9")
    lost = await said("http://proxy.invalid:3128", "http://localhost:1")
    assert "the name of the proxy proxy.invalid:3128 was not found" in lost
    async with listening(silence) as near:
        assert "did not answer within" in await said(f"http://127.0.0.1:{near}", patience=SHORT)


async def test_the_system_watches_a_silent_chat_server_for_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model may think for minutes, so only the system can tell a dead line from a silent server."""
    watched: list[tuple[int, list[int]]] = []
    before, names = handshake.probe, ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")

    def probe(connection: socket.socket) -> None:
        before(connection)
        times = [connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names if has_times]
        watched.append((connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), times))

    has_times = all(hasattr(socket, name) for name in names)
    monkeypatch.setattr(handshake, "probe", probe)
    listed = http(b'{"data":[{"id":"m"}]}', content_type="application/json")
    async with raw_peer(lambda _: listed) as port, CompletionsClient(f"http://127.0.0.1:{port}") as client:
        await client.models(60.0)
    [(alive, times)] = watched
    assert alive
    if has_times:
        idle, every, count = times
        assert idle + every * count <= 30
