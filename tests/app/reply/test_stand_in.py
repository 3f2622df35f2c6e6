"""A model on this device continues the answers of a server that is away, at the character that was reached."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from app.config import Settings
from app.events import ModeChanged, Stretch, Verified
from app.remotes.source import AddressSource, Source
from app.reply.assistant import Assistant
from app.reply.routing import Options
from app.tui.turn import Turn
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote.protocol import Sampling
from storage import Store
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import Heard, ask, until_mode
from tests.support.serving import VerifierProcess

QUESTION = "how do I unpack a tar archive?"
LOCAL = Settings(offline="local", max_tokens=24, temperature=0.0)


class Here(AddressSource):
    """A model that this device would run."""

    name = "small one"
    kind = "openai"


@asynccontextmanager
async def standing_in(
    drafter: Drafter, database: Path, port: int, source: Source, settings: Settings = LOCAL, *, path: str = "/v1"
) -> AsyncIterator[Assistant]:
    store = Store.open(database)
    server = AddressSource(f"http://127.0.0.1:{port}{path}")
    async with Assistant(store, Options(Drafters(drafter), server, settings, stand_in=source)) as opened:
        yield opened
    store.close()


def stored(database: Path, heard: Heard) -> Turn:
    """The turn that a window shows of an answer later."""
    with Store.open(database) as store:
        message = store.messages.get(heard.message)
        (turn,) = Turn.of_thread(store.branches.thread(message.conversation_id))
    assert turn.text == heard.text
    return turn


async def rest_of(verifier: VerifierProcess, begun: str, most: int = 24) -> str:
    """What the model on this device says after `begun`."""
    source = Here(verifier.url + "/v1")
    assert source.chat is not None
    (model,) = await source.chat.models(60.0)
    said = [("user", QUESTION), ("assistant", begun)] if begun else [("user", QUESTION)]
    stream = await source.chat.chat(
        said, Sampling(temperature=0.0), model=model.id, most=most, deadline=60.0, silence=60.0, continued=bool(begun)
    )
    text = "".join([piece async for piece in stream])
    await source.close()
    return text


@pytest.mark.parametrize("begun", ["Use tar to unp", "Use `tar`:\n\n```sh\ntar -xf ", "naïve 🦀", "key-val"])
async def test_an_answer_goes_on_at_the_character_where_the_line_broke(
    drafter: Drafter, database: Path, verifier: VerifierProcess, begun: str
) -> None:
    server = ChatServer([Script([begun[:5], begun[5:]], cut=True)])
    async with (
        server.listening() as port,
        standing_in(drafter, database, port, Here(verifier.url + "/v1")) as opened,
    ):
        heard = await ask(opened, QUESTION)
    assert heard.done is not None, heard.failed
    assert heard.text.startswith(begun) and heard.text[len(begun) :] == await rest_of(verifier, begun)
    assert len(server.asked) == 1, "a question may cost money"
    assert heard.done.stretches == (Stretch(0, "talker"), Stretch(len(begun), "small one", here=True))
    assert heard.done.model == "talker", "the model that the person chose did write a part"
    offline = [event for event in heard.events if isinstance(event, ModeChanged) and event.mode == "offline"]
    assert offline[-1].model == "small one" and not offline[-1].checks
    running = Turn("")
    for event in heard.events:
        running.apply(event)
        if isinstance(event, Stretch):
            assert running.solid == len(begun), "the rest is dimmed while it is written"
    turn = stored(database, heard)
    assert running.unchecked == turn.unchecked == ((len(begun), len(turn.text)),)
    assert turn.note.startswith("by small one on this device, not checked")


async def test_a_question_is_answered_while_the_server_is_away(
    drafter: Drafter, database: Path, verifier: VerifierProcess
) -> None:
    server = ChatServer([Script(["x"])], away=True)
    async with (
        server.listening() as port,
        standing_in(drafter, database, port, Here(verifier.url + "/v1")) as opened,
    ):
        heard = await ask(opened, QUESTION)
        assert heard.done is not None, heard.failed
        assert heard.text == await rest_of(verifier, "")
        assert heard.done.model == "small one" and heard.done.stretches == (Stretch(0, "small one", here=True),)
        server.away = False
        await until_mode(opened, "hosted")
        assert (await ask(opened, QUESTION)).text == "x"
    assert stored(database, heard).note.startswith("all by small one on this device, not checked")


async def test_an_answer_of_outriders_own_server_goes_on_too(
    drafter: Drafter, database: Path, tiny_pair: Path, verifier: VerifierProcess
) -> None:
    settings = Settings(mode="hosted", offline="local", max_tokens=200, temperature=0.0)
    with VerifierProcess(tiny_pair) as dying:
        async with standing_in(drafter, database, dying.port, Here(verifier.url + "/v1"), settings, path="") as opened:
            heard, conversation = Heard(), opened.store.conversations.create("").id
            async with aclosing(opened.reply(conversation, QUESTION)) as events:
                alive = True
                async for event in events:
                    heard.apply(event)
                    if alive and isinstance(event, Verified):
                        dying.kill()
                        alive = False
    assert heard.done is not None, heard.failed
    first, second = heard.done.stretches
    assert (first.writer, first.here, second.here) == ("target", False, True) and 0 < second.at < len(heard.text)
    assert heard.text[second.at :] == await rest_of(verifier, heard.text[: second.at], 200)
    assert stored(database, heard).unchecked == ((second.at, len(heard.text)),)


async def test_what_a_server_refuses_nobody_else_answers(
    drafter: Drafter, database: Path, verifier: VerifierProcess
) -> None:
    server = ChatServer([], refuses="The model talker was retired.")
    async with (
        server.listening() as port,
        standing_in(drafter, database, port, Here(verifier.url + "/v1")) as opened,
    ):
        heard = await ask(opened, QUESTION)
    assert heard.failed is not None and "retired" in heard.failed.message and not heard.text


async def test_a_model_that_does_not_start_is_named(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(["Use tar"], cut=True)], leaves=True)
    async with (
        server.listening() as port,
        standing_in(drafter, database, port, Here("http://127.0.0.1:9/v1")) as opened,
    ):
        heard = await ask(opened, QUESTION)
    assert heard.failed is not None and "127.0.0.1:9" in heard.failed.message and heard.text == "Use tar"
