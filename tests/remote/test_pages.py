"""Pages and refusals that stand in the place of an answer: the sentence says whose they are, and what to do."""

from __future__ import annotations

import datetime
import itertools
from email.utils import format_datetime
from pathlib import Path

import pytest

from remote import Busy, CompletionsClient, LinkDown, Refused, RemoteError, TransportOptions, VerifierClient
from remote.detect import detect
from remote.protocol import Sampling
from tests.remote.test_transport import Authority, trouble
from tests.remote.toy_verifier import ToyVerifier, http, raw_peer, serving
from tests.support.patience import PATIENCE_SECONDS as PATIENCE

HTML, JSON = "text/html", "application/json"


def page(status: str, title: str) -> bytes:
    body = f"<!DOCTYPE html><html><head><title>{title}</title></head><body>…</body></html>".encode()
    return http(body, status=status, content_type=HTML)


async def asked(reply: bytes) -> RemoteError:
    """What a question ends with."""
    async with raw_peer(lambda _: reply) as port, CompletionsClient(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(RemoteError) as caught:
            stream = await client.chat(
                [("user", "how?")], Sampling(), model="m", most=1, deadline=PATIENCE, silence=PATIENCE
            )
            async for _ in stream:
                pass
    assert str(caught.value).isprintable()
    return caught.value


async def greeted(reply: bytes) -> RemoteError:
    """What finding out who is there ends with."""
    async with raw_peer(lambda _: reply) as port:
        url = f"http://127.0.0.1:{port}"
        async with VerifierClient(url) as verifier, CompletionsClient(url) as endpoint:
            with pytest.raises(RemoteError) as caught:
                await detect(verifier, endpoint, PATIENCE)
    return caught.value


PAGES: dict[str, tuple[bytes, type[RemoteError], tuple[str, ...]]] = {
    "Cloudflare blocks": (
        page("403 Forbidden", "Attention Required! | Cloudflare"), Refused, ("403", "Cloudflare", "denies")),
    "nginx, too large": (
        page("413 Request Entity Too Large", "413 Request Entity Too Large"), Refused, ("413", "size", "images")),
    "nginx, too often": (page("429 Too Many Requests", "429 Too Many Requests"), Busy, ("429", "too many requests")),
    "nginx, nobody behind": (page("502 Bad Gateway", "502 Bad Gateway"), LinkDown, ("502", "no server behind it")),
    "nginx, too slow": (page("504 Gateway Time-out", "504 Gateway Time-out"), LinkDown, ("504", "no answer in time")),
    "Cloudflare, too slow": (page("524 X", "a timeout occurred"), LinkDown, ("524", "no answer in time")),
    "Apache failed": (page("500 Internal Server Error", "500 Internal Server Error"), LinkDown, ("500", "internal")),
    "a payment": (page("402 Payment Required", "No credit"), Refused, ("402", "No credit")),
    "a page that is not there": (page("404 Not Found", "404 Not Found"), LinkDown, ("404", "nothing at this address")),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_is_told_by_its_status_and_its_title(name: str) -> None:
    reply, kind, words = PAGES[name]
    for error in (await asked(reply), await greeted(reply)):
        assert isinstance(error, kind)
        assert all(word in str(error) for word in words) and "login page" not in str(error), str(error)


SHAPES = {
    "errors": b'{"success":false,"errors":[{"code":10000,"message":"Why not."}]}',
    "errors in words": b'{"errors":["Why not."]}',
    "errors by field": b'{"errors":{"model":["Why not."]}}',
    "error_msg": b'{"error_code":17,"error_msg":"Why not."}',
    "a flag and a message": b'{"error":true,"message":"Why not."}',
    "AWS": b'{"Message":"Why not."}',
    "Apigee": b'{"fault":{"faultstring":"Why not.","detail":{"errorcode":"x"}}}',
    "OAuth": b'{"error":"invalid_request","error_description":"Why not."}',
    "RFC 9457": b'{"type":"about:blank","title":"Why not.","status":418}',
    "base_resp": b'{"base_resp":{"status_code":1004,"status_msg":"Why not."}}',
    "a text": b'"Why not."',
    "some other field": b'{"ok":false,"info":{"text":"Why not."}}',
}


@pytest.mark.parametrize("name", SHAPES)
async def test_json_says_why_in_any_shape(name: str) -> None:
    """Under any status, and whatever its content type says."""
    kinds = itertools.cycle([JSON, "text/html", "text/plain"])
    for status in ("400 X", "413 X", "429 X", "502 X"):
        error = await asked(http(SHAPES[name], status=status, content_type=next(kinds)))
        assert isinstance(error, Refused) and "Why not." in str(error) and status[:3] in str(error), status
        assert "login page" not in str(error), status


IN_AN_HOUR = format_datetime(datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1), usegmt=True)


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("retry-after: 2.5", 2.5, 2.5),
        ("retry-after-ms: 1500\r\nretry-after: 2", 1.5, 1.5),
        ("retry-after: Sun, 06 Nov 1994 08:49:37 GMT", 0, 0),
        ("date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:52 GMT", 15, 15),
        pytest.param(f"retry-after: {IN_AN_HOUR}", 1, 3600, id="in an hour"),
        ("retry-after: soon", None, None),
        ("retry-after: 1e999", None, None),
    ],
)
async def test_when_to_ask_again_is_read_in_each_form(header: str, least: float | None, most: float | None) -> None:
    for body in (b'{"error":{"message":"Slow down."}}', b"<html><title>Slow down</title></html>"):
        error = await asked(http(body, status="429 No", content_type=HTML, extra=header + "\r\n"))
        assert isinstance(error, Busy)
        if least is None or most is None:
            assert error.after is None
        else:
            assert error.after is not None and least <= error.after <= most


async def test_a_tls_server_that_is_asked_without_tls(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("localhost")
    with serving(ToyVerifier().app(), ssl_certfile=str(certificate), ssl_keyfile=str(key)) as port:
        assert "try https://" in await trouble(f"http://localhost:{port}", TransportOptions())


@pytest.mark.parametrize(
    "reply",
    [
        page("400 Bad Request", "400 The plain HTTP request was sent to HTTPS port"),
        http(b"Client sent an HTTP request to an HTTPS server.\n", status="400 Bad Request", content_type="text/plain"),
        http(b"", status="308 Permanent Redirect", extra="location: https://127.0.0.1/v1/models\r\n"),
        b"\x15\x03\x01\x00\x02\x02F",
    ],
)
async def test_what_tls_servers_answer_without_tls(reply: bytes) -> None:
    for error in (await asked(reply), await greeted(reply)):
        assert "try https://" in str(error), str(error)


@pytest.mark.parametrize("environment", [False, True])
async def test_a_proxy_that_wants_another_password_is_named(monkeypatch: pytest.MonkeyPatch, environment: bool) -> None:
    reply = page("407 Proxy Authentication Required", "ERR_CACHE_ACCESS_DENIED")
    async with raw_peer(lambda _: reply) as port:
        address = f"http://anna:S3cret@127.0.0.1:{port}"
        if environment:
            monkeypatch.setenv("ALL_PROXY", address)
        said = await trouble("http://models.example", TransportOptions(proxy=None if environment else address))
    assert f"the proxy 127.0.0.1:{port} requires a user name and a password (407)" in said and "S3cret" not in said


async def test_the_network_that_wants_a_login_is_still_known() -> None:
    for reply in (page("200 OK", "Hotel"), page("511 Network Authentication Required", "Hotel")):
        assert "login page" in str(await asked(reply)) and "login page" in str(await greeted(reply))
