"""An answer that was drafted offline is verified when the line is back: what is kept, replaced, and said of it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config import Settings
from app.events import Judged
from app.reply.assistant import Assistant
from app.reply.judgement import MOST_UNITS, compare, stored_judgement
from drafter.runtime import Drafter
from storage import Message
from tests.app.reply.conftest import Tokens
from tests.support.conversing import Heard, ask, hear, stored_answer

SETTINGS = Settings(max_tokens=40)


@pytest.fixture
def own(own: Tokens) -> Tokens:
    """As many of the target's tokens as an answer has here."""
    return own[:40]


def drafted(opened: Assistant, tokens: Tokens, verified: int = 0) -> Message:
    """A stored answer of these tokens, of which the first are verified."""
    return stored_answer(opened, tokens, verified=verified)


async def verify(opened: Assistant, message_id: str) -> tuple[Heard, Judged | None]:
    heard = await hear(opened.verify(message_id))
    return heard, heard.judged


async def test_what_the_target_agrees_with_stays(opened: Assistant, own: Tokens) -> None:
    answer = drafted(opened, own)
    heard, judged = await verify(opened, answer.id)
    assert heard.done.token_ids == own and all(heard.done.provenance)
    assert judged == Judged(answer.id, 40, 40, "", len(answer.text))
    assert str(judged) == "the model kept all 40 drafted tokens"
    assert heard.done.stats.rounds <= 5, "drafts as deep as the verifier takes them"
    assert heard.reply.solid == answer.text and heard.reply.ghost == ""
    verified = opened.store.branches.thread(answer.conversation_id)[-1]
    assert (verified.id, verified.tokens, verified.status) == (heard.message, own, "done")
    assert stored_judgement(verified, answer) == judged
    assert verified.verifies == answer.id
    assert opened.store.messages.get(answer.id) == answer


@pytest.mark.parametrize(("verified", "departs"), [(0, 0), (10, 17)])
async def test_what_it_does_not_keep_is_told_and_its_own_answer_stands_beside(
    opened: Assistant, drafter: Drafter, own: Tokens, verified: int, departs: int
) -> None:
    other = own[-1] if own[departs] != own[-1] else own[-2]
    answer = drafted(opened, (*own[:departs], other, *own[departs + 1 : 39]), verified)
    heard, judged = await verify(opened, answer.id)
    assert heard.done.token_ids == own and all(heard.done.provenance)
    assert judged is not None
    assert (judged.kept, judged.of) == (departs - verified, 39 - verified)
    assert judged.dropped and answer.text.endswith(judged.dropped)
    assert heard.done.stats.verified == 40 - verified
    assert heard.text == drafter.text.decode(own)
    assert [one.id for one in opened.store.messages.of(answer.conversation_id)[1:]] == [answer.id, heard.message]


async def test_one_of_another_vocabulary_is_judged_by_text(opened: Assistant, drafter: Drafter, own: Tokens) -> None:
    said = drafter.text.decode(own[:10]) + "or so"
    tokens = tuple(reversed(range(10, 30)))
    conversation = opened.store.conversations.create("by another drafter").id
    pending = opened.store.messages.ask(conversation, "list files", parent_id=None)
    opened.store.messages.finish(pending.id, tokens, [at < 15 for at in range(20)], said, "done", {})
    heard, judged = await verify(opened, pending.id)
    assert heard.done.token_ids == own and all(heard.done.provenance)
    assert judged is not None and judged.of == len(drafter.text.encode(said))
    assert opened.store.messages.get(pending.id).tokens == tokens, "a message never changes"
    assert (await ask(opened, "and now?", conversation)).done


async def test_what_is_verified_needs_no_verification(opened: Assistant) -> None:
    answer = drafted(opened, (5, 6, 7), verified=3)
    heard, _ = await verify(opened, answer.id)
    assert heard.failed is not None and "checked already" in heard.failed.message
    heard, _ = await verify(opened, "c0ffee")
    assert heard.failed is not None and "c0ffee" in heard.failed.message


async def test_stopped_it_leaves_the_drafted_answer_where_it_was(opened: Assistant, own: Tokens) -> None:
    answer = drafted(opened, own[:3])
    heard = await hear(opened.verify(answer.id), lambda heard: opened.stop())
    assert not heard.of(Judged)
    thread = opened.store.branches.thread(answer.conversation_id)
    assert thread[-1] == answer
    assert opened.store.messages.of(answer.conversation_id)[-1].status == "stopped"


# ---- what is said of it ----------------------------------------------------------------------------------------------


TEXTS = st.lists(st.sampled_from(["tar", "-x", "file", "a", "```sh", "\n", "\x1b[2J"]), max_size=30).map(" ".join)


def count(text: str) -> int:
    """Words, without the marks of code blocks."""
    return sum(not word.startswith("```") for word in text.split())


@pytest.mark.parametrize(
    ("drafted", "answer", "kept", "dropped"),
    [
        ("use tar -xf file", "Hello! You can  use\ntar -xf file now", 4, ""),
        ("use tar xf file now", "use tar -xf file", 3, "… xf\n\n… now"),
        ("Run:\n\n```sh\nls -l\n```\n", "Run:\n\n```sh\nls -a\n```\n", 2, "… -l"),
        ("Run:\n\n```sh\nls -l\n```\n", "Run: du", 1, "… ls -l"),
        ("a \x1b[2Jb c", "a c", 2, "… b"),
        ("", "tar", 0, ""),
    ],
)
def test_words_are_compared_in_their_order(drafted: str, answer: str, kept: int, dropped: str) -> None:
    found = compare(drafted, answer)
    assert (found.kept, found.of, found.dropped) == (kept, count(drafted), dropped)


@given(TEXTS, TEXTS)
def test_it_keeps_all_of_itself_and_never_more_than_there_is(one: str, other: str) -> None:
    assert compare(one, one).kept == compare(one, one).of == count(one)
    found = compare(one, other)
    assert 0 <= found.kept <= min(count(one), count(other))
    assert "\x1b" not in found.dropped


def test_long_texts_are_compared_by_lines_and_a_hostile_answer_costs_little_time() -> None:
    lines = [f"{number} is a line of seven words here" for number in range(1000)]
    other = lines[:400] + ["something else"] * 200 + lines[600:]
    found = compare("\n".join(lines), "\n".join(other))
    assert (found.kept, found.of) == (800 * 8, 8000) and found.dropped.startswith("… 400 is")
    began = time.process_time()
    compare("a b " * MOST_UNITS, "b a\n" * 200_000)
    assert time.process_time() - began < 20
