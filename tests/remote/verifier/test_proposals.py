"""`POST /v1/proposals`: what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from drafter.whole_model import Growth, ModelAway
from models.engines.engine import Engine
from remote.proposals import Proposer
from remote.protocol import Card, Error, Propose, Proposed, decode, encode, pack_tokens
from remote.verifier.holders import Tokens
from remote.verifier.http import create_app
from remote.verifier.options import ServeOptions
from remote.verifier.refusals import Dropped, Superseded
from remote.verifier.sessions.proposals import propose
from remote.verifier.sessions.turns import alone
from tests.remote.verifier.conftest import LIMITS
from tests.remote.verifier.test_http import PATIENT, TOKEN, Gate, connected, counter, message, running
from tests.remote.verifier.test_sessions import LONG, table
from tests.remote.verifier.tiny import VOCABULARY

PROMPT = [5, 9, 2, 30, 7]
TOP = 4


def nodes(tokens: list[int], parents: list[int]) -> dict[str, bytes]:
    return {"tokens": pack_tokens(tokens), "parents": np.array(parents, "<i2").tobytes()}


async def ask(client: httpx.AsyncClient, **fields: object) -> httpx.Response:
    message = {"session": "s", "base": 0, "top": TOP, "vocabulary": VOCABULARY} | fields
    return await client.post("/v1/proposals", content=encode(Propose(**message)))  # type: ignore[arg-type]


async def proposed(client: httpx.AsyncClient, rows: int, **fields: object) -> np.ndarray:
    """The likeliest token of each row."""
    answer = await ask(client, **fields)
    assert answer.status_code == 200, answer.content
    log_probs, ids = decode(answer.content, Proposed).unpack(rows, TOP, VOCABULARY)
    assert (np.diff(log_probs) <= 0).all() and (log_probs <= 0).all()
    return ids[:, 0]


REFUSED: dict[str, tuple[int, dict[str, object]]] = {
    "tokens that it does not hold": (409, {"base": 6, **nodes([1], [-1])}),
    "nodes that it does not hold": (409, {"base": 5, "since": 3, **nodes([1], [-1])}),
    "a path off the tree": (409, {"base": 5, "path": np.array([2], "<i2").tobytes()}),
    "a path before the root": (409, {"base": 5, "path": np.array([-1], "<i2").tobytes()}),
    "a path that leaves out a parent": (400, {"base": 5, "path": np.array([1], "<i2").tobytes()}),
    "a path that goes round": (400, {"base": 5, "path": np.array([0, 0], "<i2").tobytes()}),
    "a path of tokens that are dropped": (409, {"base": 3, "path": np.array([0], "<i2").tobytes()}),
    "new tokens before old nodes": (409, {"base": 5, "append": pack_tokens([4]), "since": 1}),
    "a token that the model lacks": (400, {"base": 5, "append": pack_tokens([VOCABULARY])}),
    "a node that the model lacks": (400, {"base": 5, **nodes([VOCABULARY], [-1])}),
    "a negative node": (400, {"base": 5, "tokens": b"\xff" * 4, "parents": b"\xff" * 2}),
    "a node before its parent": (400, {"base": 5, **nodes([1, 2], [1, -1])}),
    "two siblings alike": (400, {"base": 5, **nodes([1, 1], [-1, -1])}),
    "nodes without parents": (400, {"base": 5, "tokens": pack_tokens([1])}),
    "half a token": (400, {"base": 5, "append": b"\0"}),
    "nothing to go on from": (400, {"base": 0}),
    "too many nodes": (422, {"base": 5, **nodes(list(range(25)), [-1] * 25)}),
    "too many tokens": (422, {"base": 5, "append": pack_tokens([1] * LIMITS.max_tokens)}),
    "too long a list": (400, {"base": 5, "top": 65, **nodes([1], [-1])}),
}


async def test_what_is_refused_changes_nothing(client: httpx.AsyncClient) -> None:
    tokens, path = [*PROMPT, 7, 8, 9], np.array([0, 1], "<i2").tobytes()
    # What comes after the prompt and after each node, where everything is read at once.
    alone = [await proposed(client, 1, session=f"at{end}", append=pack_tokens(tokens[:end])) for end in range(5, 9)]
    for name, (status, fields) in REFUSED.items():
        here = {"session": name.replace(" ", "-")}
        first = await proposed(client, 1, **here, append=pack_tokens(PROMPT))
        before = await proposed(client, 2, **here, base=5, **nodes([7, 8], [-1, 0]))
        answer = await ask(client, **here, **fields)
        assert answer.status_code == status, (name, answer.content)
        assert status == 409 or decode(answer.content, Error).message, name
        third = await proposed(client, 1, **here, base=5, since=2, **nodes([9], [1]))
        again = await proposed(client, 1, **here, base=5, path=path, append=pack_tokens([9]))
        assert [*first, *before, *third] == [one for (one,) in alone] and again == third, name


async def test_they_do_not_touch_the_sessions_of_rounds(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/rounds", content=message(1, [], PROMPT, session="s"))).status_code == 200
    assert (await ask(client, base=len(PROMPT), append=pack_tokens([4]))).status_code == 409
    await proposed(client, 1, append=pack_tokens(PROMPT))
    assert (await client.post("/v1/rounds", content=message(2, PROMPT, [4], session="s"))).status_code == 200


async def test_they_are_counted_against_the_limit_of_tokens(target: Engine, card: Card) -> None:
    options = ServeOptions(tokens=Tokens([("anna", TOKEN)]), tokens_per_minute=len(PROMPT) + 2)
    async with connected(create_app(target, card, options)) as client:
        client.headers["authorization"] = f"Bearer {TOKEN}"
        await proposed(client, 3, append=pack_tokens(PROMPT), **nodes([7, 8], [-1, 0]))
        refused = await ask(client, session="another", append=pack_tokens(PROMPT))
        assert refused.status_code == 429, refused.content


def wanted(append: list[int]) -> Propose:
    return Propose(session="s", base=0, top=TOP, vocabulary=VOCABULARY, append=pack_tokens(append))


@pytest.fixture
def proposer(url: str) -> Iterator[Proposer]:
    with contextlib.closing(Proposer(url, None)) as made:
        yield made


def test_one_whose_session_is_dropped_while_it_reads_ends_and_leaves_no_rows(target: Engine) -> None:
    sessions = table(target)
    first = alone(target, propose(sessions, wanted(LONG)))
    assert next(first) is None
    session = sessions.table.get("s")
    assert session is not None and sessions.drop("s")
    with pytest.raises(Dropped):
        next(first)
    assert session.context.capacity == 0 and not session.running


def test_a_newer_one_takes_the_place_of_one_that_reads(target: Engine) -> None:
    sessions = table(target)
    first = alone(target, propose(sessions, wanted(LONG)))
    assert next(first) is None
    other = [7, *LONG[1:]]
    (newer,) = filter(None, alone(target, propose(sessions, wanted(other))))
    with pytest.raises(Superseded):
        next(first)
    sessions.drop("s")
    (afresh,) = filter(None, alone(target, propose(sessions, wanted(other))))
    assert newer == afresh


async def test_several_threads_ask_over_one_connection(proposer: Proposer) -> None:
    def ask_often(first: int) -> list[int]:
        asks = proposer.begin()
        return [int(asks(Growth(at, (), [first + at]), VOCABULARY)[1][0, 0]) for at in range(8)]

    firsts = range(0, 32, 8)
    together = await asyncio.gather(*(asyncio.to_thread(ask_often, first) for first in firsts))
    assert together == [ask_often(first) for first in firsts]


async def test_a_connection_that_a_pause_has_closed_costs_nothing(target: Engine, card: Card) -> None:
    with running(create_app(target, card), timeout_keep_alive=0) as url:
        proposer = Proposer(url, None)

        def ask_slowly() -> None:
            asks = proposer.begin()
            for at, token in enumerate(PROMPT):
                asks(Growth(at, (), [token]), VOCABULARY)
                assert proposer._connection.sock.recv(1) == b"", "the server closes it"

        await asyncio.to_thread(ask_slowly)
        proposer.close()


async def test_a_call_in_progress_fails_when_the_connection_is_closed(proposer: Proposer, target: Engine) -> None:
    async with Gate(target.model) as held:
        begun = await asyncio.to_thread(proposer.begin)
        call = asyncio.create_task(asyncio.to_thread(begun, Growth(0, (), PROMPT), VOCABULARY))
        await held.entered()
        proposer.close()
        with pytest.raises(ModelAway):
            await asyncio.wait_for(call, PATIENT)


async def test_a_conversation_that_nobody_continues_is_dropped_when_another_begins(
    proposer: Proposer, url: str
) -> None:
    for _ in range(4):
        await asyncio.to_thread(lambda: proposer.begin()(Growth(0, (), PROMPT), VOCABULARY))
    async with httpx.AsyncClient(base_url=url) as client:
        assert await counter(client, "sessions") == 1
