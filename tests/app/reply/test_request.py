"""Edit, regenerate and continue, with a real verifier and offline."""

from __future__ import annotations

import json
from contextlib import aclosing
from functools import partial

import pytest

from app.config import Settings
from app.events import Dropped, Judged, Redrawn, Started
from app.reply import backend as backend_module
from app.reply import routing as routing_module
from app.reply.assistant import Assistant
from app.reply.errors import NoAnswer
from app.reply.request import FRESH_TEMPERATURE, resume
from drafter.runtime import Drafter
from models.text.chat_text import ChatText
from tests.app.reply.conftest import Connect, Tokens
from tests.support.conversing import ask, hear, stored_answer, until_mode
from tests.support.tiny_text import CHAT_TEMPLATE, END, train_tokenizer

SETTINGS = Settings(max_tokens=24)
QUESTION = "list files"
stored = partial(stored_answer, status="stopped")


async def test_an_edited_question_is_a_branch_of_its_own(opened: Assistant) -> None:
    store, conversation = opened.store, opened.store.conversations.create("two branches").id
    await ask(opened, "show disk usage", conversation)
    await ask(opened, QUESTION, conversation)
    before = store.branches.thread(conversation)
    heard = await hear(opened.edit(before[2].id, "and hidden ones"))
    assert all(heard.done.provenance)
    after = store.branches.thread(conversation)
    assert after[:2] == before[:2] and [message.text for message in after[2:]] == ["and hidden ones", heard.text]
    assert store.branches.versions(conversation) == {after[2].id: (2, 2)}
    assert store.branches.path(before[-1].id) == before
    other = store.conversations.create("asked at once").id
    await ask(opened, "show disk usage", other)
    assert (await ask(opened, "and hidden ones", other)).text == heard.text, "it reads its own branch only"
    further = await ask(opened, "and now?", conversation)
    assert [message.id for message in store.branches.thread(conversation)[:4]] == [message.id for message in after]
    assert store.messages.get(further.message).parent_id == store.branches.thread(conversation)[4].id
    for refused in (opened.edit(after[1].id, "no question"), opened.edit("c0ffee", "nothing")):
        heard = await hear(refused)
        assert heard.failed is not None and heard.failed.message
    assert len(store.messages.of(conversation)) == 8


async def test_an_answer_that_is_there_is_not_given_again(own: Tokens, served: Connect) -> None:
    async with served(settings=SETTINGS.replaced({"seed": 5}, "test")) as opened:
        await until_mode(opened, "edge")
        store, first = opened.store, await ask(opened, QUESTION)
        assert first.done.token_ids == own[:24]
        conversation = store.messages.get(first.message).conversation_id
        second = await hear(opened.regenerate(first.message))
        third = await hear(opened.regenerate(second.message))
        answers = [store.messages.get(heard.message) for heard in (first, second, third)]
        assert len({answer.tokens for answer in answers}) == 3
        assert [answer.stats["temperature"] for answer in answers] == [0.0, FRESH_TEMPERATURE, FRESH_TEMPERATURE]
        assert answers[1].stats["seed"] != answers[2].stats["seed"]
        said = [[str(event) for event in heard.of(Redrawn)] for heard in (first, second, third)]
        assert said[0] == [] and said[1] == said[2] and len(said[1]) == 1 and "temperature 0.8" in said[1][0]
        assert store.branches.siblings(first.message) == answers
        assert store.branches.thread(conversation)[1:] == answers[2:]
        assert all(all(answer.provenance) for answer in answers)


async def test_a_drafted_answer_given_again_is_the_targets_own(opened: Assistant, own: Tokens, alone: Tokens) -> None:
    drafted, stopped = stored(opened, alone[:24], verified=0, status="done"), stored(opened, own[:5])
    for one in (drafted, stopped, stored(opened, (), status="done")):
        heard = await hear(opened.regenerate(one.id))
        assert heard.done.token_ids == own[:24] and all(heard.done.provenance), "it was not there yet"


async def test_without_a_line_the_drafter_gives_another_one(alone_here: Assistant, own: Tokens, alone: Tokens) -> None:
    drafted = stored(alone_here, alone[:24], verified=0, status="done")
    heard = await hear(alone_here.regenerate(drafted.id))
    assert heard.done.token_ids != alone[:24] and not any(heard.done.provenance)
    verified = stored(alone_here, own[:24], status="done")
    heard = await hear(alone_here.regenerate(verified.id))
    assert heard.done.token_ids == alone[:24], "the drafter's own was not there yet"


