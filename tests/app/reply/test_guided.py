"""A drafter with a prompt recipe: its own target reads pages before each question, and marks in place of names.

Nobody else reads pages, and people see names, also of what was stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import msgspec
import pytest

from app.archive.exporter import export_pieces
from app.config import Settings
from app.drafting.learning import Learner
from app.drafting.prompt import FULL, conversation_length, conversation_tokens, is_spelt, marks_said
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from models.config import read_config, write_config
from models.guide.names import MARKS, names_said
from storage import Message, Store
from tests.app.reply.conftest import Connect
from tests.app.reply.test_assistant import generated
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import ask, ask_once, hear, until_connected
from tests.support.guide_pages import guided_drafter
from tests.support.made_once import made_once
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


# ---- marks and names -------------------------------------------------------------------------------------------------


NAMES = ("report_1", "/srv/in_2", "web03", "fix/login", "10.0.0.7", "8080", "q3_plan", "Img2034", "notes_9")
NAMING = (f"unpack {' and '.join(NAMES[:8])}", f"and list {NAMES[8]}.txt?")
"""Each mark has a name, and the second question gives the first mark to another."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.tiny import build_pair

    return made_once(tmp_path_factory, "tiny-pair-with-marks", lambda folder: build_pair(folder, marks=True))


@pytest.fixture(scope="module")
def names(pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Drafter:
    return Drafter.load(guided_drafter(pair / "drafter", tmp_path_factory.mktemp("guided") / "drafter"))


@pytest.fixture(scope="module")
def marking(pair: Path) -> Iterator[VerifierProcess]:
    """The target of that pair."""
    with VerifierProcess(pair) as process:
        yield process


def says_a_name(drafter: Drafter, message: Message) -> bool:
    """Whether its tokens say marks, and its text has names in their place."""
    said = drafter.text.decode(message.tokens)
    known = names_said(said, message.text)
    assert known is not None and set(known.values()) <= set(NAMES)
    assert not any(mark in message.text for mark in MARKS)
    return any(known.values())


async def test_the_target_says_marks_and_names_are_shown(
    pair: Path, names: Drafter, marking: VerifierProcess, connect: Connect
) -> None:
    async with connect(marking.url, drafter=names, settings=Settings(mode="edge", max_tokens=60)) as opened:
        conversation = opened.store.conversations.create("test").id
        heard = [await ask(opened, question, conversation) for question in NAMING]
        thread = opened.store.branches.thread(conversation)
        spans = [opened.drafted_spans(message) for message in thread[1::2]]
    assert names.prompt is not None
    first = names.text.render(names.prompt.asked_as(NAMING[:1]))
    assert list(heard[0].done.token_ids) == generated(pair, first, 60)
    assert says_a_name(names, thread[1]) and is_spelt(names.text, thread[1])
    assert heard[0].text == thread[1].text, "the screen shows what is stored"
    longer = conversation_tokens(names.text, thread[:3], names.prompt)
    assert longer[: len(first) + len(thread[1].tokens)] == [*first, *thread[1].tokens]
    assert list(heard[1].done.token_ids) == generated(pair, longer, 60)
    assert spans == [[], []], "everything was checked"


async def test_the_drafter_alone_says_them_too_and_names_are_exported(names: Drafter, connect: Connect) -> None:
    async with connect(None, drafter=names, settings=Settings(mode="offline", max_tokens=60)) as opened:
        conversation = opened.store.conversations.create("test").id
        heard = await ask(opened, NAMING[0], conversation)
        answer = opened.store.messages.get(heard.message)
        assert says_a_name(names, answer)
        assert opened.drafted_spans(answer) == [(0, len(answer.text))]
        exported = "".join(export_pieces(opened.store, [conversation], "md", settings=Settings(), branches=False))
    assert answer.text in exported and not any(mark in exported for mark in MARKS)


async def test_an_answer_that_was_cut_goes_on_with_its_names(pair: Path, names: Drafter, connect: Connect) -> None:
    async with connect(None, drafter=names, settings=Settings(mode="offline", max_tokens=30)) as opened:
        conversation = opened.store.conversations.create("test").id
        cut = await ask(opened, NAMING[0], conversation)
        begun = opened.store.messages.get(cut.message)
        heard = await hear(opened.resume(cut.message))
        whole = opened.store.messages.get(heard.message)
    assert whole.tokens[: len(begun.tokens)] == begun.tokens and len(whole.tokens) > len(begun.tokens)
    assert whole.text.startswith(begun.text) and says_a_name(names, whole)
    assert marks_said(names.text, whole).shown(names.text.decode(whole.tokens)) == whole.text
