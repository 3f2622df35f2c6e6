"""A device's rounds with a real server: whatever happens to either side or to the line, every round is right."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.engines.engine import Engine
from models.tree import DraftTree
from remote import LinkDown, Refused, RemoteSession, RoundReply, VerifierClient
from remote.protocol import Card, Memory, Sampling
from remote.verifier.holders import Tokens
from remote.verifier.http import create_app
from remote.verifier.options import ServeOptions
from tests.remote.toy_verifier import cutting_relay
from tests.remote.verifier.test_http import PATIENT, PROMPT, TOKEN, connected, counter, message
from tests.remote.verifier.tiny import VOCABULARY, generated


@pytest.fixture
async def plain(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=PATIENT, trust_env=False) as client:
        yield client


@pytest.fixture
async def client(url: str) -> AsyncIterator[VerifierClient]:
    async with VerifierClient(url) as client:
        yield client


async def ask(
    session: RemoteSession, tokens: Sequence[int], tree: DraftTree | None = None, deadline: float = PATIENT
) -> RoundReply:
    """A round without memory."""
    reply = await session.round(tokens, tree or DraftTree.empty(), Sampling(), memory_from=None, deadline=deadline)
    assert not [memory async for memory in reply.memory]
    return reply


def gained(reply: RoundReply, tree: DraftTree) -> list[int]:
    tokens = [int(tree.tokens[node]) for node in reply.verdict.accepted]
    return tokens if reply.verdict.bonus is None else [*tokens, reply.verdict.bonus]


async def test_rounds_grow_one_conversation_and_send_only_what_is_new(client: VerifierClient, target: Engine) -> None:
    """Over one connection, which is kept alive."""
    session, tokens, right = client.session(), list(PROMPT), generated(target.model, PROMPT, 9)
    sent, connections = list[int](), set()
    for at in (0, 3, 6):
        tree = DraftTree.chain([*right[at : at + 2], (right[at + 2] + 1) % VOCABULARY])
        reply = await ask(session, tokens, tree)
        assert reply.verdict.accepted == (0, 1) and reply.exchanges == 1
        tokens += gained(reply, tree)
        sent.append(reply.traffic.up)
        connections.add(client.handshake)
    assert tokens == PROMPT + right and len(connections) == 1
    assert sent[0] >= sent[1] + 4 * len(PROMPT) and abs(sent[2] - sent[1]) < 4


async def test_memory_follows_newest_first_and_is_whole_even_if_it_is_read_late(client: VerifierClient) -> None:
    session, prompt = client.session(), [2 + token % 40 for token in range(200)]
    reply = await session.round(prompt, DraftTree.empty(), Sampling(), memory_from=8, deadline=PATIENT)
    await ask(session, [*prompt, *gained(reply, DraftTree.empty())])
    memories = [memory async for memory in reply.memory if isinstance(memory, Memory)]
    assert [memory.start + memory.count for memory in memories] == [200, *(one.start for one in memories[:-1])]
    assert memories[-1].start == 8 and reply.traffic.down > sum(len(memory.data) for memory in memories)


async def test_the_round_trip_excludes_the_servers_own_time(client: VerifierClient, target: Engine) -> None:
    hook, begun = target.model.register_forward_pre_hook(lambda *_: time.sleep(0.2)), time.monotonic()
    try:
        reply = await ask(client.session(), PROMPT)
    finally:
        hook.remove()
    assert reply.verdict.server_seconds >= 0.2 and 0 <= reply.rtt_seconds <= time.monotonic() - begun - 0.2


async def test_a_path_in_front_is_kept_and_token_and_session_are_headers(target: Engine, card: Card) -> None:
    made, seen = create_app(target, card, ServeOptions(tokens=Tokens.one(TOKEN))), []

    async def app(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        seen.append((scope["path"], dict(scope["headers"])[b"x-session-id"].decode()))
        await made({**scope, "path": scope["path"].removeprefix("/team")}, receive, send)

    transport = httpx.ASGITransport(app)
    async with VerifierClient("http://127.0.0.1/team/", f" {TOKEN}\n", transport=transport) as client:
        session = client.session()
        await ask(session, PROMPT)
        assert seen == [("/team/v1/rounds", session.id)]
        assert len(session.id) >= 22 and session.id != client.session().id, "nobody can guess it"


async def test_a_closed_session_is_forgotten(client: VerifierClient, plain: httpx.AsyncClient) -> None:
    session = client.session()
    await ask(session, PROMPT)
    await session.close(PATIENT)
    assert await counter(plain, "sessions") == 0
    await session.close(PATIENT)  # It is gone already, which is what was wanted.
    assert (await ask(session, PROMPT)).exchanges == 1


operations: st.SearchStrategy[tuple[str, list[int]]] = st.one_of(
    st.tuples(st.just("draft"), st.lists(st.integers(0, 1), max_size=5)),
    st.tuples(st.just("edit"), st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4)),
    st.tuples(st.just("forget"), st.just([])),
    st.tuples(st.just("diverge"), st.lists(st.integers(0, VOCABULARY - 1), max_size=4)),
)


@settings(max_examples=20, deadline=None)
@given(st.lists(operations, max_size=8), st.randoms(use_true_random=False))
def test_whatever_happens_to_either_side_every_round_is_right(
    target: Engine, card: Card, script: list[tuple[str, list[int]]], rng: random.Random
) -> None:
    """Edits on the device, lost and diverged sessions on the server: always the right answer, in two exchanges."""

    async def play() -> None:
        app, tokens = create_app(target, msgspec.structs.replace(card, stop_tokens=())), list(PROMPT)
        transport = httpx.ASGITransport(app)
        async with VerifierClient("http://127.0.0.1", transport=transport) as client, connected(app) as plain:
            session = client.session()
            for kind, values in script:
                tree = DraftTree.empty()
                if kind == "draft":
                    likely = generated(target.model, tokens, len(values)) if values else []
                    tree = DraftTree.chain([(token + wrong) % VOCABULARY for token, wrong in zip(likely, values)])
                elif kind == "edit":
                    tokens[rng.randint(1, len(tokens)) :] = values
                else:
                    await plain.delete(f"/v1/sessions/{session.id}")
                if kind == "diverge":
                    held = [*tokens[: rng.randint(1, len(tokens))], *values]
                    await plain.post("/v1/rounds", content=message(0, [], held, session=session.id))
                reply = await ask(session, tokens, tree)
                right = generated(target.model, tokens, len(tree) + 1)
                kept = next((at for at, token in enumerate(tree.tokens) if token != right[at]), len(tree))
                assert gained(reply, tree) == right[: kept + 1] and reply.exchanges <= 2
                tokens += right[: kept + 1]

    asyncio.run(play())


async def test_a_reply_cut_anywhere_before_the_verdict_is_fetched_again(
    client: VerifierClient, plain: httpx.AsyncClient
) -> None:
    """The device sends the same round number again, the server repeats its reply, and the target runs once."""
    whole = await ask(client.session(), PROMPT)
    for cut in (0, 1, 20, whole.traffic.down // 2, whole.traffic.down - 30):
        async with cutting_relay(plain.base_url.port, [cut]) as near, VerifierClient(f"http://127.0.0.1:{near}") as far:
            reply = await ask(far.session(), PROMPT)
        assert (reply.verdict.bonus, reply.exchanges) == (whole.verdict.bonus, 2)
    assert await counter(plain, "rounds_total") == 6


async def test_a_refused_round_does_not_spoil_the_next(
    client: VerifierClient, plain: httpx.AsyncClient, target: Engine
) -> None:
    session, tokens = client.session(), [*PROMPT, 8]
    await ask(session, PROMPT)
    await plain.post("/v1/rounds", content=message(3, [], PROMPT, session=session.id))
    with pytest.raises(Refused, match="round 2"):
        await ask(session, tokens)
    with pytest.raises(LinkDown):
        await ask(session, tokens, deadline=0.0)  # Takes number 3 without sending it.
    assert (await ask(session, tokens)).verdict.bonus == generated(target.model, tokens, 1)[0]
