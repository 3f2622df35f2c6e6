"""Several answers at once, and questions that wait for a line or another answer: each is asked once, and in order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.config import Settings
from app.drafting.prompt import conversation_tokens
from app.events import Judged, Started, Verified
from app.reply.assistant import Assistant
from drafter.runtime import Drafter
from remote import VerifierClient
from remote.protocol import Sampling
from storage import Store
from tests.app.reply.conftest import Connect
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import Heard, ask, assistant, connection, hear, until, until_connected, working_off
from tests.support.fault_proxy import FaultProxy
from tests.support.nothing_lost import target_alone, violations
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

QUESTIONS = ("list files", "show disk usage", "unpack a tarball")


async def test_three_answers_whose_server_is_killed_lose_nothing(
    tiny_pair: Path, drafter: Drafter, connect: Connect
) -> None:
    with VerifierProcess(tiny_pair) as verifier:
        async with connect(verifier.url, met=True, settings=Settings(max_tokens=48, pace="fixed", nodes=1)) as opened:
            begun, restarts = set[str](), list[asyncio.Task[object]]()

            def strike(heard: Heard) -> None:
                if heard.of(Verified) and len(begun) < len(QUESTIONS):
                    begun.add(heard.message)
                    if len(begun) == len(QUESTIONS):
                        verifier.kill()
                        restarts.append(asyncio.create_task(asyncio.to_thread(verifier.start)))

            conversations = [opened.store.conversations.create(question).id for question in QUESTIONS]
            asked = (ask(opened, *each, strike) for each in zip(QUESTIONS, conversations))
            heard = await asyncio.gather(*asked)
            await restarts[0]
            async with VerifierClient(verifier.url) as client:
                for one, conversation in zip(heard, conversations):
                    question, answer = opened.store.branches.thread(conversation)
                    prompt = conversation_tokens(drafter.text, [question])
                    own = await target_alone(client, prompt, Sampling(), 48, drafter.text.stop_tokens)
                    assert violations(one.events, answer, own, drafter.text) == []
            assert not opened.replying and not opened.backend.routing.running


async def test_what_a_busy_server_has_no_room_for_waits_and_is_asked_once(opened: Assistant) -> None:
    connection(opened).source.parallel = 1
    first, second, third = (opened.store.conversations.create(question).id for question in QUESTIONS)
    others = list[asyncio.Task[Heard]]()

    def queue(heard: Heard) -> None:
        assert len(opened.backend.routing.running) <= 1
        if isinstance(heard.last, Verified) and not others:
            assert not any(map(opened.has_room, (first, second, None)))
            others.append(asyncio.create_task(ask(opened, "at once", third)))
            opened.outbox.enqueue(first, "and hidden ones", follows=True)
            opened.outbox.enqueue(second, QUESTIONS[1], follows=True)

    async with working_off(opened) as done:
        await ask(opened, QUESTIONS[0], first, queue)
        waited = await others[0]
        await until(lambda: len(done) == 2)
    assert waited.why[0] == "waits until another answer has ended" and waited.done
    told = {one: [m.text for m in opened.store.branches.thread(one)[::2]] for one in (first, second, third)}
    assert told == {first: [QUESTIONS[0], "and hidden ones"], second: [QUESTIONS[1]], third: ["at once"]}
    assert opened.outbox.queued() == [] and opened.has_room(None)


async def test_a_question_that_follows_an_answer_needs_no_server_and_one_that_is_stopped_no_other(
    connect: Connect,
) -> None:
    async with connect(None, settings=Settings(mode="offline", max_tokens=24)) as opened:
        conversation, other = (opened.store.conversations.create(name).id for name in ("one", "two"))
        checked_later = await ask(opened, "show disk usage", conversation)
        opened.outbox.enqueue_verification(checked_later.message)
        waiting = list[asyncio.Task[Heard]]()

        def queue(heard: Heard) -> None:
            if not waiting:
                waiting.append(asyncio.create_task(ask(opened, "elsewhere", other)))
                opened.outbox.enqueue(conversation, "and hidden ones", follows=True)
                opened.outbox.enqueue(conversation, "for the server")
            elif len(waiting) == 1 and opened.store.branches.thread(other):
                opened.stop(other)

        async with working_off(opened) as done:
            heard = await ask(opened, "list files", conversation, queue)
            await until(lambda: len(done) == 1)
        stopped = await waiting[0]
        assert not heard.done.stopped and stopped.done.stopped
        assert stopped.why[0] == "waits until another answer has ended" != stopped.why[-1], "it waits no more"
        assert not done[0].done.stopped and not any(done[0].done.provenance)
        assert [one.text for one in opened.outbox.queued()] == ["show disk usage", "for the server"], (
            "and the answer is not checked"
        )


async def test_an_answer_begins_if_the_other_one_ended_while_nobody_read_that_it_waits(connect: Connect) -> None:
    async with connect(None, settings=Settings(mode="offline", max_tokens=24)) as opened:
        waiting = list[asyncio.Task[Heard]]()
        told, ended = asyncio.Event(), asyncio.Event()

        async def hold(heard: Heard) -> None:
            if heard.why[:1] == ["waits until another answer has ended"]:
                told.set()
                await ended.wait()

        async def queue(heard: Heard) -> None:
            if not waiting:
                waiting.append(asyncio.create_task(ask(opened, "elsewhere", None, hold)))
                await told.wait()

        await ask(opened, "list files", None, queue)
        ended.set()
        assert (await asyncio.wait_for(waiting[0], PATIENCE_SECONDS)).done


async def test_what_follows_a_question_that_has_to_wait_comes_after_it(
    verifier: VerifierProcess, connect: Connect
) -> None:
    async with FaultProxy([verifier.port]) as proxy:
        await proxy.refuse()
        async with connect(proxy.url, settings=Settings(offline="queue", max_tokens=12)) as opened:
            conversation = opened.store.conversations.create("one").id

            def queue(heard: Heard) -> None:
                if isinstance(heard.last, Started):
                    opened.outbox.enqueue(conversation, "and hidden ones", follows=True)

            async with working_off(opened) as done:
                heard = await ask(opened, "list files", conversation, queue)
                assert heard.failed is not None and heard.failed.queued
                assert [one.text for one in opened.outbox.queued()] == ["list files", "and hidden ones"]
                await proxy.heal()
                await until(lambda: len(done) == 2)
            told = opened.store.branches.thread(conversation)
            assert [message.text for message in told[::2]] == ["list files", "and hidden ones"]
            assert opened.outbox.queued() == []


# ---- what was asked without a line is answered by the target when it is back -----------------------------------------


def shown(store: Store, conversation: str) -> list[tuple[str, str, bool]]:
    """Role, status and whether all of it is verified, for each message that is shown."""
    thread = store.branches.thread(conversation)
    return [(message.role, message.status, message.tokens != () and all(message.provenance)) for message in thread]


ANSWERED = [("user", "done", False), ("assistant", "done", True)]


async def test_what_is_queued_is_sent_in_order_once_the_line_works(verifier: VerifierProcess, connect: Connect) -> None:
    async with FaultProxy([verifier.port]) as proxy:
        await proxy.refuse()
        async with connect(proxy.url, settings=Settings(offline="drafter", max_tokens=40)) as opened:
            assert (await opened.settled()).mode == "offline"
            first, second = (opened.store.conversations.create(title).id for title in ("first", "second"))
            alone = await ask(opened, "list files", first)
            opened.outbox.enqueue_verification(alone.message)
            opened.outbox.enqueue(first, "and hidden ones")
            opened.outbox.enqueue(second, "show disk usage")
            async with working_off(opened) as done:
                await proxy.heal()
                await until(lambda: len(done) == 3)
            assert opened.outbox.queued() == []
            assert shown(opened.store, second) == ANSWERED and shown(opened.store, first) == ANSWERED * 2
            assert [len(heard.of(Judged)) for heard in done] == [1, 0, 0]


async def test_what_was_taken_back_or_sent_by_another_program_is_not_sent(opened: Assistant, database: Path) -> None:
    conversation = opened.store.conversations.create("kept").id
    back, taken = (opened.outbox.enqueue(conversation, text) for text in ("one", "two"))
    opened.outbox.unqueue(back.id)
    with Store.open(database) as other:
        assert other.queue.take(taken.id) is not None
        assert (await hear(opened.send(back))).events == (await hear(opened.send(taken))).events == []


async def test_what_fails_is_not_tried_again_with_the_same_verifier(opened: Assistant) -> None:
    conversation = opened.store.conversations.create("stopped").id
    queued = opened.outbox.enqueue(conversation, "list files")
    await hear(opened.send(queued), lambda heard: isinstance(heard.last, Verified) and opened.stop())
    (waiting,) = opened.outbox.queued()
    assert waiting.message_id is not None, "cut off, not answered"
    async with working_off(opened) as done:
        opened.outbox.stir()
        other = opened.outbox.enqueue(conversation, "another")
        for _ in range(20):
            await asyncio.sleep(0)
        assert done == [] and not opened.replying
    opened.outbox.unqueue(waiting.id)
    async with working_off(opened) as done:
        await until(lambda: len(done) == 1)
    assert other not in opened.outbox.queued()


@pytest.mark.parametrize(("ends", "then"), [(True, ""), (False, ""), (True, "again"), (True, "queue")])
async def test_what_is_below_an_answer_of_another_window_waits_until_that_ends(
    ends: bool, then: str, drafter: Drafter, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.reply.assistant.LOOK_SECONDS", 0.05)
    server, waits = ChatServer([Script(["more"])]), asyncio.Event()

    def wait(heard: Heard) -> None:
        if heard.why[-1:] == ["waits until another answer has ended"]:
            waits.set()

    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}/v1", settings=Settings()) as opened,
    ):
        conversation = opened.store.conversations.create("shared").id
        await until_connected(opened)  # What is queued is sent only to a server that is there.
        with Store.open(database) as other:
            pending = other.messages.ask(conversation, "list files", parent_id=None)
            other.messages.checkpoint(pending.id, (), (), "half")
            asked = asyncio.create_task(ask(opened, "and hidden ones", conversation, wait))
            await asyncio.wait_for(waits.wait(), PATIENCE_SECONDS)
            if then:
                opened.stop()
                waits.clear()
                message = (await asked).message
                queued = opened.outbox.enqueue(conversation, "and hidden ones") if then == "queue" else None
                asked = asyncio.create_task(
                    hear(opened.regenerate(message) if queued is None else opened.send(queued), wait)
                )
                await asyncio.wait_for(waits.wait(), PATIENCE_SECONDS)
            if ends:
                other.messages.finish(pending.id, (), (), "half and half", "done", {"reason": "end"})
        assert (await asked).text == "more"  # Otherwise that window has died.
        told = [message["content"] for message in server.asked[0]["messages"]]
        assert told[:2] == ["list files", "half and half" if ends else "half"] and told[-1] == "and hidden ones"
