"""Files of a question through the assistant: what a server receives each time, and what readers of text say."""

from __future__ import annotations

from app.config import Settings
from drafter.runtime import Drafter
from storage import Attachment
from tests.app.attachments.conftest import PNG
from tests.app.reply.conftest import Connect
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import hear
from tests.support.serving import VerifierProcess

NOTES = Attachment("notes.txt", "text/plain", b"first\nsecond\n")
PICTURE = Attachment("cat.png", "image/png", PNG)
TOLD = "File: notes.txt\n```txt\nfirst\nsecond\n```\n\n"


async def test_every_version_of_a_question_brings_its_files(connect: Connect) -> None:
    server = ChatServer([Script(["One."]), Script(["Two."]), Script(["Three."]), Script(["Four."])])
    async with connect(server, settings=Settings(), met=True) as opened:
        assert opened.stays_here()
        store = opened.store
        conversation = store.conversations.create("t").id
        before = opened.context(conversation)
        heard = await hear(opened.reply(conversation, "what is it?", [NOTES]))
        question = store.branches.thread(conversation)[0]
        await hear(opened.regenerate(heard.message))
        await hear(opened.edit(question.id, "what is that?", question.attachments))
        queued = opened.outbox.enqueue(conversation, "and these?", [NOTES])
        await hear(opened.send(queued))
        assert before is None and store.queue.all() == []
        thread = store.branches.thread(conversation)
        assert [one.attachments for one in thread] == [(NOTES,), (), (NOTES,), ()]
    first, again, edited, later = ([one["content"] for one in asked["messages"]] for asked in server.asked)
    assert first == again == [f"{TOLD}what is it?"]
    assert edited == [f"{TOLD}what is that?"]
    assert later == [f"{TOLD}what is that?", "Three.", f"{TOLD}and these?"]


async def test_a_checking_server_reads_files_and_says_that_it_reads_no_images(
    verifier: VerifierProcess, drafter: Drafter, connect: Connect
) -> None:
    async with connect(verifier.url, met=True) as opened:
        store = opened.store
        conversation = store.conversations.create("t").id
        heard = await hear(opened.reply(conversation, "what is it?", [NOTES]))
        assert heard.done.token_ids
        context = opened.context(conversation)
        assert context is not None and context.used > len(drafter.text.encode(NOTES.text))
        heard = await hear(opened.reply(conversation, "and this?", [PICTURE]))
        assert heard.failed is not None and "reads text and no images: cat.png" in heard.failed.message
        assert store.branches.thread(conversation)[2].attachments == (PICTURE,)
        # An image further up is only named, so the conversation can go on.
        heard = await hear(opened.reply(conversation, "never mind"))
        assert heard.done
        # One that waits leaves the queue: nobody there can see it.
        waiting = store.conversations.create("waits").id
        heard = await hear(opened.send(opened.outbox.enqueue(waiting, "what is this?", [PICTURE])))
        assert heard.failed is not None and heard.failed.code == "refused" and opened.outbox.queued() == []
        assert store.branches.thread(waiting)[0].attachments == (PICTURE,)


async def test_thoughts_are_stored_even_if_the_answer_is_cut_off(connect: Connect) -> None:
    server = ChatServer([Script(["<think>let me see</think>", "It is"], cut=True)])
    async with connect(server, settings=Settings(), met=True) as opened:
        conversation = opened.store.conversations.create("t").id
        heard = await hear(opened.reply(conversation, "what is it?"))
        answer = opened.store.branches.thread(conversation)[1]
        assert heard.failed is not None
        assert (answer.status, answer.text, answer.reasoning) == ("failed", "It is", "let me see")
