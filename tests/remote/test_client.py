"""The client against a real server on loopback, and against everything that may sit in its place."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.config import DIGEST_BYTES
from models.tree import DraftTree
from remote import Incompatible, LinkDown, Misconfigured, Refused, RemoteSession, RoundReply, VerifierClient
from remote.protocol import (
    VERSION,
    Memory,
    Progress,
    Sampling,
    Verdict,
    digest_of,
    encode_frame,
    pack_tokens,
    unpack_tokens,
)
from tests.remote.toy_verifier import (
    CARD,
    MEMORY_TOKENS,
    TOKENIZER,
    ToyVerifier,
    continuation,
    cutting_relay,
    http,
    raw_peer,
    refusal,
    serving,
    verify,
)
from tests.support.patience import PATIENCE_SECONDS as PATIENCE

PROMPT = [5, 9, 1]


def at(port: int, token: str | None = None) -> VerifierClient:
    return VerifierClient(f"http://127.0.0.1:{port}", token)


@contextlib.asynccontextmanager
async def asking(answer: Callable[[int], bytes | None]) -> AsyncIterator[VerifierClient]:
    """A client of a peer that answers the nth connection so."""
    async with raw_peer(answer) as port, at(port) as client:
        yield client


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[ToyVerifier, int]]:
    toy = ToyVerifier()
    with serving(toy.app()) as port:
        yield toy, port


@pytest.fixture
def toy(served: tuple[ToyVerifier, int]) -> ToyVerifier:
    served[0].__init__()  # type: ignore[misc]
    return served[0]


@pytest.fixture
def port(toy: ToyVerifier, served: tuple[ToyVerifier, int]) -> int:
    return served[1]


@pytest.fixture
async def client(port: int) -> AsyncIterator[VerifierClient]:
    async with at(port) as client:
        yield client


async def ask(
    session: RemoteSession,
    tokens: Sequence[int],
    tree: DraftTree | None = None,
    *,
    memory_from: int | None = None,
    deadline: float = PATIENCE,
) -> RoundReply:
    return await session.round(
        tokens, tree or DraftTree.empty(), Sampling(), memory_from=memory_from, deadline=deadline
    )


def gained(reply: RoundReply, tree: DraftTree) -> list[int]:
    tokens = [int(tree.tokens[node]) for node in reply.verdict.accepted]
    return tokens if reply.verdict.bonus is None else [*tokens, reply.verdict.bonus]


async def settled(session: RemoteSession, tokens: Sequence[int], tree: DraftTree | None = None) -> RoundReply:
    """A round whose memory is not read."""
    reply = await ask(session, tokens, tree)
    await reply.aclose()
    return reply


# ---- rounds ----------------------------------------------------------------------------------------------------------


async def test_rounds_grow_one_conversation_and_send_only_what_is_new(toy: ToyVerifier, client: VerifierClient) -> None:
    """Over one connection, which is kept alive."""
    session, tokens = client.session(), list(PROMPT)
    for _ in range(3):
        right = continuation(tokens, 2)
        tree = DraftTree.chain([*right, 49])  # 49 is never the third: two are accepted, and a bonus follows.
        reply = await ask(session, tokens, tree)
        assert not [memory async for memory in reply.memory]
        assert reply.verdict.accepted == (0, 1)
        tokens += gained(reply, tree)
    assert tokens == PROMPT + continuation(PROMPT, 9)
    assert [len(unpack_tokens(message.append)) for message in toy.rounds] == [3, 0, 0]
    assert [message.base for message in toy.rounds] == [0, 6, 9]
    assert [message.round for message in toy.rounds] == [1, 2, 3] and len(toy.peers) == 1


async def test_memory_follows_newest_first_and_is_counted(client: VerifierClient) -> None:
    prompt = [token % 50 for token in range(40)]
    reply = await ask(client.session(), prompt, memory_from=8)
    before = reply.bytes_down
    memories = [memory async for memory in reply.memory if isinstance(memory, Memory)]
    starts = [memory.start for memory in memories]
    assert starts == sorted(starts, reverse=True) == list(range(36, 7, -MEMORY_TOKENS))
    assert b"".join(memory.data for memory in reversed(memories)) == bytes(prompt[8:])
    assert reply.bytes_down >= before + sum(len(memory.data) for memory in memories) - 8 * MEMORY_TOKENS
    assert reply.bytes_up > 4 * len(prompt)


async def test_the_round_trip_excludes_the_verifiers_own_time(toy: ToyVerifier, client: VerifierClient) -> None:
    toy.seconds = 0.2
    start = asyncio.get_running_loop().time()
    reply = await ask(client.session(), PROMPT)
    elapsed = asyncio.get_running_loop().time() - start
    await reply.aclose()
    assert reply.verdict.server_seconds == 0.2
    assert 0 <= reply.rtt_seconds <= elapsed - 0.2


async def test_token_and_session_travel_as_headers(toy: ToyVerifier, port: int) -> None:
    async with at(port, " s3cret\n") as client:
        session = client.session()
        await settled(session, PROMPT)
    assert toy.headers[0]["authorization"] == "Bearer s3cret"
    assert toy.headers[0]["x-session-id"] == session.id == toy.rounds[0].session


async def test_sessions_have_names_that_cannot_be_guessed(client: VerifierClient) -> None:
    names = {client.session().id for _ in range(100)}
    assert len(names) == 100
    assert all(len(name) >= 22 for name in names)


async def test_a_closed_session_is_forgotten(toy: ToyVerifier, client: VerifierClient) -> None:
    session = client.session()
    await settled(session, PROMPT)
    await session.close(PATIENCE)
    assert not toy.sessions
    await session.close(PATIENCE)  # It is gone already, which is what was wanted.
    await settled(session, PROMPT)
    assert toy.sessions[session.id].tokens == PROMPT + continuation(PROMPT, 1)


# ---- conflicts -------------------------------------------------------------------------------------------------------


async def test_a_round_on_a_connection_that_was_given_up_is_a_line_that_is_down(client: VerifierClient) -> None:
    session = client.session()
    await client.close()
    with pytest.raises(LinkDown, match="does not answer now"):
        await session.round(PROMPT, DraftTree.empty(), Sampling(), memory_from=None, deadline=PATIENCE)


operations: st.SearchStrategy[tuple[str, list[int]]] = st.one_of(
    st.tuples(st.just("draft"), st.lists(st.integers(0, 1), max_size=5)),
    st.tuples(st.just("edit"), st.lists(st.integers(0, 49), min_size=1, max_size=4)),
    st.tuples(st.just("forget"), st.just([])),
    st.tuples(st.just("diverge"), st.lists(st.integers(0, 49), max_size=4)),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(operations, max_size=8), st.randoms(use_true_random=False))
def test_whatever_happens_to_either_side_every_round_is_right(
    script: list[tuple[str, list[int]]], rng: random.Random
) -> None:
    """Edits on the device, lost and diverged sessions on the verifier: always the right answer, in two exchanges."""

    async def play() -> None:
        toy = ToyVerifier()
        tokens = list(PROMPT)
        async with VerifierClient("http://toy", transport=httpx.ASGITransport(toy.app())) as client:
            session = client.session()
            for kind, values in script:
                tree = DraftTree.empty()
                if kind == "draft":
                    likely = continuation(tokens, len(values))
                    tree = DraftTree.chain([(token + wrong) % 50 for token, wrong in zip(likely, values)])
                elif kind == "edit":
                    tokens[rng.randint(1, len(tokens)) :] = values
                elif kind == "forget":
                    toy.sessions.clear()
                elif session.id in toy.sessions:
                    held = toy.sessions[session.id].tokens
                    held[rng.randint(0, len(held)) :] = values
                toy.rounds.clear()
                reply = await settled(session, tokens, tree)
                accepted, bonus = verify(tokens, tree)
                assert (list(reply.verdict.accepted), reply.verdict.bonus) == (accepted, bonus)
                tokens += gained(reply, tree)
                assert toy.sessions[session.id].tokens == tokens
                assert len(toy.rounds) <= 2

    asyncio.run(play())


# ---- broken lines ----------------------------------------------------------------------------------------------------


async def test_a_reply_cut_anywhere_before_the_verdict_is_fetched_again(toy: ToyVerifier, port: int) -> None:
    """The device sends the same round number again, the verifier repeats its reply, and the target runs once."""
    async with at(port) as client:
        whole = await ask(client.session(), PROMPT)
        verdict_bytes = whole.bytes_down
        await whole.aclose()
    for cut in (0, 1, 20, verdict_bytes // 2, verdict_bytes - 30):
        toy.__init__()  # type: ignore[misc]
        async with cutting_relay(port, [cut]) as near, at(near) as client:
            reply = await settled(client.session(), PROMPT)
            assert reply.verdict.bonus == continuation(PROMPT, 1)[0]
            assert [message.round for message in toy.rounds] == [1, 1]
            assert toy.computed == 1


@pytest.mark.parametrize("status", ["500 Internal Server Error", "504 Timeout"])
async def test_a_server_that_dies_behind_a_proxy_is_asked_again(port: int, status: str) -> None:
    """The proxy answers in words of its own. Another server may be behind it a moment later."""
    async with at(port) as client:
        reply = await ask(client.session(), PROMPT)
        body = encode_frame(reply.verdict)
        await reply.aclose()
    died, asked = http(b"Internal Server Error", status=status, content_type="text/plain"), list[int]()

    def answer(number: int) -> bytes:
        asked.append(number)
        return died if len(asked) == 1 else http(body)

    async with asking(answer) as client:
        reply = await settled(client.session(), PROMPT)
        assert (reply.verdict.bonus, reply.exchanges, len(asked)) == (continuation(PROMPT, 1)[0], 2, 2)
    async with asking(lambda _: died) as client:
        with pytest.raises(LinkDown):
            await ask(client.session(), PROMPT)


async def test_memory_that_is_read_late_is_still_whole(client: VerifierClient) -> None:
    session, tokens = client.session(), [token % 50 for token in range(200)]
    first = await ask(session, tokens, memory_from=0)
    await settled(session, tokens + gained(first, DraftTree.empty()))
    memories = [memory async for memory in first.memory]
    assert sum(memory.count for memory in memories) == len(tokens)


async def test_a_cancelled_round_leaves_the_session_whole(toy: ToyVerifier, client: VerifierClient) -> None:
    session = client.session()
    toy.seconds = PATIENCE
    task = asyncio.create_task(ask(session, PROMPT))
    while not toy.rounds:
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    toy.seconds = 0.0
    reply = await settled(session, [*PROMPT, 4])
    assert reply.verdict.bonus == continuation([4], 1)[0]


@pytest.mark.parametrize("breaks", [False, True])
async def test_silence_ends_at_the_deadline_which_spans_a_retry(breaks: bool) -> None:
    async with asking(lambda connection: b"" if breaks and connection == 0 else None) as client:
        start = asyncio.get_running_loop().time()
        with pytest.raises(LinkDown, match=r"did not answer within"):
            await ask(client.session(), PROMPT, deadline=0.3)
        assert asyncio.get_running_loop().time() - start < PATIENCE / 2


# ---- somebody else answers -------------------------------------------------------------------------------------------

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
        (http(encode_frame(Verdict(round=1, accepted=(), bonus=1, length=4, digest=bytes(16), finished=False,
                                   server_seconds=0.0))[:-1]), "broke off"),
    ],
)  # fmt: skip
async def test_an_answer_that_is_no_verifiers_means_that_the_link_is_down(reply: bytes, sentence: str) -> None:
    async with asking(lambda _: reply) as client:
        with pytest.raises(LinkDown, match=sentence) as caught:
            await ask(client.session(), PROMPT)
        assert str(caught.value).isprintable()


async def test_an_endless_body_is_not_read_to_its_end() -> None:
    async with asking(lambda _: http(b"\x00" * (4 << 20))) as client:
        with pytest.raises(Incompatible, match="more than"):
            await client.card(PATIENCE)


# ---- refusals --------------------------------------------------------------------------------------------------------


BUSY = refusal("busy", status="503 Service Unavailable", retry=True, message="Full.\x1b[31m Try again.")
TOO_LONG = http(
    msgspec.json.encode({"code": "too_long", "message": "Try again with less.", "retry": False}),
    status="422 Unprocessable", content_type="application/json; charset=utf-8",
)  # fmt: skip


@pytest.mark.parametrize(("reply", "code", "retry"), [(BUSY, "busy", True), (TOO_LONG, "too_long", False)])
async def test_a_typed_error_is_a_refusal_in_msgpack_and_json(reply: bytes, code: str, retry: bool) -> None:
    async with asking(lambda _: reply) as client:
        with pytest.raises(Refused, match="Try again") as caught:
            await ask(client.session(), PROMPT)
    assert (caught.value.code, caught.value.retry) == (code, retry) and str(caught.value).isprintable()


async def test_a_refused_round_does_not_spoil_the_next(toy: ToyVerifier, client: VerifierClient) -> None:
    session = client.session()
    await settled(session, PROMPT)
    toy.sessions[session.id].last_round = 2
    with pytest.raises(LinkDown):
        await ask(session, PROMPT, deadline=0.0)  # Takes number 2 without sending it.
    toy.sessions[session.id].last_round = 4
    with pytest.raises(Refused, match="older"):
        await ask(session, [*PROMPT, 8])
    toy.sessions[session.id].last_round = 3
    await settled(session, [*PROMPT, 8])
    assert toy.sessions[session.id].tokens == [*PROMPT, 8, *continuation([8], 1)]


# ---- compatibility ---------------------------------------------------------------------------------------------------


async def test_the_card_tells_who_the_verifier_is(client: VerifierClient) -> None:
    assert await client.card(PATIENCE) == CARD
    assert await client.card(PATIENCE, tokenizer=TOKENIZER) == CARD
    with pytest.raises(Incompatible, match="was not made for toy"):
        await client.card(PATIENCE, tokenizer=bytes(DIGEST_BYTES))


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
    new = continuation(PROMPT, 3)
    digest = digest_of(PROMPT + new)
    progress = Progress(pack_tokens(new), 0, len(PROMPT) + 3, digest, finished=True, server_seconds=0.0)
    async with asking(lambda _: http(encode_frame(progress))) as client:
        for most, fits in ((3, True), (2, False)):
            stream = await client.session().stream(
                PROMPT, Sampling(), most=most, memory_from=None, deadline=PATIENCE, silence=PATIENCE
            )
            with contextlib.nullcontext() if fits else pytest.raises(Incompatible, match="cannot have"):
                assert [frame async for frame in stream] == [progress]


# ---- addresses -------------------------------------------------------------------------------------------------------


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


async def test_a_path_in_front_is_kept(toy: ToyVerifier) -> None:
    paths = []

    async def app(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        paths.append(scope["path"])
        await toy.app()({**scope, "path": scope["path"].removeprefix("/team")}, receive, send)

    async with VerifierClient("http://host/team/", transport=httpx.ASGITransport(app)) as client:
        await client.card(PATIENCE)
    assert paths == ["/team/v1/card"]
