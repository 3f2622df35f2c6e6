"""A conversation is answered by the server that was chosen for it, and by no other; one may be chosen any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from app.config import Folders, Settings
from app.events import ModeChanged, Verified
from app.remotes.choice import source_chosen
from app.remotes.registry import Remote, Remotes
from app.remotes.source import AddressSource, RemoteSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from storage import Choices, Store
from tests.app.reply.conftest import Connect
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import Heard, ask, ask_once, until, until_connected, until_mode, working_off
from tests.support.serving import VerifierProcess

ONE, TWO = Choices(remote="one", model="talker"), Choices(remote="two", model="other")


@dataclass
class Device:
    """A device with two servers in its registry; the second one answers where nothing was chosen."""

    drafter: Drafter
    home: Path
    remotes: Remotes
    first: ChatServer
    second: ChatServer

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Assistant]:
        settings, folders = Settings(max_tokens=40), Folders.locate({"OUTRIDER_HOME": str(self.home)})
        chosen = partial(source_chosen, settings=settings, folders=folders)
        with Store.open(self.home / "outrider.db") as store:
            options = Options(Drafters(self.drafter), RemoteSource("two", self.remotes), settings, chosen=chosen)
            async with Assistant(store, options) as assistant:
                yield assistant


@pytest.fixture
async def device(drafter: Drafter, folders: Folders, no_ring: None, tmp_path: Path) -> AsyncIterator[Device]:
    first, second = ChatServer([Script(["from one"])]), ChatServer([Script(["from two"])])
    async with first.listening() as port, second.listening() as other:
        remotes = Remotes(folders)
        remotes.put("one", Remote(url=f"http://127.0.0.1:{port}"))
        remotes.put("two", Remote(url=f"http://127.0.0.1:{other}"))
        remotes.use("two")
        yield Device(drafter, tmp_path, remotes, first, second)


async def test_each_conversation_has_its_own(device: Device) -> None:
    async with device.opened() as opened:
        mine = opened.store.conversations.create("mine", ONE).id
        theirs = opened.store.conversations.create("theirs").id
        other = opened.store.conversations.create("other", TWO).id
        assert (await ask(opened, "a", mine)).text == "from one"
        assert (await ask(opened, "b", theirs)).text == "from two"
        heard = await ask(opened, "c", other)
        assert heard.text == "from two" and heard.done.model == "other"
        assert (await ask(opened, "d", mine)).text == "from one"
        assert [one["model"] for one in device.second.asked] == ["talker", "other"]
        assert len(device.first.asked) == 2
        assert [one["content"] for one in device.first.asked[1]["messages"]] == ["a", "from one", "d"]
        stored = opened.store.branches.thread(other)[-1].stats
        assert stored["model"] == "other" and "verified" not in stored
    async with device.opened() as again:  # After a restart.
        assert (await ask(again, "e", mine)).text == "from one"


async def test_the_state_is_that_of_the_open_conversation(device: Device) -> None:
    async with device.opened() as opened:
        await until_connected(opened)
        assert opened.status().why.startswith("answered by talker at two") and not opened.status().checks
        opened.follow(ONE)
        await until_connected(opened)
        assert opened.status().why.startswith("answered by talker at one") and opened.status().model == "talker"
        opened.follow(TWO)
        await until(lambda: opened.status().model == "other")
        await until(lambda: not opened.backend.routing.leaving)  # The line to the first one: nothing needs it.
        assert len(opened.backend.routing._connections._open) == 2


async def test_a_server_that_is_gone_is_named_and_nobody_else_is_asked(device: Device) -> None:
    async with device.opened() as opened:
        mine = opened.store.conversations.create("mine", ONE).id
        await ask(opened, "a", mine)
    device.remotes.remove("one")
    async with device.opened() as opened:
        opened.follow(ONE)
        await until_mode(opened, "offline")
        assert "the server one, which was chosen for this conversation" in opened.status().why
        heard = await ask(opened, "b", mine)
        assert heard.failed is not None and "choose another model" in heard.failed.message
        assert len(device.first.asked) == 1 and not device.second.asked
        opened.store.conversations.choose(mine, TWO)
        assert (await ask(opened, "c", mine)).text == "from two"


async def test_what_waits_goes_to_the_server_of_its_own_conversation(device: Device) -> None:
    device.first.away = True
    async with device.opened() as opened:
        mine = opened.store.conversations.create("mine", ONE).id
        theirs = opened.store.conversations.create("theirs").id
        opened.outbox.enqueue(mine, "first in the queue")
        opened.outbox.enqueue(theirs, "second in the queue")
        async with working_off(opened):
            await until(lambda: len(opened.outbox.queued()) == 1 and not opened.replying)
            assert [one["messages"][-1]["content"] for one in device.second.asked] == ["second in the queue"]
            device.first.away = False
            await until(lambda: not opened.outbox.queued() and not opened.replying)
        assert [one["messages"][-1]["content"] for one in device.first.asked] == ["first in the queue"]
        assert len(device.second.asked) == 1


# ---- switched while the program runs ---------------------------------------------------------------------------------


QUESTION = "how do I unpack a tar archive?"
SAID = "tar -xf naïve.tar"


async def test_what_is_asked_next_goes_to_the_new_one(verifier: VerifierProcess, served: Connect) -> None:
    server = ChatServer([Script([SAID])])
    async with server.listening() as port, served() as opened:
        conversation = opened.store.conversations.create("two").id
        first = await ask(opened, QUESTION, conversation)
        opened.use(AddressSource(f"http://127.0.0.1:{port}"))
        assert opened.status() == ModeChanged("warming", "connecting to the server")
        second = await ask(opened, "why?", conversation)
        opened.use(AddressSource(verifier.url))
        third = await ask(opened, "really?", conversation)
        assert opened.status().word == "online"
    assert first.done and third.done and all(first.done.provenance) and all(third.done.provenance)
    assert second.text == SAID and len(server.asked) == 1
    assert [one["content"] for one in server.asked[0]["messages"]] == [QUESTION, first.text, "why?"]
    assert (first.modes[-1], second.modes[-1], third.modes[-1]) == ("edge", "hosted", "edge")


async def test_an_answer_on_its_way_is_finished_where_it_began(served: Connect) -> None:
    settings = Settings(max_tokens=60)
    expected = await ask_once(served(settings=settings), QUESTION)
    server, said = ChatServer([Script([SAID])]), list[ModeChanged]()
    async with server.listening() as port, served(settings=settings) as opened:

        async def watch() -> None:
            async for change in opened.changes():
                said.append(change)

        await until_mode(opened, "edge")
        watching = asyncio.create_task(watch())

        async def switch(heard: Heard) -> None:
            if isinstance(heard.last, Verified) and not opened.backend.routing.leaving:
                opened.use(AddressSource(f"http://127.0.0.1:{port}"))
                await until_mode(opened, "hosted")

        heard = await ask(opened, QUESTION, watch=switch)
        assert heard.done and heard.text == expected.text
        assert heard.done.provenance == (True,) * len(heard.done.token_ids) and server.asked == []
        # What the reply reported last was the old one's; the status bar hears of the new one without another question.
        await until(lambda: said[-1:] == [ModeChanged("hosted", f"answered by talker at 127.0.0.1:{port}")])
        await until(lambda: not opened.backend.routing.leaving)
        assert (await ask(opened, "why?")).text == SAID
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_what_waits_is_sent_to_the_new_one(connect: Connect) -> None:
    server = ChatServer([Script([SAID])])
    async with server.listening() as port, connect(None) as opened:
        assert opened.status().mode == "offline"
        opened.outbox.enqueue(opened.store.conversations.create("a").id, QUESTION)
        async with working_off(opened):
            await asyncio.sleep(0)
            opened.use(AddressSource(f"http://127.0.0.1:{port}"))
            await until(lambda: not opened.outbox.queued() and not opened.replying)
        assert server.asked[0]["messages"][-1]["content"] == QUESTION
        opened.use(None)
        assert opened.status() == ModeChanged("offline", "offline by choice")
        alone = await ask(opened, QUESTION)
        assert not any(alone.done.provenance)


async def test_a_name_is_shown_and_its_trouble_too(
    verifier: VerifierProcess, folders: Folders, no_ring: None, connect: Connect
) -> None:
    remotes = Remotes(folders)
    remotes.put("here", Remote(url=verifier.url), "a-token")
    remotes.put("gone", Remote(url="https://127.0.0.1:9", ca=str(folders.config / "ca.pem")))
    async with connect(None) as opened:
        opened.use(RemoteSource("here", remotes))
        await until_mode(opened, "edge")
        assert opened.status().why == "checked by target at here"
        opened.use(RemoteSource("gone", remotes))
        await until_mode(opened, "offline")
        assert opened.status().why.startswith("the server gone cannot be used: the authority's certificate")
        (folders.config / "tokens.json").unlink()
        opened.use(RemoteSource("here", remotes))
        await until_mode(opened, "offline")
        assert "holds no token of here" in opened.status().why
