"""Files of a question through the assistant: what a server receives each time, and what readers of text say."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from app.config import Settings
from app.events import Event
from app.remotes.source import AddressSource
from drafter.runtime import Drafter
from storage import Attachment, Store
from tests.app.attachments.conftest import PNG
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import Heard, assistant, until_connected
from tests.support.serving import VerifierProcess

NOTES = Attachment("notes.txt", "text/plain", b"first\nsecond\n")
PICTURE = Attachment("cat.png", "image/png", PNG)
TOLD = "File: notes.txt\n```txt\nfirst\nsecond\n```\n\n"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def heard_of(events: AsyncGenerator[Event, None]) -> Heard:
    heard = Heard()
    async with aclosing(events) as stream:
        async for event in stream:
            heard.apply(event)
    return heard


async def test_every_version_of_a_question_brings_its_files(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(["One."]), Script(["Two."]), Script(["Three."]), Script(["Four."])])
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=Settings()) as opened,
    ):
        await until_connected(opened)
        assert opened.stays_here()
        store = opened.store
        conversation = store.conversations.create("t").id
        before = opened.context(conversation)
        heard = await heard_of(opened.reply(conversation, "what is it?", [NOTES]))
        question = store.branches.thread(conversation)[0]
        await heard_of(opened.regenerate(heard.message))
        await heard_of(opened.edit(question.id, "what is that?", question.attachments))
        queued = opened.outbox.enqueue(conversation, "and these?", [NOTES])
        await heard_of(opened.send(queued))
        assert before is None and store.queue.all() == []
        thread = store.branches.thread(conversation)
        assert [one.attachments for one in thread] == [(NOTES,), (), (NOTES,), ()]
    first, again, edited, later = ([one["content"] for one in asked["messages"]] for asked in server.asked)
    assert first == again == [f"{TOLD}what is it?"]
    assert edited == [f"{TOLD}what is that?"]
    assert later == [f"{TOLD}what is that?", "Three.", f"{TOLD}and these?"]


async def test_a_checking_server_reads_files_and_says_that_it_reads_no_images(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    async with assistant(drafter, database, verifier.url) as opened:
        await until_connected(opened)
        store = opened.store
        conversation = store.conversations.create("t").id
        heard = await heard_of(opened.reply(conversation, "what is it?", [NOTES]))
        assert heard.done is not None and heard.done.token_ids
        context = opened.context(conversation)
        assert context is not None and context.used > len(drafter.text.encode(NOTES.text))
        heard = await heard_of(opened.reply(conversation, "and this?", [PICTURE]))
        assert heard.failed is not None and "reads text and no images: cat.png" in heard.failed.message
        assert store.branches.thread(conversation)[2].attachments == (PICTURE,)
        # An image further up is only named, so the conversation can go on.
        heard = await heard_of(opened.reply(conversation, "never mind"))
        assert heard.done is not None, heard.failed


async def test_a_picture_that_waits_leaves_the_queue_if_nobody_there_can_see_it(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    async with assistant(drafter, database, verifier.url) as opened:
        await until_connected(opened)
        conversation = opened.store.conversations.create("t").id
        queued = opened.outbox.enqueue(conversation, "what is this?", [PICTURE])
        heard = await heard_of(opened.send(queued))
        assert heard.failed is not None and heard.failed.code == "refused"
        assert opened.outbox.queued() == []
        assert opened.store.branches.thread(conversation)[0].attachments == (PICTURE,)


async def test_another_machine_is_not_this_device(drafter: Drafter, database: Path) -> None:
    async with assistant(drafter, database, None) as opened:
        assert opened.stays_here()
        opened.use(AddressSource("https://192.0.2.1/v1"))
        assert not opened.stays_here()


async def test_thoughts_are_stored_even_if_the_answer_is_cut_off(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(["<think>let me see</think>", "It is"], cut=True)])
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}", settings=Settings()) as opened,
    ):
        await until_connected(opened)
        conversation = opened.store.conversations.create("t").id
        heard = await heard_of(opened.reply(conversation, "what is it?"))
        assert heard.failed is not None
    with Store.open(database) as store:
        answer = store.branches.thread(conversation)[1]
        assert (answer.status, answer.text, answer.reasoning) == ("failed", "It is", "let me see")