async def test_a_question_without_an_answer_is_answered(alone_here: Assistant, alone: Tokens) -> None:
    store, answer = alone_here.store, stored(alone_here, (5, 6), status="done")
    store.bin.delete_message(answer.id)
    (question,) = store.branches.thread(answer.conversation_id)
    heard = await hear(alone_here.regenerate(question.id))
    assert heard.done.token_ids == alone[:24]
    assert [message.id for message in store.branches.thread(answer.conversation_id)] == [question.id, heard.message]
    lone = store.messages.add(store.conversations.create().id, "assistant", "hi", parent_id=None, status="done")
    for nothing in (lone.id, "c0ffee", answer.id):
        heard = await hear(alone_here.regenerate(nothing))
        assert heard.failed is not None and heard.failed.message and len(heard.events) == 1


@pytest.mark.parametrize(
    ("mode", "there", "verified"), [("edge", 1, None), ("edge", 20, 12), ("hosted", 20, None), ("hosted", 9, 0)]
)
async def test_a_stopped_answer_goes_on_as_if_it_had_not_been(
    own: Tokens, mode: str, there: int, verified: int | None, served: Connect
) -> None:
    settings = SETTINGS.replaced({"mode": mode, "max_tokens": 48 - there}, "test")
    async with served(settings=settings, met=True) as opened:
        cut = stored(opened, own[:there], verified=verified)
        heard = await hear(opened.resume(cut.id))
        assert heard.done.token_ids == own and all(heard.done.provenance) and heard.done.reason == "length"
        assert heard.done.stats.verified == 48 - (there if verified is None else verified)
        judged = [str(event) for event in heard.of(Judged)]
        drafted = 0 if verified is None else there - verified
        assert judged == ([f"the model kept all {drafted} drafted tokens"] if drafted else [])
        resumed = opened.store.branches.thread(cut.conversation_id)[-1]
        assert (resumed.id, resumed.tokens, resumed.resumes) == (heard.message, own, cut.id)
        assert heard.text == resumed.text and heard.text.startswith(cut.text)
        assert opened.store.messages.get(cut.id) == cut
        assert opened.store.branches.versions(cut.conversation_id) == {resumed.id: (2, 2)}


async def test_what_the_target_does_not_keep_of_it_is_told(opened: Assistant, own: Tokens) -> None:
    other = next(token for token in own if token != own[12])
    cut = stored(opened, (*own[:12], other, *own[13:20]), verified=10)
    opened.outbox.enqueue_verification(cut.id)
    heard = await hear(opened.resume(cut.id))
    assert heard.done.token_ids == own[:44] and all(heard.done.provenance)
    (judged,) = heard.of(Judged)
    assert (judged.message, judged.kept, judged.of) == (cut.id, 2, 10) and cut.text.endswith(judged.dropped)
    assert opened.outbox.queued() == [], "it is verified along the way"


async def test_a_sampled_answer_goes_on_with_the_coin_it_was_begun_with(served: Connect) -> None:
    async with served(settings=Settings(max_tokens=48, temperature=0.7, top_p=0.9)) as opened:
        await until_mode(opened, "edge")
        whole = await ask(opened, QUESTION)
        assert whole.done
        answer = opened.store.messages.get(whole.message)
        cut = stored(opened, answer.tokens[:17], stats=answer.stats)
    async with served(settings=SETTINGS.replaced({"max_tokens": 31}, "test")) as opened:  # Greedy by now.
        await until_mode(opened, "edge")
        heard = await hear(opened.resume(cut.id))
        assert heard.done.token_ids == whole.done.token_ids
        assert opened.store.messages.get(heard.message).stats["seed"] == answer.stats["seed"]
        strange = stored(opened, answer.tokens[:17], stats={"temperature": -1.0, "seed": "x"})
        heard = await hear(opened.resume(strange.id))
        assert heard.done and opened.store.messages.get(heard.message).stats["temperature"] == 0.0


async def test_the_drafter_goes_on_alone(alone_here: Assistant, own: Tokens, alone: Tokens) -> None:
    cut = stored(alone_here, alone[:24], verified=0)
    heard = await hear(alone_here.resume(cut.id))
    assert heard.done.token_ids == alone and not any(heard.done.provenance)
    ended = stored_answer(alone_here, alone, verified=0, stats={"reason": "end", "drafted": len(alone)})
    again = await hear(alone_here.resume(ended.id))
    assert again.failed is not None and "complete, and not checked" in again.failed.message
    verified = stored(alone_here, own[:10])
    heard = await hear(alone_here.resume(verified.id))
    assert heard.done.token_ids[:10] == own[:10]
    assert heard.done.provenance == (True,) * 10 + (False,) * 24


