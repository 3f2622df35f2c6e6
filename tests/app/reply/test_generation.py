"""One answer while it is written: it ends with the first token that ends answers, and is never longer than allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from app.config import Settings
from app.drafting.drafting import Drafting
from app.drafting.prompt import FULL, conversation_tokens
from app.drafting.readings import Conversation
from app.remotes.peer import VerifierSession
from app.reply.answer import Answer
from app.reply.generation import Generation, GenerationInput
from drafter.runtime import Drafter
from remote.protocol import Sampling
from storage import Message, Store
from tests.support.guide_pages import guided_drafter
from tests.support.tiny_text import END


@pytest.fixture
def generation(tiny_pair: Path, tmp_path: Path) -> Iterator[Generation]:
    """A generation of at most 6 tokens."""
    drafter = Drafter.load(tiny_pair / "drafter")
    with Store.open(tmp_path / "outrider.db") as store, ThreadPoolExecutor(1) as thread:
        given = GenerationInput(
            Conversation(drafter.text, [asked("list files")], None, None, 8192),
            messages=[("user", "list files")],
            text=drafter.text,
            settings=Settings(),
            sampling=Sampling(),
            most=6,
            draft=True,
        )
        drafting = Drafting(drafter, store, store.conversations.create().id, thread)
        yield Generation(
            given,
            drafting=drafting,
            session=VerifierSession(),
            connection=None,
            begun=Answer(drafter.text),
            stopping=asyncio.Event(),
        )


def asked(question: str) -> Message:
    return Message("m", "c", None, "user", question, "done", (), (), {}, "2026-01-01")


@pytest.fixture
def words(generation: Generation) -> list[int]:
    """Twelve tokens of text."""
    return generation.given.text.encode("list files and folders by name and size and more")[:12]


def test_what_comes_after_the_end_is_not_part_of_the_answer(generation: Generation, words: list[int]) -> None:
    """A verifier may send it, if other tokens end an answer there."""
    generation.verify([*words[:2], END, *words[2:4]], from_draft=4)
    assert generation.answer.tokens == [*words[:2], END] and generation.answer.verified == 3
    assert generation.reason == "end"


def test_it_is_never_longer_than_allowed(generation: Generation, words: list[int]) -> None:
    generation.verify(words[:4], from_draft=3)
    assert generation.reason is None
    generation.verify(words[4:8], from_draft=3)
    assert generation.answer.tokens == words[:6] and generation.reason == "length"


def test_nor_by_what_a_model_on_this_device_writes(generation: Generation, words: list[int]) -> None:
    generation.answer.join("small one")
    generation.draft_text(generation.given.text.decode(words[:5]))
    assert generation.reason is None
    generation.draft_text(generation.given.text.decode(words[5:]))
    assert generation.answer.tokens == words[:6] and generation.reason == "length"


async def test_examples_that_were_left_out_once_stay_out(
    generation: Generation, tiny_pair: Path, tmp_path: Path
) -> None:
    """Whoever goes on with an answer reads what the one before it has read."""
    guided = Drafter.load(guided_drafter(tiny_pair / "drafter", tmp_path / "drafter"))
    thread: list[Message] = []
    for number in range(4):
        thread += [asked(f"untar photos{number}.tar.gz"), replace(asked("ls"), role="assistant")]
    thread.append(asked("list files"))
    whole, brief = (conversation_tokens(guided.text, thread, guided.prompt, brief=brief) for brief in (False, True))
    assert len(brief) < len(whole)
    conversation = Conversation(guided.text, thread, None, guided.prompt, 8192)
    generation.given = replace(generation.given, conversation=conversation)
    fits = ceil(len(whole) / FULL)
    for most_read, read in ((fits, whole), (fits - 2, brief), (8192, brief)):
        await generation.address(own_target=True, most_read=most_read)
        assert generation.prompt == read and generation.committed == read
    await generation.address(own_target=False, most_read=8192)
    assert generation.prompt == conversation_tokens(guided.text, thread)
