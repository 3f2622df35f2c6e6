"""The client against everything that may sit in the place of a verifier. Rounds with a real one are in
`tests/remote/verifier/test_rounds.py`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from models.tree import DraftTree
from remote import Incompatible, LinkDown, Misconfigured, Refused, RoundReply, VerifierClient
from remote.protocol import VERSION, Progress, Sampling, Verdict, digest_of, encode_frame, pack_tokens
from tests.remote.toy_verifier import http, raw_peer, refusal
from tests.support.patience import PATIENCE_SECONDS as PATIENCE

PROMPT = [5, 9, 1]


GAINED = [*PROMPT, 7]
VERDICT = encode_frame(
    Verdict(round=1, accepted=(), bonus=7, length=4, digest=digest_of(GAINED), finished=False, server_seconds=0.0)
)


@contextlib.asynccontextmanager
async def asking(answer: Callable[[int], bytes | None]) -> AsyncIterator[VerifierClient]:
    """A client of a peer that answers the nth connection so."""
    async with raw_peer(answer) as port, VerifierClient(f"http://127.0.0.1:{port}") as client:
        yield client


async def ask(client: VerifierClient, deadline: float = PATIENCE) -> RoundReply:
    """The first round of a session."""
    session = client.session()
    return await session.round(PROMPT, DraftTree.empty(), Sampling(), memory_from=None, deadline=deadline)


@pytest.mark.parametrize("status", ["500 Internal Server Error", "504 Timeout"])
async def test_a_server_that_dies_behind_a_proxy_is_asked_again(status: str) -> None:
    """The proxy answers in words of its own. Another server may be behind it a moment later."""
    died = http(b"Internal Server Error", status=status, content_type="text/plain")
    async with asking(lambda number: http(VERDICT) if number else died) as client:
        reply = await ask(client)
        assert (reply.verdict.bonus, reply.exchanges) == (7, 2)
        await reply.aclose()
    async with asking(lambda _: died) as client:
        with pytest.raises(LinkDown):
            await ask(client)


async def test_a_round_on_a_connection_that_was_given_up_is_a_line_that_is_down() -> None:
    client = VerifierClient("http://127.0.0.1:9")
    await client.close()
    with pytest.raises(LinkDown, match="is not answering"):
        await ask(client)


@pytest.mark.parametrize("breaks", [False, True])
async def test_silence_ends_at_the_deadline_which_spans_a_retry(breaks: bool) -> None:
    async with asking(lambda connection: b"" if breaks and connection == 0 else None) as client:
        start = asyncio.get_running_loop().time()
        with pytest.raises(LinkDown, match=r"did not answer within"):
            await ask(client, deadline=0.3)
        assert asyncio.get_running_loop().time() - start < PATIENCE / 2


PAGE = b"<html>Welcome to Airport Wi-Fi</html>"


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (http(PAGE, content_type="text/html"), "text/html"),
        (http(PAGE, content_type=None), "something of unknown type"),
        (http(b"", status="302 Found", extra="location: http://portal.example/\x1b[2J\r\n"), "location header"),
        (http(b"", status="302 Found", extra="location: http://portal.example/login\r\n"), "portal.example/login"),
        (http(b'{"detail": "x"}', status="404 Not Found", content_type="application/json"), "404"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "broke"),
        (b"", "the connection to 127.0.0.1:[0-9]+ broke; check whether it still runs"),
        (http(b""), "empty"),
        (http(VERDICT[:-1]), "broke off"),
    ],
)
async def test_an_answer_that_is_no_verifiers_means_that_the_link_is_down(reply: bytes, sentence: str) -> None:
    async with asking(lambda _: reply) as client:
        with pytest.raises(LinkDown, match=sentence) as caught:
            await ask(client)
        assert str(caught.value).isprintable()


async def test_an_endless_body_is_not_read_to_its_end() -> None:
    async with asking(lambda _: http(b"\x00" * (4 << 20))) as client:
        with pytest.raises(Incompatible, match="more than"):
            await client.card(PATIENCE)


BUSY = refusal("busy", status="503 Service Unavailable", retry=True, message="Full.\x1b[31m Try again.")
TOO_LONG = http(
    msgspec.json.encode({"code": "too_long", "message": "Try again with less.", "retry": False}),
    status="422 Unprocessable", content_type="application/json; charset=utf-8",
)  # fmt: skip


@pytest.mark.parametrize(("reply", "code", "retry"), [(BUSY, "busy", True), (TOO_LONG, "too_long", False)])
async def test_a_typed_error_is_a_refusal_in_msgpack_and_json(reply: bytes, code: str, retry: bool) -> None:
    async with asking(lambda _: reply) as client:
        with pytest.raises(Refused, match="(?<!m )Try again") as caught:
            await ask(client)
    assert (caught.value.code, caught.value.retry) == (code, retry) and str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (msgspec.msgpack.encode({"version": VERSION + 1, "anything": "else"}), "update outrider on this device"),
        (msgspec.msgpack.encode({"version": VERSION - 1}), "update the server"),
        (msgspec.msgpack.encode({"version": VERSION}), "not a Card"),
        (b"garbage", "update Outrider here and on the server"),
    ],
)
async def test_a_card_of_another_version_is_incompatible(body: bytes, sentence: str) -> None:
    async with asking(lambda _: http(body)) as client:
        with pytest.raises(Incompatible, match=sentence):
            await client.card(PATIENCE)


async def test_a_stream_says_no_more_than_was_asked_for() -> None:
    new = [7, 8, 9]
    progress = Progress(pack_tokens(new), 0, 6, digest_of(PROMPT + new), finished=True, server_seconds=0.0)
    async with asking(lambda _: http(encode_frame(progress))) as client:
        for most, fits in ((3, True), (2, False)):
            stream = await client.session().stream(
                PROMPT, Sampling(), most=most, memory_from=None, deadline=PATIENCE, silence=PATIENCE
            )
            with contextlib.nullcontext() if fits else pytest.raises(Incompatible, match="does not belong"):
                assert [frame async for frame in stream] == [progress]


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8000", "ftp://host", "http://", "http://a..b", "http://" + "a" * 64, "http://host:99999",
     "http://host:port", "http://user:password@host", "http://[::1", "\x1b[2J", "http://host/v1/chat/completions",
     "https://host/deployments/gpt?api-version=1", "http://host/#x"],
)  # fmt: skip
def test_an_address_that_cannot_be_used(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        VerifierClient(url)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("token", ["", " ", "two words", "n\new", "naïve"])
def test_a_token_that_cannot_be_used(token: str) -> None:
    with pytest.raises(Misconfigured, match="token"):
        VerifierClient("http://host", token)
