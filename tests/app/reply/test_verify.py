"""An answer that was drafted offline is verified when the line is back: what the target keeps and what it replaces."""

from __future__ import annotations

import pytest

from app.config import Settings
from app.events import Judged
from app.reply.assistant import Assistant
from app.reply.judgement import stored_judgement
from drafter.runtime import Drafter
from storage import Message
from tests.app.reply.conftest import Connect, Tokens
from tests.support.conversing import Heard, ask, hear, stored_answer, until_mode
from tests.support.serving import VerifierProcess

SETTINGS = Settings(max_tokens=40)
OFFLINE = Settings(mode="offline", max_tokens=40)
NOBODY = "http://127.0.0.1:9"
QUESTION = "list files"


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


@pytest.mark.parametrize(("verified", "departs"), [(0, 0), (0, 23), (10, 17)])
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


async def test_an_answer_of_another_vocabulary_is_judged_by_what_it_says(
    opened: Assistant, drafter: Drafter, own: Tokens
) -> None:
    said = drafter.text.decode(own[:10]) + "or so"
    tokens = tuple(reversed(range(10, 30)))
    conversation = opened.store.conversations.create("by another drafter").id
    pending = opened.store.messages.ask(conversation, QUESTION, parent_id=None)
    opened.store.messages.finish(pending.id, tokens, [at < 15 for at in range(20)], said, "done", {})
    heard, judged = await verify(opened, pending.id)
    assert heard.done.token_ids == own and all(heard.done.provenance)
    assert judged is not None and judged.of == len(drafter.text.encode(said))
    assert opened.store.messages.get(pending.id).tokens == tokens, "a message never changes"
    prompt = await ask(opened, "and now?", conversation)
    assert prompt.done


async def test_a_conversation_begun_offline_goes_on_with_the_target(
    verifier: VerifierProcess, drafter: Drafter, own: Tokens, connect: Connect
) -> None:
    async with connect(verifier.url, settings=SETTINGS) as opened:
        earlier = opened.store.conversations.create("earlier").id
        for question in ("show disk usage", "of this folder"):  # Its memory is that of the system prompt as well.
            await ask(opened, question, earlier)
    async with connect(None, settings=OFFLINE) as opened:
        conversation = opened.store.conversations.create("begun offline").id
        alone = await ask(opened, QUESTION, conversation)
        assert not any(alone.done.provenance)
        drafting, _ = opened.backend.routing.pool._open[conversation]
        assert 0 < drafting.memory_from < len(drafter.text.render([("user", QUESTION)]))
    async with connect(verifier.url, settings=SETTINGS) as opened:
        await until_mode(opened, "edge")
        heard, judged = await verify(opened, alone.message)
        assert heard.done.token_ids == own
        assert judged is not None and judged.of == 40
        assert judged.kept == next((at for at in range(40) if alone.done.token_ids[at] != own[at]), 40)
        further = await ask(opened, "and hidden ones", conversation)
        assert all(further.done.provenance)
        thread = opened.store.branches.thread(conversation)
        assert [message.id for message in thread if message.role == "assistant"] == [heard.message, further.message]


async def test_what_was_said_since_stays_in_sight(opened: Assistant, own: Tokens) -> None:
    answer = drafted(opened, own[:20])
    further = await ask(opened, "and hidden ones", answer.conversation_id)
    heard, judged = await verify(opened, answer.id)
    assert judged is not None and judged.kept == judged.of == 20
    assert heard.done.token_ids == own, "it goes on where the draft ended"
    thread = opened.store.branches.thread(answer.conversation_id)
    assert [message.id for message in thread][1::2] == [answer.id, further.message]
    assert opened.store.messages.get(heard.message).parent_id == answer.parent_id


@pytest.mark.parametrize("url", [None, NOBODY])
async def test_without_a_verifier_it_says_so_and_stores_nothing(url: str | None, connect: Connect) -> None:
    async with connect(url, settings=SETTINGS) as opened:
        answer = drafted(opened, (5, 6, 7))
        await opened.settled()
        heard, judged = await verify(opened, answer.id)
        assert heard.failed is not None and heard.failed.code == "unavailable" and judged is None
        assert heard.failed.message.startswith("No server: ")
        assert len(opened.store.messages.of(answer.conversation_id)) == 2


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
