"""Questions that were asked without a line are answered by the target when it is back: each once, and in order."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

from app.config import Settings
from app.events import Judged, Verified
from app.reply.assistant import Assistant
from app.reply.judgement import stored_judgement
from storage import Store
from tests.app.reply.conftest import Connect
from tests.support.conversing import Heard, ask, hear, until, until_mode, working_off
from tests.support.fault_proxy import FaultProxy
from tests.support.serving import VerifierProcess


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


async def test_it_waits_for_a_reply_that_runs_and_comes_after_it(opened: Assistant) -> None:
    conversation = opened.store.conversations.create("busy").id
    await until_mode(opened, "edge")
    async with working_off(opened) as done:
        async with aclosing(opened.reply(conversation, "list files")) as events:
            async for event in events:
                if isinstance(event, Verified) and not opened.store.queue.all():
                    opened.outbox.enqueue(conversation, "and hidden ones")
                assert done == []
        await until(lambda: len(done) == 1)
    assert shown(opened.store, conversation) == ANSWERED * 2
    assert [one.text for one in opened.store.branches.thread(conversation)[::2]] == ["list files", "and hidden ones"]


async def test_what_was_taken_back_or_sent_by_another_program_is_not_sent(opened: Assistant, database: Path) -> None:
    conversation = opened.store.conversations.create("kept").id
    back, taken = (opened.outbox.enqueue(conversation, text) for text in ("one", "two"))
    opened.outbox.unqueue(back.id)
    with Store.open(database) as other:
        assert other.queue.take(taken.id) is not None
        assert (await hear(opened.send(back))).events == (await hear(opened.send(taken))).events == []


async def test_the_line_lost_on_the_way_leaves_it_to_be_verified(verifier: VerifierProcess, connect: Connect) -> None:
    async with (
        FaultProxy([verifier.port]) as proxy,
        connect(proxy.url, settings=Settings(max_tokens=60, pace="fixed", nodes=1)) as opened,
    ):
        await until_mode(opened, "edge")
        conversation = opened.store.conversations.create("cut").id
        queued = opened.outbox.enqueue(conversation, "list files")

        async def cut(heard: Heard) -> None:
            if isinstance(heard.last, Verified) and heard.modes == ["edge"]:
                await proxy.refuse()

        heard = await hear(opened.send(queued), cut)
        assert heard.modes == ["edge", "offline"]
        assert 0 < heard.done.provenance.count(True) < 60
        (waiting,) = opened.outbox.queued()
        assert (waiting.id, waiting.message_id) == (queued.id, heard.message)
        async with working_off(opened) as done:
            await proxy.heal()
            await until(lambda: len(done) == 1)
        assert opened.outbox.queued() == []
        assert shown(opened.store, conversation) == ANSWERED


async def test_what_can_never_be_answered_leaves_the_queue(opened: Assistant) -> None:
    conversation = opened.store.conversations.create("long").id
    heard = await hear(opened.send(opened.outbox.enqueue(conversation, "x" * 3000)))
    assert heard.failed is not None and heard.failed.code == "too_long"
    assert opened.outbox.queued() == []
    assert shown(opened.store, conversation) == [("user", "done", False), ("assistant", "failed", False)]


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


async def test_a_server_that_checks_nothing_answers_all_that_waits(verifier: VerifierProcess, connect: Connect) -> None:
    async with connect(None, settings=Settings(mode="offline", max_tokens=40)) as opened:
        conversation = opened.store.conversations.create("kept").id
        alone = await ask(opened, "list files", conversation)
        opened.outbox.enqueue_verification(alone.message)
        opened.outbox.enqueue(conversation, "and hidden ones")
    async with connect(verifier.url + "/v1") as opened:
        async with working_off(opened) as done:
            await until(lambda: len(done) == 2)
        assert opened.outbox.queued() == []
        thread = opened.store.branches.thread(conversation)
        assert [message.text for message in thread[::2]] == ["list files", "and hidden ones"]
        assert thread[1].verifies == alone.message and thread[1].status == "done"
        judged = stored_judgement(thread[1], opened.store.messages.get(alone.message))
        assert judged is not None and judged.again is not None and judged.again.model == "target"
