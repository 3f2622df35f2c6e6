"""More users than sessions: running ones are not cut, turns are fair, and others are told to come again."""

from __future__ import annotations

import asyncio
import random
import threading

import anyio
import httpx
import pytest
from starlette.applications import Starlette

from models.engines.engine import Engine
from models.tree import DraftTree
from remote import Refused, VerifierClient
from remote.protocol import Card, Sampling, encode
from remote.verifier.completions.line import Line
from remote.verifier.http import create_app
from remote.verifier.options import ServeOptions
from remote.verifier.refusals import Overloaded
from remote.verifier.sessions.turns import Turns
from tests.remote.verifier.test_hosted import ask, tokens_of
from tests.remote.verifier.test_http import PATIENT, PROMPT, connected, counter, frames_of, message
from tests.remote.verifier.tiny import generated


async def device(app: Starlette, rounds: int, text: list[int]) -> None:
    """A device that asks round by round, and again where there is no room."""
    async with VerifierClient("http://127.0.0.1", transport=httpx.ASGITransport(app)) as client:
        session, tokens, tree = client.session(), list(PROMPT), DraftTree.empty()
        while len(tokens) < len(PROMPT) + rounds:
            try:
                reply = await session.round(tokens, tree, Sampling(), memory_from=None, deadline=PATIENT)
            except Refused as refused:
                assert refused.retry
                await asyncio.sleep(0.01)
            else:
                tokens.append(reply.verdict.bonus)
                await reply.aclose()
    assert tokens == PROMPT + text[:rounds]


async def test_chats_are_finished_beside_more_devices_than_there_are_sessions(target: Engine, card: Card) -> None:
    text = generated(target.model, PROMPT, 100)
    app = create_app(target, card, ServeOptions(max_sessions=32))
    async with connected(app) as client:

        async def chat(name: str) -> list[int]:
            reply = await client.post("/v1/streams", content=encode(ask([], PROMPT, most=100, session=name)))
            assert reply.status_code == 200
            return tokens_of(frames_of(reply.content))

        chats, _ = await asyncio.gather(
            asyncio.gather(*(chat(f"chat{index}") for index in range(8))),
            asyncio.gather(*(device(app, 6, text) for _ in range(44))),
        )
        assert chats == [text] * 8
        # Half of all are served in company, whatever the machine does meanwhile: a cycle takes all who wait.
        assert 0 < 2 * await counter(client, "batches_total") < await counter(client, "forwards_total")
        assert await counter(client, "sessions") == 32 and await counter(client, "running_sessions") == 0


async def test_a_round_waits_for_a_chunk_of_a_long_prompt_and_not_for_all_of_it(
    target: Engine, card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "chunk", 16)
    order: list[int] = []
    hook = target.model.register_forward_pre_hook(
        lambda module, given, options: order.append(options["input_ids"].shape[1]), with_kwargs=True
    )
    long = [2 + token % 40 for token in range(280)]
    try:
        async with connected(create_app(target, card)) as client:
            slow = asyncio.create_task(client.post("/v1/rounds", content=message(1, [], long, session="long")))
            while not order:
                await asyncio.sleep(0)
            before = len(order)
            quick = await client.post("/v1/rounds", content=message(1, [], PROMPT, session="quick"))
            after = len(order)
            assert quick.status_code == (await slow).status_code == 200
    finally:
        hook.remove()
    assert after - before <= 4 < 280 // 16
    assert frames_of(slow.result().content)[0].bonus == generated(target.model, long, 1)[0]


async def test_turns_go_round_the_sessions_however_many_calls_each_has(target: Engine) -> None:
    turns, served = Turns(8, target), list[str]()
    go = threading.Event()

    async def call(name: str) -> None:
        await turns.take(name, lambda: served.append(name))

    async with anyio.create_task_group() as group:
        group.start_soon(turns.take, "first", lambda: go.wait(PATIENT))
        await anyio.wait_all_tasks_blocked()
        for name in ("greedy", "greedy", "greedy", "greedy", "a", "b"):
            group.start_soon(call, name)
            await anyio.wait_all_tasks_blocked()
        leaves = asyncio.create_task(call("left"))
        await anyio.wait_all_tasks_blocked()
        leaves.cancel()
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert served == ["greedy", "a", "b", "greedy", "greedy", "greedy"]
    await call("later")
    assert served[-1] == "later"


async def test_turns_are_passed_on_whoever_gives_up_and_when(target: Engine) -> None:
    turns, rng = Turns(8, target), random.Random(3)
    for _ in range(200):
        async with anyio.create_task_group() as group:
            for index in range(6):

                async def call(name: str) -> None:
                    with anyio.move_on_after(rng.choice([0, 0.0001, 10])):
                        await turns.take(name, lambda: None)

                group.start_soon(call, str(index % 3))
    with anyio.fail_after(PATIENT):
        assert await turns.take("last", lambda: 7) == 7


# ---- chat completions, which wait for a place ------------------------------------------------------------------------


async def stays() -> bool:
    return False


async def test_a_place_is_given_back_by_an_answer_that_fails() -> None:
    line = Line(1, 5)
    with pytest.raises(ZeroDivisionError):
        async with line.place(stays):
            1 / 0  # noqa: B018
    assert line.running == 0


async def test_who_would_wait_too_long_is_told_at_once() -> None:
    line = Line(2, 100, max_wait=3.0)
    line._seconds = 3.0
    async with line.place(stays), line.place(stays), anyio.create_task_group() as group:
        assert not line.full
        while not line.full and line.waiting < 100:
            group.start_soon(line._enter, stays)
            await anyio.wait_all_tasks_blocked()
        assert line.waiting == 2, "the next one would wait for 4.5 s"
        line._seconds = 2.0
        assert not line.full
        line._seconds = 30.0
        assert line.full
        with pytest.raises(Overloaded, match="Try again in 45 s"):
            await line._enter(stays)
        group.cancel_scope.cancel()


async def test_who_finds_no_room_goes_back_to_where_it_stood_in_line() -> None:
    line, order, room = Line(3, 5), list[int](), [True]

    async def answer(number: int) -> None:
        async with line.place(stays) as place:
            await anyio.lowlevel.checkpoint()
            while not room:
                await line.make_way(place, stays)
            taken = room.pop()
            line.began()
            order.append(number)
            await anyio.wait_all_tasks_blocked()
            assert line.waiting == 5 - number and line.full == (number == 0)
            room.append(taken)

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(answer, number)
    assert order == list(range(6)) and (line.running, line.waiting) == (0, 0)
