"""More users than sessions: running ones are not cut, turns are fair, and others are told to come again."""

from __future__ import annotations

import asyncio
import random
import threading

import anyio
import httpx
import pytest

from models.engines.engine import Engine
from remote.protocol import Card, Error, Progress, Verdict, decode, encode
from remote.verifier.http import create_app
from remote.verifier.options import ServeOptions
from remote.verifier.sessions.turns import AHEAD, Turns
from remote.verifier.sessions.verification import Answer
from tests.remote.verifier.test_hosted import ask, tokens_of
from tests.remote.verifier.test_http import (
    PATIENT,
    PROMPT,
    Gate,
    connected,
    counter,
    frames_of,
    message,
    reached,
    until,
)
from tests.remote.verifier.tiny import generated


async def device(client: httpx.AsyncClient, name: str, rounds: int, text: list[int]) -> None:
    """A device that asks round by round, and sends all it has if its session was dropped meanwhile."""
    tokens, base = list(PROMPT), 0
    for number in range(1, rounds + 1):
        while True:
            body = message(number, tokens[:base], tokens[base:], session=name)
            reply = await client.post("/v1/rounds", content=body)
            if reply.status_code == 200:
                break
            assert reply.status_code in (409, 503)
            if reply.status_code == 503:
                assert decode(reply.content, Error).retry and reply.headers["retry-after"] == "1"
                await asyncio.sleep(0.01)
            base = 0
        verdict = frames_of(reply.content)[0]
        assert isinstance(verdict, Verdict) and verdict.bonus is not None
        tokens, base = [*tokens, verdict.bonus], len(tokens) + 1
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
            asyncio.gather(*(device(client, f"device{index}", 6, text) for index in range(44))),
        )
        assert chats == [text] * 8
        # Half of all are served in company, whatever the machine does meanwhile: a cycle takes all who wait.
        assert 0 < 2 * await counter(client, "batches_total") < await counter(client, "forwards_total")
        assert await counter(client, "sessions") == 32 and await counter(client, "running_sessions") == 0


async def test_a_full_verifier_says_so_and_cuts_nobody(target: Engine, card: Card) -> None:
    async with reached(create_app(target, card, ServeOptions(max_sessions=1))) as client, Gate(target.encoder) as held:
        first = message(1, [], PROMPT, memory_from=0)
        async with client.stream("POST", "/v1/rounds", content=first) as response:
            await held.entered()
            waiting = asyncio.create_task(client.post("/v1/rounds", content=message(1, [], PROMPT, session="other")))
            await until(client, "waiting_rounds", 1)
            held.open.set()
            body = await response.aread()
        assert len(frames_of(body)) == 2, "verdict and memory"
        refused = await waiting
        error = decode(refused.content, Error)
        assert (refused.status_code, error.code, error.retry) == (503, "busy", True)
        assert refused.headers["retry-after"] == "1"
        again = await client.post("/v1/rounds", content=message(1, [], PROMPT, session="other"))
        assert again.status_code == 200
        assert await counter(client, "refusals_total") == await counter(client, "evictions_total") == 1


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

        async def first() -> None:
            await turns.take("first", lambda: go.wait(PATIENT))

        group.start_soon(first)
        await anyio.wait_all_tasks_blocked()
        for name in ("greedy", "greedy", "greedy", "greedy", "a", "b"):
            group.start_soon(call, name)
            await anyio.wait_all_tasks_blocked()
        given_up = anyio.CancelScope()

        async def leaves() -> None:
            with given_up:
                await call("left")

        group.start_soon(leaves)
        await anyio.wait_all_tasks_blocked()
        given_up.cancel()
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert served == ["greedy", "a", "b", "greedy", "greedy", "greedy"]
    await call("later")
    assert served[-1] == "later"


async def test_the_engine_goes_on_while_a_frame_is_on_its_way(target: Engine) -> None:
    turns, begun = Turns(8, target), threading.Semaphore(0)

    def frames() -> Answer:
        for number in range(6):
            begun.release()
            yield Progress(tokens=b"", drafted=0, length=number, digest=b"", finished=False, server_seconds=0.0)

    async def gone() -> bool:
        return False

    answer = frames()
    first = await turns.first("one", answer, gone)
    rest = turns.rest("one", first, answer)
    assert (await anext(rest)).length == 0
    # Nobody asks for the second frame yet; it and the third are made, and no more.
    for _ in range(1 + AHEAD):
        assert begun.acquire(timeout=PATIENT)
    assert not begun.acquire(timeout=0.1)
    assert [frame.length async for frame in rest] == [1, 2, 3, 4, 5]
    await turns.close("one", answer)


async def test_the_engines_thread_ends_when_nobody_wants_it_and_comes_back(
    target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns(8, target)
    monkeypatch.setattr("remote.verifier.sessions.turns.LINGERS", PATIENT)
    first = await turns.take("one", threading.current_thread)
    assert await turns.take("one", threading.current_thread) is first
    monkeypatch.setattr("remote.verifier.sessions.turns.LINGERS", 0.01)
    last = await turns.take("one", threading.current_thread)
    last.join(PATIENT)
    assert not last.is_alive()
    assert (await turns.take("one", threading.current_thread)).is_alive()


async def test_where_no_thread_can_be_started_it_is_told_and_tried_again(
    target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, called = Turns(8, target), list[int]()

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(RuntimeError, match="start new thread"):
        await turns.take("one", lambda: called.append(1))
    monkeypatch.undo()
    assert turns.stuck_seconds == 0
    with anyio.fail_after(PATIENT):
        assert await turns.take("two", lambda: 7) == 7
    assert not called


async def test_what_fails_outside_of_an_answer_is_told_to_all_who_wait(
    target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns(8, target)
    monkeypatch.setattr(turns, "_cycle", lambda turns: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await turns.take("one", lambda: None)
    monkeypatch.undo()
    assert await turns.take("one", lambda: 7) == 7


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
