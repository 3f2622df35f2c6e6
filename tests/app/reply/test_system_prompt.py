"""System prompt, sampling and files of a conversation reach whoever answers, and stay as they were chosen."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from app.config import Folders, Settings
from app.drafting.prompt import conversation_tokens
from app.events import SystemUnread
from app.reply.assistant import Assistant
from app.system_prompts import SystemPrompts
from drafter.runtime import Drafter
from storage import Attachment, Choices, Message
from tests.app.attachments.conftest import PNG
from tests.app.reply.conftest import Connect
from tests.app.reply.test_assistant import generated
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import Heard, ask, ask_once, hear
from tests.support.guide_pages import guided_drafter

SYSTEM = "Answer in verse."
EDGE = Settings(mode="edge", max_tokens=16)


@pytest.fixture
def prompts(folders: Folders) -> SystemPrompts:
    library = SystemPrompts(folders)
    library.put("verse", SYSTEM)
    return library


def begun(opened: Assistant, **chosen: str | float) -> str:
    """A new conversation with these choices."""
    return opened.store.conversations.create("test", Choices(**chosen)).id  # type: ignore[arg-type]


def thread(opened: Assistant, conversation: str) -> list[Message]:
    return opened.store.branches.thread(conversation)


def tokens(heard: Heard) -> list[int]:
    return list(heard.done.token_ids)


def said(server: ChatServer, at: int) -> list[tuple[str, str]]:
    return [(one["role"], one["content"]) for one in server.asked[at]["messages"]]


async def test_the_target_reads_it(tiny_pair: Path, drafter: Drafter, served: Connect) -> None:
    async with served(settings=EDGE) as opened:
        conversation = begun(opened, system=SYSTEM)
        first = await ask(opened, "list files", conversation)
        second = await ask(opened, "hidden ones", conversation)
        asked = thread(opened, conversation)
        context = opened.context(conversation)
    prompt = drafter.text.render([("system", SYSTEM), ("user", "list files")])
    assert tokens(first) == generated(tiny_pair, prompt, 16)
    longer = conversation_tokens(drafter.text, asked[:3], system=SYSTEM)
    assert longer[: len(prompt) + 16] == [*prompt, *tokens(first)], "what was read before stays as it was"
    assert tokens(second) == generated(tiny_pair, longer, 16)
    assert context is not None and context.used == pytest.approx(len(longer) + 16, abs=8)
    assert not any(isinstance(event, SystemUnread) for event in [*first.events, *second.events])


async def test_another_answer_under_another_prompt_is_greedy_again(served: Connect) -> None:
    async with served(settings=EDGE) as opened:
        conversation = begun(opened)
        await ask(opened, "list files", conversation)
        opened.store.conversations.choose(conversation, Choices(system=SYSTEM))
        temperatures = []
        for _ in range(2):
            await hear(opened.regenerate(thread(opened, conversation)[-1].id))
            temperatures.append(thread(opened, conversation)[-1].stats["temperature"])
    assert temperatures == [0.0, 0.8], "the greedy answer under this prompt is there only the second time"


async def test_a_model_with_a_recipe_says_that_it_does_not_read_it(
    tiny_pair: Path, tmp_path: Path, served: Connect
) -> None:
    guided = Drafter.load(guided_drafter(tiny_pair / "drafter", tmp_path / "guided"))
    async with served(drafter=guided, settings=EDGE) as opened:
        plain = await ask(opened, "untar photos.tar.gz", begun(opened))
        conversation = begun(opened, system=SYSTEM)
        first = await ask(opened, "untar photos.tar.gz", conversation)
        second = await ask(opened, "and list its contents?", conversation)
    counts = [len(heard.of(SystemUnread)) for heard in (plain, first, second)]
    assert counts == [0, 1, 0], "it is said once"
    assert tokens(first) == tokens(plain)


async def asked_of(server: ChatServer, opened: Assistant, conversation: str) -> list[tuple[str, str]]:
    await ask(opened, "list files", conversation)
    return said(server, len(server.asked) - 1)


async def test_conversation_goes_before_server_before_setting(prompts: SystemPrompts, connect: Connect) -> None:
    prompts.put("brief", "Be brief.")
    server = ChatServer([Script(["ls"])])
    brief = Settings(system="brief")

    def opened_with(**options: Any) -> AbstractAsyncContextManager[Assistant]:
        return connect(server, **{"settings": brief, "prompts": prompts, **options})

    async with opened_with(system="verse") as opened:
        first = begun(opened)
        assert (await asked_of(server, opened, first))[0] == ("system", SYSTEM)
        assert (await asked_of(server, opened, begun(opened, system="Mine.")))[0] == ("system", "Mine.")
        assert (await asked_of(server, opened, begun(opened, system="")))[0][0] == "user"
        kept = opened.store.conversations.get(first).choices
        assert (kept.system, kept.system_name) == (SYSTEM, "verse")
    async with opened_with() as opened:
        assert (await asked_of(server, opened, begun(opened)))[0] == ("system", "Be brief.")
        assert (await asked_of(server, opened, first))[0] == ("system", SYSTEM), "it keeps what it began with"
    async with opened_with(system="none") as opened:
        assert (await asked_of(server, opened, begun(opened)))[0][0] == "user"
    async with opened_with(settings=Settings()) as opened:
        plain = begun(opened)
        assert (await asked_of(server, opened, plain))[0][0] == "user"
    async with opened_with(system="verse") as opened:
        assert (await asked_of(server, opened, plain))[0][0] == "user", "it has begun without one"


async def test_a_missing_default_is_told_and_nothing_is_sent(prompts: SystemPrompts, connect: Connect) -> None:
    server = ChatServer([Script(["ls"])])
    async with connect(server, prompts=prompts, system="tutor") as opened:
        conversation = begun(opened)
        heard = await ask(opened, "list files", conversation)
        assert heard.failed is not None and "no system prompt 'tutor' (known: verse)" in heard.failed.message
        assert not server.asked
        prompts.put("tutor", "Explain.")
        await hear(opened.regenerate(thread(opened, conversation)[-1].id))
        assert said(server, 0) == [("system", "Explain."), ("user", "list files")]


async def test_the_answers_of_a_conversation_are_sampled_as_it_was_chosen(served: Connect) -> None:
    chosen: dict[str, float] = {"temperature": 0.9, "seed": 11, "top_k": 40, "max_tokens": 9}
    async with served(settings=EDGE) as opened:
        conversation = begun(opened, **chosen)
        first = await ask(opened, "list files", conversation)
        await hear(opened.regenerate(thread(opened, conversation)[-1].id))
        again = thread(opened, conversation)[-1]
        other = await ask(opened, "list files")
    settings = Settings(mode="edge", temperature=0.9, seed=11, top_k=40, max_tokens=9)
    same = await ask_once(served(settings=settings), "list files")
    assert tokens(first) == tokens(same) and len(tokens(first)) == 9
    assert len(again.tokens) == 9 and again.stats["temperature"] == 0.9 and again.stats["seed"] == 12
    assert len(tokens(other)) == 16, "other conversations are as the settings say"


async def test_a_model_that_refuses_it_is_told_with_what_to_do(connect: Connect) -> None:
    server = ChatServer([], refuses="System role not supported")
    async with connect(server) as opened:
        heard = await ask(opened, "list files", begun(opened, system=SYSTEM))
    assert heard.failed is not None
    assert "System role not supported" in heard.failed.message and "choose none for this" in heard.failed.message


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


async def test_a_checking_server_reads_files_and_says_it_reads_no_images(drafter: Drafter, served: Connect) -> None:
    async with served(met=True) as opened:
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
