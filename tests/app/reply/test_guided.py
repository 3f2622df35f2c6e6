"""A drafter with a prompt recipe: its own target reads pages before each question, and nobody else does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path

import msgspec
import pytest

from app.config import Settings
from app.drafting.learning import Learner
from app.drafting.prompt import FULL, conversation_length, conversation_tokens, shared_prefix
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from models.config import read_config, write_config
from storage import Store
from tests.app.reply.conftest import Connect
from tests.app.reply.test_assistant import generated
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import ask, ask_once, hear, until_connected
from tests.support.guide_pages import guided_drafter
from tests.support.serving import VerifierProcess

QUESTIONS = ("untar photos.tar.gz", "and list its contents?")


@pytest.fixture(scope="module")
def folder(tiny_pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return guided_drafter(tiny_pair / "drafter", tmp_path_factory.mktemp("guided") / "drafter")


@pytest.fixture(scope="module")
def guided(folder: Path) -> Drafter:
    return Drafter.load(folder)


@pytest.fixture
def stranger(folder: Path, tmp_path: Path) -> Drafter:
    """A drafter with the recipe that was made for another target of the same vocabulary."""
    other = guided_drafter(folder, tmp_path / "other")
    write_config(other, msgspec.structs.replace(read_config(other), memory="00" * 16))
    return Drafter.load(other)


def asked(drafter: Drafter, said: Sequence[str]) -> list[int]:
    """The prompt that the recipe makes of a conversation: question, answer, question."""
    assert drafter.prompt is not None
    roles = ("user", "assistant", "user")
    return drafter.text.render(drafter.prompt.apply(list(zip(roles, said))))


async def test_the_own_target_reads_the_pages(tiny_pair: Path, guided: Drafter, served: Connect) -> None:
    async with served(drafter=guided, settings=Settings(mode="hosted", max_tokens=16)) as opened:
        conversation = opened.store.conversations.create("test").id
        first = await ask(opened, QUESTIONS[0], conversation)
        second = await ask(opened, QUESTIONS[1], conversation)
        thread = opened.store.branches.thread(conversation)
    prompt = asked(guided, QUESTIONS[:1])
    assert list(first.done.token_ids) == generated(tiny_pair, prompt, 16)
    longer = conversation_tokens(guided.text, thread[:3], guided.prompt)
    assert longer[: len(prompt) + 16] == [*prompt, *first.done.token_ids], "what was read before stays as it was"
    assert list(second.done.token_ids) == generated(tiny_pair, longer, 16)
    assert "tar tf" in guided.text.decode(longer[len(prompt) + 16 :])


async def test_what_was_asked_with_pages_is_learnt(folder: Path, verifier: VerifierProcess, tmp_path: Path) -> None:
    drafter, source = Drafter.load(folder), AddressSource(verifier.url)
    settings, learnt = Settings(mode="edge", max_tokens=16), tmp_path / "learnt"
    options = Options(Drafters(drafter), source, settings, modes=("edge",), learnt=learnt)
    with Store.open(tmp_path / "outrider.db") as store:
        async with Assistant(store, options) as opened:
            await until_connected(opened)
            await ask(opened, QUESTIONS[0])
        assert len(Learner(store, folder, learnt).lessons()) == 1


async def test_another_target_reads_the_plain_prompt_also_of_what_the_drafter_wrote_in_its_place(
    tiny_pair: Path, stranger: Drafter, connect: Connect, served: Connect
) -> None:
    plain = stranger.text.render([("user", QUESTIONS[0])])
    async with connect(None, drafter=stranger, settings=Settings(mode="offline", max_tokens=16)) as opened:
        drafted = await ask(opened, QUESTIONS[0])
    async with served(drafter=stranger, settings=Settings(mode="edge", max_tokens=16)) as opened:
        await opened.settled()
        judged, asked_anew = await hear(opened.verify(drafted.message)), await ask(opened, QUESTIONS[0])
    for heard in (judged, asked_anew):
        assert list(heard.done.token_ids) == generated(tiny_pair, plain, 16)


async def test_a_server_that_reads_text_gets_the_question_alone(guided: Drafter, connect: Connect) -> None:
    server = ChatServer([Script(["tar xf it"])])
    heard = await ask_once(connect(server, drafter=guided), QUESTIONS[0])
    assert heard.done.sources == ()
    assert [(one["role"], one["content"]) for one in server.asked[0]["messages"]] == [("user", QUESTIONS[0])]


async def test_the_drafter_alone_reads_them_too_and_the_context_counts_them(guided: Drafter, connect: Connect) -> None:
    async with connect(None, drafter=guided, settings=Settings(mode="offline", max_tokens=12)) as opened:
        conversation = opened.store.conversations.create("test").id
        first, _ = [await ask(opened, question, conversation) for question in QUESTIONS]
        thread = opened.store.branches.thread(conversation)[:3]
        exact = len(conversation_tokens(guided.text, thread, guided.prompt))
        assert abs(conversation_length(guided.text, thread, guided.prompt) - exact) <= 6
        counted = opened.context(conversation)
        assert counted is not None and counted.used > exact > len(conversation_tokens(guided.text, thread)) + 50
    context = guided.context()
    context.commit(asked(guided, QUESTIONS[:1]))
    assert list(first.done.token_ids) == list(islice(chain.from_iterable(context.generate(0.0, 0)), 12))


async def test_examples_are_left_out_of_a_long_conversation(guided: Drafter, database: Path, served: Connect) -> None:
    """Nobody has said how much the model reads when the prompt is made."""
    with Store.open(database) as store:
        conversation, last = store.conversations.create("test").id, None
        for role, said in (("user", QUESTIONS[0]), ("assistant", "tar xf it")) * 5:
            last = store.messages.add(conversation, role, said, parent_id=last, status="done").id  # type: ignore[arg-type]
    async with served(drafter=guided, settings=Settings(max_tokens=5)) as opened:
        heard = await ask(opened, QUESTIONS[0], conversation)
        most, context = opened.backend.routing.most_read, opened.context(conversation)
        whole = conversation_tokens(guided.text, opened.store.branches.thread(conversation)[:-1], guided.prompt)
        options = Options(Drafters(guided), None, Settings(mode="offline", max_tokens=5), most_read=lambda: most)
        async with Assistant(opened.store, options) as alone:
            written = await ask(alone, QUESTIONS[0], conversation)
    assert most is not None and len(whole) > most
    assert heard.done.stats.read < FULL * most
    assert context is not None and context.limit == most and context.used < most
    assert written.done.stats.read < FULL * most, "it reads as the model did"


def test_all_conversations_begin_alike(guided: Drafter) -> None:
    shared = shared_prefix(guided.text, guided.prompt)
    one, other = asked(guided, ["sort a file"]), asked(guided, ["what is eating my disk"])
    assert one[:shared] == other[:shared] and shared > 5
