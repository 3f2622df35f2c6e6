"""Stored answers as the second stage finds them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.config import Settings
from app.drafting.retrieval import Retrieval
from drafter.ngram import BREAK, save_datastore
from drafter.runtime import Drafter
from models.config import DATASTORE, DrafterCorrupt, read_config, write_config
from storage import Store
from tests.support.conversing import ask, assistant


def answered(store: Store, tokens: Sequence[int], said: str) -> None:
    conversation = store.conversations.create("stored").id
    question = store.messages.add(conversation, "user", "list files", parent_id=None, status="done")
    answer = store.messages.add(conversation, "assistant", "", parent_id=question.id, status="pending")
    store.messages.finish(answer.id, tokens, [False] * len(tokens), said, "done", {})


async def test_answers_are_read_oldest_first_and_again_when_there_are_more(drafter: Drafter, store: Store) -> None:
    opening, decode = drafter.text.answer_opening(), drafter.text.decode
    assert opening and drafter.text.render([("user", "show disk usage")])[-len(opening) :] == opening
    answered(store, [7, 8, 9], decode([7, 8, 9]))
    answered(store, [7, 5], decode([7, 5]))
    answered(store, [10, 11], "by another tokenizer")
    retrieval = Retrieval(drafter, store)
    assert retrieval.indices == ()
    retrieval.refresh()
    await retrieval.close()
    assert retrieval.indices[0].tokens.tolist() == [*opening, 7, 8, 9, BREAK, *opening, 7, 5, BREAK]
    answered(store, [6], decode([6]))
    retrieval.refresh()
    await retrieval.close()
    assert retrieval.indices[0].tokens.tolist()[-len(opening) - 2 :] == [*opening, 6, BREAK]


@pytest.fixture
def folder(tiny_pair: Path, tmp_path: Path) -> Path:
    """A drafter that brings texts of its own."""
    folder = shutil.copytree(tiny_pair / "drafter", tmp_path / "drafter")
    save_datastore(folder / DATASTORE, [[4, 5, 6], [7, 8]])
    write_config(folder, read_config(folder))
    return folder


async def test_the_drafters_own_texts_stand_beside_them(folder: Path, store: Store) -> None:
    loaded = Drafter.load(folder)
    answered(store, [9], loaded.text.decode([9]))
    retrieval = Retrieval(loaded, store)
    for _ in range(2):
        retrieval.refresh()
        await retrieval.close()
        assert [index.tokens.tolist()[-4:] for index in retrieval.indices][1] == [BREAK, 7, 8, BREAK]
        assert retrieval.indices[0].tokens.tolist()[-2:] == [9, BREAK]


async def test_a_damaged_datastore_costs_guesses_and_nothing_else(folder: Path, store: Store) -> None:
    (folder / DATASTORE).write_bytes(b"damaged")
    drafter = Drafter.load(folder)
    answered(store, [9], drafter.text.decode([9]))
    with pytest.raises(DrafterCorrupt, match="checksum"):
        drafter.datastore()
    retrieval = Retrieval(drafter, store)
    retrieval.refresh()
    await retrieval.close()
    assert retrieval.indices[0].tokens.tolist()[-2:] == [9, BREAK]


async def test_the_second_stage_changes_no_answer_and_is_counted(drafter: Drafter, tmp_path: Path) -> None:
    answers, guessed = [], []
    for second_stage in (True, False):
        settings = Settings(mode="offline", max_tokens=60, temperature=0.6, seed=3, second_stage=second_stage)
        async with assistant(drafter, tmp_path / f"{second_stage}.db", None, settings=settings) as opened:
            conversation = opened.store.conversations.create("twice").id
            heard = [await ask(opened, question, conversation) for question in ("list files", "and again")]
            heard.append(await ask(opened, "list files"))  # Asked before, in another conversation.
        answers.append([(one.text, one.done.token_ids) for one in heard])
        guessed.append([one.done.stats.second_stage for one in heard])
    assert answers[0] == answers[1]
    assert guessed[0][2] > 0 and guessed[1] == [0, 0, 0]
