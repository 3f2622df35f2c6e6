"""A new conversation gets a title from its model where that costs nothing, and never in place of a person's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.config import Settings, Titles
from app.reply.assistant import Assistant
from app.reply.model_title import REQUEST, clean_title
from app.titles import title_from
from storage import Store
from tests.app.reply.conftest import Connect
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import ask, until

QUESTION = "How do I unpack a .tar.gz file, and what if it is broken?"


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Unpack Broken Archives", "Unpack Broken Archives"),
        ('\n**Title: "Archive repair."**\nI chose it because', "Archive repair"),
        ("\x1b]0;x\x07Un\x1b[2Jpack", "Unpack"),
        ("„Archive entpacken“", "Archive entpacken"),
        ("so many words " * 20, ""),
        ("...", ""),
        ("", ""),
    ],
)
def test_what_a_model_says_becomes_a_short_line_or_nothing(said: str, title: str) -> None:
    assert clean_title(said) == title


async def begun(opened: Assistant) -> str:
    conversation = opened.store.conversations.create(title_from(QUESTION)).id
    await ask(opened, QUESTION, conversation)
    return conversation


@pytest.mark.parametrize("titles", ["free", "off"])
async def test_the_first_answer_brings_a_title_and_only_the_first(
    connect: Connect, database: Path, titles: Titles
) -> None:
    server = ChatServer([Script(["tar ", "-x"])], title='"Broken archives"')
    async with connect(server, met=True, settings=Settings(titles=titles)) as opened:
        conversation = await begun(opened)
        assert await opened.entitle(conversation) == ("Broken archives" if titles == "free" else None)
        wanted = "Broken archives" if titles == "free" else title_from(QUESTION)
        assert opened.store.conversations.get(conversation).title == wanted
        await ask(opened, "And then?", conversation)
        assert await opened.entitle(conversation) is None
    assert len(server.asked) == 2 and len(server.entitled) == (titles == "free")
    for asked in server.entitled:
        assert [one["content"] for one in asked["messages"]] == [QUESTION, "tar -x", REQUEST]


async def test_a_persons_title_stays_also_if_it_comes_while_the_model_writes(connect: Connect, database: Path) -> None:
    server = ChatServer([Script(["tar -x"])], title="Broken archives")
    async with connect(server, met=True) as opened:
        conversation = await begun(opened)
        opened.store.conversations.rename(conversation, "Mine")
        assert await opened.entitle(conversation) is None and not server.entitled
        with Store.open(database) as store:
            assert not store.conversations.entitle(conversation, title_from(QUESTION), "Broken archives")
            assert store.conversations.get(conversation).title == "Mine"


async def test_a_server_does_not_read_what_another_one_answered(connect: Connect) -> None:
    server = ChatServer([Script(["tar -x"])], title="Broken archives")
    async with connect(server, met=True) as opened:
        conversation = await begun(opened)
        connection = opened.backend.routing.shown
        assert connection is not None and connection.verifier is not None
        connection.source.model = "another"
        connection.connect_again("another model")
        await until(lambda: (peer := connection.verifier) is not None and peer.model_name == "another")
        assert await opened.entitle(conversation) is None and not server.entitled


async def test_a_model_that_answers_with_commands_is_not_asked(connect: Connect) -> None:
    server = ChatServer([Script(["tar -x"])], title="tar -x")
    async with connect(server, met=True) as opened:
        connection = opened.backend.routing.shown
        assert connection is not None and connection.verifier is not None
        connection.source.model = "shell-guide"
        connection.connect_again("another model")
        await until(lambda: (peer := connection.verifier) is not None and peer.model_name == "shell-guide")
        assert await opened.entitle(await begun(opened)) is None and not server.entitled


async def test_a_title_gives_way_to_the_next_question(connect: Connect) -> None:
    server = ChatServer([Script(["tar -x"])], title=None)
    async with connect(server, met=True) as opened:
        conversation = await begun(opened)
        asking = asyncio.create_task(opened.entitle(conversation))
        await until(lambda: bool(server.entitled))
        assert (await ask(opened, "And then?", conversation)).text == "tar -x"
        assert await asking is None
        await server.hung_up.wait()
        assert opened.store.conversations.get(conversation).title == title_from(QUESTION)
