"""Proxies that the environment names: which server is reached through which, and variables that cannot be read."""

from __future__ import annotations

import asyncio
import gc
import traceback

import pytest

from remote import CompletionsClient, LinkDown, Misconfigured, TransportOptions, VerifierClient
from remote.protocol import encode
from remote.proxies import environment_problems, environment_proxy, is_loopback, to_check
from remote.wire import Wire
from tests.remote.test_transport import socks_proxy
from tests.remote.toy_verifier import CARD, http, listening, raw_peer
from tests.support.patience import PATIENCE_SECONDS as PATIENCE

FAR = "http://verifier.invalid"
SECRETS = ("anna", "S3cret", "9tail")


@pytest.mark.parametrize("entries", ["localhost,[::1]", "10.0.0.0/99", "[", "a:b:c,x:y", "fe80::1%eth0/64"])
async def test_an_entry_that_cannot_be_read_is_skipped(monkeypatch: pytest.MonkeyPatch, entries: str) -> None:
    monkeypatch.setenv("ALL_PROXY", "proxy.example:3128")
    for more, proxy in (("", "http://proxy.example:3128"), (",verifier.invalid", None)):
        monkeypatch.setenv("NO_PROXY", entries + more)
        assert environment_proxy(FAR) == proxy
        async with VerifierClient(FAR), CompletionsClient(FAR):
            pass


DIRECT = [
    ("near.example,*", "https://far.example"), ("example.com", "https://www.example.com"),
    (".example.com", "https://www.example.com"), (".example.com", "https://example.com"),
    ("*.example.com", "https://www.example.com"), ("EXAMPLE.com", "https://Example.COM."),
    ("bücher.example", "https://xn--bcher-kva.example"), ("example.com:443", "https://example.com"),
    ("one two\texample.com", "https://example.com"), ("https://example.com", "https://example.com"),
    ("10.0.0.7/8", "http://10.1.2.3:8000"), ("192.168.*", "http://192.168.3.4"),
    ("[fe80::]/10", "http://[fe80::7]:8000"), ("fd00::7", "http://[fd00:0::7]"),
    ("[fd00::7]:8000", "http://[fd00::7]:8000"),
]  # fmt: skip
PROXIED = [
    ("example.com", "https://badexample.com"), ("example.com:8443", "https://example.com"),
    ("http://example.com", "https://example.com"), ("10.0.0.0/8", "http://11.1.2.3"),
    ("10.0.0.0/8", "http://ten.example"), ("10.1.2.3:8000", "http://10.1.2.3:8001"), ("fe80::/10", "http://10.0.0.1"),
]  # fmt: skip


@pytest.mark.parametrize(("entries", "address"), [*DIRECT, *PROXIED])
def test_what_no_proxy_means(monkeypatch: pytest.MonkeyPatch, entries: str, address: str) -> None:
    monkeypatch.setenv("ALL_PROXY", "proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", entries)
    assert environment_proxy(address) == (None if (entries, address) in DIRECT else "http://proxy.example:3128")


def test_loopback_is_never_reached_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:3128")
    near = ("LOCALHOST.", "app.localhost", "127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1", "0.0.0.0")
    for host in (*near, "128.0.0.1", "localhost.example", "127.example"):
        here = host in near
        assert is_loopback(host) == here, host
        assert to_check(f"{host}:80") == to_check(host)
        assert to_check(host) == ("check whether it still runs" if here else "check the network")
        assert (environment_proxy(f"http://[{host}]:1" if ":" in host else f"http://{host}:1") is None) == here


@pytest.mark.parametrize("value", ["socks4://p:1", "http://", "http://a:b:c", "http://p:99999", "::"])
async def test_a_bad_variable_stops_only_the_servers_that_need_it(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ALL_PROXY", value)
    monkeypatch.setenv("NO_PROXY", "near.example")
    await VerifierClient("http://127.0.0.1:1").close()
    await VerifierClient("https://near.example").close()
    for client_class in (VerifierClient, CompletionsClient):
        with pytest.raises(Misconfigured, match=r"ALL_PROXY .*write it as http://host:port.*NO_PROXY=far\.example$"):
            client_class("https://far.example")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    await VerifierClient("https://far.example").close()
    assert [problem.split()[0] for problem in environment_problems()] == ["ALL_PROXY"]


async def test_a_socks_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    async with raw_peer(lambda _: http(encode(CARD))) as port, socks_proxy(asked, port) as address:
        for number, scheme in enumerate(("socks", "socks5", "socks5h", "SOCKS"), 1):
            monkeypatch.setenv("ALL_PROXY", f"{address.replace('socks5', scheme)}/")
            async with VerifierClient(FAR) as client:
                assert await client.card(PATIENCE) == CARD
            assert asked == ["verifier.invalid:80"] * number, scheme


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # httpcore does not close the connection.
async def test_a_port_that_does_not_speak_socks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(3)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with listening(serve) as port:
        monkeypatch.setenv("ALL_PROXY", f"socks5://127.0.0.1:{port}")
        async with VerifierClient(FAR) as client:
            with pytest.raises(LinkDown, match=f"the proxy 127.0.0.1:{port} does not"):
                await client.card(PATIENCE)
    gc.collect()


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("http://anna:S3cret#9tail@host:1", "%23"),
        ("anna:S3cret#9tail@host:1", "%23"),
        ("http://anna:S3cret/9tail@host:1", "%2F"),
        ("socks5://anna:S3cret@9tail@host:1", "%40"),
        ("http://anna:S3cret 9tail@host:1", "%20"),
        ("ftp://anna:S3cret#9tail@host:1", ""),
        ("anna://S3cret:9tail@host", ""),
        ("http://anna:S3cret@host:9tail", ""),
        ("http://anna:S3cret@", ""),
    ],
)
@pytest.mark.parametrize("own", [False, True])
def test_no_message_shows_a_password(monkeypatch: pytest.MonkeyPatch, value: str, escaped: str, own: bool) -> None:
    if not own:
        monkeypatch.setenv("HTTPS_PROXY", value)
    options = TransportOptions(proxy=value) if own else TransportOptions()
    with pytest.raises(Misconfigured) as failed:
        Wire("https://far.example", options=options)
    told = [str(failed.value), *([] if own else environment_problems()), *_chain(failed.value)]
    assert escaped in told[0] and not [one for one in told if any(secret in one for secret in SECRETS)]
    assert "S3cret" not in repr(options)


@pytest.mark.parametrize(
    "address", ["https://anna:S3cret#9tail@host", "https://anna:S3cret/9tail@host:1", "ftp://anna:S3cret@host"]
)
def test_no_message_shows_the_credentials_of_an_address(address: str) -> None:
    with pytest.raises(Misconfigured) as failed:
        Wire(address)
    assert not [one for one in _chain(failed.value) if any(secret in one for secret in SECRETS)]


def _chain(error: BaseException) -> list[str]:
    """What a traceback, and a log that follows every cause, say of an error."""
    told = ["".join(traceback.format_exception(error))]
    cause: BaseException | None = error
    while cause is not None:
        told.append(str(cause))
        cause = cause.__cause__ or cause.__context__
    return told
