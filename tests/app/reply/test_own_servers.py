"""A conversation is answered by the server that was chosen for it, and by no other one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from app.config import Folders, Settings
from app.remotes.choice import source_chosen
from app.remotes.registry import Remote, Remotes
from app.remotes.source import RemoteSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from storage import Choices, Store
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import ask, until, until_connected, until_mode, working_off

ONE, TWO = Choices(remote="one", model="talker"), Choices(remote="two", model="other")


@pytest.fixture
async def two(folders: Folders, no_ring: None) -> AsyncIterator[tuple[Remotes, ChatServer, ChatServer]]:
    """Two servers in the registry; the second one answers where nothing was chosen."""
    first, second = ChatServer([Script(["from one"])]), ChatServer([Script(["from two"])])
    async with first.listening() as port, second.listening() as other:
        remotes = Remotes(folders)
        remotes.put("one", Remote(url=f"http://127.0.0.1:{port}"))
        remotes.put("two", Remote(url=f"http://127.0.0.1:{other}"))
        remotes.use("two")
        yield remotes, first, second


@asynccontextmanager
async def opened_on(drafter: Drafter, home: Path, remotes: Remotes) -> AsyncIterator[Assistant]:
    settings, folders = Settings(max_tokens=40), Folders.locate({"OUTRIDER_HOME": str(home)})
    chosen = partial(source_chosen, settings=settings, folders=folders)
    with Store.open(home / "outrider.db") as store:
        default = RemoteSource("two", remotes)
        async with Assistant(store, Options(Drafters(drafter), default, settings, chosen=chosen)) as assistant:
            yield assistant


async def test_each_conversation_has_its_own(
    drafter: Drafter, tmp_path: Path, two: tuple[Remotes, ChatServer, ChatServer]
) -> None:
    remotes, first, second = two
    async with opened_on(drafter, tmp_path, remotes) as opened:
        mine = opened.store.conversations.create("mine", ONE).id
        theirs = opened.store.conversations.create("theirs").id
        other = opened.store.conversations.create("other", TWO).id
        assert (await ask(opened, "a", mine)).text == "from one"
        assert (await ask(opened, "b", theirs)).text == "from two"
        heard = await ask(opened, "c", other)
        assert heard.text == "from two" and heard.done.model == "other"
        assert (await ask(opened, "d", mine)).text == "from one"
        assert [one["model"] for one in second.asked] == ["talker", "other"]
        assert len(first.asked) == 2
        assert [one["content"] for one in first.asked[1]["messages"]] == ["a", "from one", "d"]
        stored = opened.store.branches.thread(other)[-1].stats
        assert stored["model"] == "other" and "verified" not in stored
    async with opened_on(drafter, tmp_path, remotes) as again:  # After a restart.
        assert (await ask(again, "e", mine)).text == "from one"


async def test_the_state_is_that_of_the_open_conversation(
    drafter: Drafter, tmp_path: Path, two: tuple[Remotes, ChatServer, ChatServer]
) -> None:
    remotes, _, _ = two
    async with opened_on(drafter, tmp_path, remotes) as opened:
        await until_connected(opened)
        assert opened.status().why.startswith("answered by talker at two") and not opened.status().checks
        opened.follow(ONE)
        await until_connected(opened)
        assert opened.status().why.startswith("answered by talker at one") and opened.status().model == "talker"
        opened.follow(TWO)
        await until(lambda: opened.status().model == "other")
        await until(lambda: not opened.backend.routing.leaving)  # The line to the first one: nothing needs it.
        assert len(opened.backend.routing._connections._open) == 2


async def test_a_server_that_is_gone_is_named_and_nobody_else_is_asked(
    drafter: Drafter, tmp_path: Path, two: tuple[Remotes, ChatServer, ChatServer]
) -> None:
    remotes, first, second = two
    async with opened_on(drafter, tmp_path, remotes) as opened:
        mine = opened.store.conversations.create("mine", ONE).id
        await ask(opened, "a", mine)
    remotes.remove("one")
    async with opened_on(drafter, tmp_path, remotes) as opened:
        opened.follow(ONE)
        await until_mode(opened, "offline")
        assert "the server one, which was chosen for this conversation" in opened.status().why
        heard = await ask(opened, "b", mine)
        assert heard.failed is not None and "choose another model" in heard.failed.message
        assert len(first.asked) == 1 and not second.asked
        opened.store.conversations.choose(mine, TWO)
        assert (await ask(opened, "c", mine)).text == "from two"


async def test_what_waits_goes_to_the_server_of_its_own_conversation(
    drafter: Drafter, tmp_path: Path, two: tuple[Remotes, ChatServer, ChatServer]
) -> None:
    remotes, first, second = two
    first.away = True
    async with opened_on(drafter, tmp_path, remotes) as opened:
        mine = opened.store.conversations.create("mine", ONE).id
        theirs = opened.store.conversations.create("theirs").id
        opened.outbox.enqueue(mine, "first in the queue")
        opened.outbox.enqueue(theirs, "second in the queue")
        async with working_off(opened):
            await until(lambda: len(opened.outbox.queued()) == 1 and not opened.replying)
            assert [one["messages"][-1]["content"] for one in second.asked] == ["second in the queue"]
            first.away = False
            await until(lambda: not opened.outbox.queued() and not opened.replying)
        assert [one["messages"][-1]["content"] for one in first.asked] == ["first in the queue"]
        assert len(second.asked) == 1
