"""A drafter whose recipe marks names: models read and say marks, and people see names, also of what was stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.archive.exporter import export_pieces
from app.config import Settings
from app.drafting.prompt import conversation_tokens, is_spelt, least_length, marks_said
from drafter.runtime import Drafter
from models.guide.names import MARKS, names_said
from storage import Message
from tests.app.reply.conftest import Connect
from tests.app.reply.test_assistant import generated
from tests.support.conversing import ask, hear
from tests.support.guide_pages import guided_drafter
from tests.support.made_once import made_once
from tests.support.serving import VerifierProcess

NAMES = ("report_1", "/srv/in_2", "web03", "fix/login", "10.0.0.7", "8080", "q3_plan", "Img2034", "notes_9")
QUESTIONS = (f"unpack {' and '.join(NAMES[:8])}", f"and list {NAMES[8]}.txt?")
"""Each mark has a name, and the second question gives the first mark to another."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.tiny import build_pair

    return made_once(tmp_path_factory, "tiny-pair-with-marks", lambda folder: build_pair(folder, marks=True))


@pytest.fixture(scope="module")
def guided(pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Drafter:
    return Drafter.load(guided_drafter(pair / "drafter", tmp_path_factory.mktemp("guided") / "drafter"))


@pytest.fixture(scope="module")
def verifier(pair: Path) -> Iterator[VerifierProcess]:
    with VerifierProcess(pair) as process:
        yield process


def says_a_name(drafter: Drafter, message: Message) -> bool:
    """Whether its tokens say marks, and its text has names in their place."""
    said = drafter.text.decode(message.tokens)
    known = names_said(said, message.text)
    assert known is not None and set(known.values()) <= set(NAMES)
    assert not any(mark in message.text for mark in MARKS)
    return any(known.values())


async def test_the_target_says_marks_and_names_are_shown(pair: Path, guided: Drafter, served: Connect) -> None:
    async with served(drafter=guided, settings=Settings(mode="edge", max_tokens=60)) as opened:
        conversation = opened.store.conversations.create("test").id
        heard = [await ask(opened, question, conversation) for question in QUESTIONS]
        thread = opened.store.branches.thread(conversation)
        spans = [opened.drafted_spans(message) for message in thread[1::2]]
    assert guided.prompt is not None
    first = guided.text.render(guided.prompt.asked_as(QUESTIONS[:1]))
    assert list(heard[0].done.token_ids) == generated(pair, first, 60)
    assert says_a_name(guided, thread[1]) and is_spelt(guided.text, thread[1])
    assert heard[0].text == thread[1].text, "the screen shows what is stored"
    longer = conversation_tokens(guided.text, thread[:3], guided.prompt)
    assert longer[: len(first) + len(thread[1].tokens)] == [*first, *thread[1].tokens]
    assert list(heard[1].done.token_ids) == generated(pair, longer, 60)
    assert spans == [[], []], "everything was checked"


async def test_the_drafter_alone_says_them_too_and_names_are_exported(guided: Drafter, connect: Connect) -> None:
    async with connect(None, drafter=guided, settings=Settings(mode="offline", max_tokens=60)) as opened:
        conversation = opened.store.conversations.create("test").id
        heard = await ask(opened, QUESTIONS[0], conversation)
        answer = opened.store.messages.get(heard.message)
        assert says_a_name(guided, answer)
        assert opened.drafted_spans(answer) == [(0, len(answer.text))]
        exported = "".join(export_pieces(opened.store, [conversation], "md", settings=Settings(), branches=False))
    assert answer.text in exported and not any(mark in exported for mark in MARKS)


async def test_an_answer_that_was_cut_goes_on_with_its_names(pair: Path, guided: Drafter, connect: Connect) -> None:
    async with connect(None, drafter=guided, settings=Settings(mode="offline", max_tokens=30)) as opened:
        conversation = opened.store.conversations.create("test").id
        cut = await ask(opened, QUESTIONS[0], conversation)
        begun = opened.store.messages.get(cut.message)
        heard = await hear(opened.resume(cut.message))
        whole = opened.store.messages.get(heard.message)
    assert whole.tokens[: len(begun.tokens)] == begun.tokens and len(whole.tokens) > len(begun.tokens)
    assert whole.text.startswith(begun.text) and says_a_name(guided, whole)
    assert marks_said(guided.text, whole).shown(guided.text.decode(whole.tokens)) == whole.text


def test_a_name_in_an_answer_counts_as_its_mark(guided: Drafter) -> None:
    long = f"{'photos-and-more-' * 10}.tar.gz"
    turns = [("user", f"untar {long}"), ("assistant", f"tar xf {long}; " * 50), ("user", "thanks")]
    assert guided.prompt is not None
    exact = len(guided.text.render(guided.prompt.apply(turns)))
    assert len(guided.text.encode("".join(said for _, said in turns))) > 2 * exact, "an answer names it often"
    assert least_length(guided.text, turns, guided.prompt, 1_000_000) <= exact