async def test_what_was_withdrawn_stands_where_the_text_is_the_same(opened: Assistant, own: Tokens) -> None:
    other = next(token for token in own if token != own[12])
    tokens = (*own[:12], other, *own[13:20])
    text = stored(opened, tokens, verified=10).text
    withdrawn = [[0, "near"], [len(text), "far"]]
    drafted = stored(opened, tokens, verified=10, stats={"withdrawn": withdrawn}, status="done")
    heard = await hear(opened.verify(drafted.id))
    assert heard.done
    near, far = heard.withdrawn
    assert near == Dropped(0, "near") and far.text == "far"
    assert 0 < far.at < len(text) and text[: far.at] == heard.text[: far.at]
    assert opened.store.messages.get(heard.message).stats["withdrawn"] == [[0, "near"], [far.at, "far"]]


async def test_what_was_checked_is_not_marked_as_written_here(opened: Assistant, own: Tokens, drafter: Drafter) -> None:
    cut = opened.store.messages.ask(opened.store.conversations.create().id, QUESTION, parent_id=None)
    stretches = [{"at": 0, "writer": "talker", "here": False}, {"at": 3, "writer": "small one", "here": True}]
    opened.store.messages.finish(cut.id, (), (), drafter.text.decode(own[:12]), "stopped", {"stretches": stretches})
    heard = await hear(opened.resume(cut.id))
    assert all(heard.done.provenance), heard.failed
    assert heard.done.stretches == () and "stretches" not in opened.store.messages.get(heard.message).stats


async def test_one_that_is_left_at_once_keeps_who_wrote_it(connect: Connect) -> None:
    stretches = [{"at": 0, "writer": "talker", "here": False}, {"at": 3, "writer": "small one", "here": True}]
    async with connect(None, settings=SETTINGS) as opened:
        cut = stored(opened, (5, 6), stats={"stretches": stretches, "withdrawn": [[3, "-l"]], "rounds": 2})
        async with aclosing(opened.resume(cut.id)) as events:
            started = await anext(events)
        assert isinstance(started, Started)
        left = opened.store.messages.get(started.message)
        assert left.stats["stretches"] == stretches and left.stats["withdrawn"] == [[3, "-l"]]
        killed = opened.store.messages.resume(cut.id)
        assert killed.stats["stretches"] == stretches, "as if the program was killed before the first checkpoint"


async def test_what_cannot_go_on_says_why(alone_here: Assistant, monkeypatch: pytest.MonkeyPatch) -> None:
    store, text = alone_here.store, alone_here.backend.routing.drafters.first.text
    whole = stored(alone_here, (5, 6, min(text.stop_tokens)), status="done")
    ended = stored(alone_here, (5, 6), status="done", stats={"reason": "end"})
    empty = stored(alone_here, (), status="failed")
    writing = store.messages.ask(whole.conversation_id, "and now?", parent_id=whole.id)
    refused = {
        whole.id: "complete",
        ended.id: "complete",
        empty.id: "no text to continue; ask for another answer",
        writing.id: "still being written",
        store.branches.thread(ended.conversation_id)[0].id: "question",
        "c0ffee": "c0ffee",
    }
    before = [store.messages.of(conversation.id) for conversation in store.conversations.all()]
    for message_id, why in refused.items():
        heard = await hear(alone_here.resume(message_id))
        assert heard.failed is not None and why in heard.failed.message and len(heard.events) == 1
    assert [store.messages.of(conversation.id) for conversation in store.conversations.all()] == before

    cut = stored(alone_here, (5, 6))
    for module in (backend_module, routing_module):
        monkeypatch.setattr(module, "CONTEXT_TOKENS", 3)
    heard = await hear(alone_here.resume(cut.id))
    assert heard.failed is not None and heard.failed.code == "too_long"
    assert store.messages.get(heard.message).tokens == cut.tokens, "nothing is lost"
    assert store.branches.thread(cut.conversation_id)[-1].text == cut.text


async def test_an_answer_without_tokens_goes_on_where_it_can_be_spelt(drafter: Drafter, connect: Connect) -> None:
    small_letters = json.loads(train_tokenizer().to_str()) | {"normalizer": {"type": "Lowercase"}}
    text = ChatText(json.dumps(small_letters).encode(), CHAT_TEMPLATE, (END,))
    async with connect(None, settings=SETTINGS) as opened:
        capital = opened.store.messages.ask(opened.store.conversations.create().id, QUESTION, parent_id=None)
        opened.store.messages.finish(capital.id, (), (), "LS", "stopped", {})
        with pytest.raises(NoAnswer, match="it cannot be continued"):
            resume(opened.store, SETTINGS, capital.id, text)
        assert opened.store.branches.siblings(capital.id) == [opened.store.messages.get(capital.id)]
        imported = opened.store.messages.ask(opened.store.conversations.create().id, QUESTION, parent_id=None)
        opened.store.messages.finish(imported.id, (), (), "ls -a", "stopped", {})
        heard = await hear(opened.resume(imported.id))
        assert heard.done and heard.text.startswith("ls -a")
        assert len(heard.done.token_ids) == len(drafter.text.encode("ls -a")) + 24
