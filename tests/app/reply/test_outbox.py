"""Questions that were asked without a line are answered by the target when it is back: each once, and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from app.config import Settings
from app.events import Judged, Verified
from app.reply.assistant import Assistant
from app.reply.judgement import stored_judgement
from drafter.runtime import Drafter
from storage import Queued, Store
from tests.support.conversing import PATIENCE_SECONDS, Heard, ask, assistant, until_mode
from tests.support.serving import VerifierProcess

OFFLINE = Settings(mode="offline", max_tokens=40)
NOBODY = "http://127.0.0.1:9"


async def send(opened: Assistant, queued: Queued) -> Heard:
    heard = Heard()
    async with aclosing(opened.send(queued)) as events:
        async for event in events:
            heard.apply(event)
    return heard


@asynccontextmanager
async def working_off(opened: Assistant) -> AsyncIterator[list[Heard]]:
    """Sends what is due until this ends, as the screen does."""
    done: list[Heard] = []

    async def work() -> None:
        async for queued in opened.due():
            done.append(await send(opened, queued))

    task = asyncio.create_task(work())
    try:
        yield done
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(predicate: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not predicate():
            await asyncio.sleep(0.02)


def shown(store: Store, conversation: str) -> list[tuple[str, str, bool]]:
    """Role, status and whether all of it is verified, for each message that is shown."""
    thread = store.branches.thread(conversation)
    return [(message.role, message.status, message.tokens != () and all(message.provenance)) for message in thread]


ANSWERED = [("user", "done", False), ("assistant", "done", True)]


async def test_what_is_queued_is_sent_in_order_when_a_verifier_starts(
    tiny_pair: Path, drafter: Drafter, database: Path
) -> None:
    with VerifierProcess(tiny_pair) as verifier:
        verifier.kill()
        settings = Settings(offline="drafter", max_tokens=40)
        async with assistant(drafter, database, verifier.url, settings=settings) as opened:
            assert (await opened.settled()).mode == "offline"
            first = opened.store.conversations.create("first").id
            alone = await ask(opened, "list files", first)
            opened.outbox.enqueue_verification(alone.message)
            opened.outbox.enqueue(first, "and hidden ones")
            second = opened.store.conversations.create("second").id
            opened.outbox.enqueue(second, "show disk usage")
            async with working_off(opened) as done:
                await asyncio.to_thread(verifier.start)
                await until(lambda: len(done) == 3)
            assert opened.outbox.queued() == []
            assert [message.text for message in opened.store.branches.thread(second)][:1] == ["show disk usage"]
            assert shown(opened.store, second) == ANSWERED
            assert shown(opened.store, first) == [("user", "done", False), ("assistant", "done", True), *ANSWERED]
            assert [any(isinstance(event, Judged) for event in heard.events) for heard in done] == [True, False, False]
        async with assistant(drafter, database.with_name("other.db"), verifier.url, draft=False) as opened:
            reference = await ask(opened, "show disk usage")
            assert reference.done is not None and done[2].done is not None
            assert done[2].done.token_ids == reference.done.token_ids


async def test_what_was_queued_before_is_sent_at_the_next_start(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    async with assistant(drafter, database, None, settings=OFFLINE) as opened:
        conversation = opened.store.conversations.create("kept").id
        opened.outbox.enqueue(conversation, "list files")
        async with working_off(opened) as done:
            await asyncio.sleep(0)
        assert done == [] and len(opened.outbox.queued()) == 1
    async with assistant(drafter, database, verifier.url) as opened:
        async with working_off(opened):
            await until(
                lambda: not opened.store.queue.all() and opened.store.branches.thread(conversation)[-1].status == "done"
            )
        assert shown(opened.store, conversation) == ANSWERED


async def test_it_waits_for_a_reply_that_runs_and_comes_after_it(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    async with assistant(drafter, database, verifier.url) as opened:
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
        assert [message.text for message in opened.store.branches.thread(conversation)][::2] == [
            "list files",
            "and hidden ones",
        ]


async def test_while_something_waits_the_verifier_is_looked_for_every_second(drafter: Drafter, database: Path) -> None:
    async with assistant(drafter, database, NOBODY) as opened:
        await opened.settled()
        connection = opened.backend.routing.shown
        assert connection is not None
        async with working_off(opened):
            await asyncio.sleep(0.05)
            assert connection._probes._waiting == 0
            queued = opened.outbox.enqueue(opened.store.conversations.create("kept").id, "list files")
            await until(lambda: connection._probes._waiting == 1)
            opened.outbox.unqueue(queued.id)
            opened.outbox.stir()
            await until(lambda: connection._probes._waiting == 0)


async def test_sent_without_a_verifier_it_stays_queued(drafter: Drafter, database: Path) -> None:
    async with assistant(drafter, database, NOBODY) as opened:
        await opened.settled()
        conversation = opened.store.conversations.create("kept").id
        queued = opened.outbox.enqueue(conversation, "list files")
        heard = await send(opened, queued)
        assert heard.failed is not None and heard.failed.code == "unavailable"
        assert opened.outbox.queued() == [queued] and opened.store.branches.thread(conversation) == []


async def test_what_was_taken_back_or_sent_by_another_program_is_not_sent(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    async with assistant(drafter, database, verifier.url) as opened:
        await until_mode(opened, "edge")
        conversation = opened.store.conversations.create("kept").id
        back, taken = (opened.outbox.enqueue(conversation, text) for text in ("one", "two"))
        opened.outbox.unqueue(back.id)
        with Store.open(database) as other:
            assert other.queue.take(taken.id) is not None
            assert (await send(opened, back)).events == (await send(opened, taken)).events == []


async def test_the_line_lost_on_the_way_leaves_it_to_be_verified(
    tiny_pair: Path, drafter: Drafter, database: Path
) -> None:
    with VerifierProcess(tiny_pair) as verifier:
        settings = Settings(max_tokens=200, pace="fixed", nodes=1)
        async with assistant(drafter, database, verifier.url, settings=settings) as opened:
            await until_mode(opened, "edge")
            conversation = opened.store.conversations.create("cut").id
            queued = opened.outbox.enqueue(conversation, "list files")
            heard = Heard()
            async with aclosing(opened.send(queued)) as events:
                async for event in events:
                    heard.apply(event)
                    if isinstance(event, Verified) and heard.modes == ["edge"]:
                        verifier.kill()
            assert heard.modes == ["edge", "offline"]
            assert heard.done is not None and 0 < heard.done.provenance.count(True) < 200
            (waiting,) = opened.outbox.queued()
            assert (waiting.id, waiting.message_id) == (queued.id, heard.message)
            async with working_off(opened) as done:
                await asyncio.to_thread(verifier.start)
                await until(lambda: len(done) == 1)
            assert opened.outbox.queued() == []
            assert shown(opened.store, conversation) == ANSWERED


async def test_what_can_never_be_answered_leaves_the_queue(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    async with assistant(drafter, database, verifier.url) as opened:
        await until_mode(opened, "edge")
        conversation = opened.store.conversations.create("long").id
        heard = await send(opened, opened.outbox.enqueue(conversation, "x" * 3000))
        assert heard.failed is not None and heard.failed.code == "too_long"
        assert opened.outbox.queued() == []
        assert shown(opened.store, conversation) == [("user", "done", False), ("assistant", "failed", False)]


async def test_what_fails_is_not_tried_again_with_the_same_verifier(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    async with assistant(drafter, database, verifier.url) as opened:
        await until_mode(opened, "edge")
        conversation = opened.store.conversations.create("stopped").id
        queued = opened.outbox.enqueue(conversation, "list files")
        async with aclosing(opened.send(queued)) as events:
            async for event in events:
                if isinstance(event, Verified):
                    opened.stop()
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


async def test_a_server_that_checks_no_drafts_answers_all_that_waits(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    async with assistant(drafter, database, None, settings=OFFLINE) as opened:
        conversation = opened.store.conversations.create("kept").id
        alone = await ask(opened, "list files", conversation)
        opened.outbox.enqueue_verification(alone.message)
        opened.outbox.enqueue(conversation, "and hidden ones")
    async with assistant(drafter, database, verifier.url + "/v1") as opened:
        async with working_off(opened) as done:
            await until(lambda: len(done) == 2)
        assert opened.outbox.queued() == []
        thread = opened.store.branches.thread(conversation)
        assert [message.text for message in thread[::2]] == ["list files", "and hidden ones"]
        assert thread[1].verifies == alone.message and thread[1].status == "done"
        judged = stored_judgement(thread[1], opened.store.messages.get(alone.message))
        assert judged is not None and judged.again is not None and judged.again.model == "target"
