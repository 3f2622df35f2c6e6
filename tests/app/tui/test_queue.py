"""What waits for the server, and answers that were drafted without it."""

from __future__ import annotations

import asyncio

from textual.pilot import Pilot
from textual.widgets import Static

from app.events import Drafted, Event, Failed, Judged, ModeChanged, Verified
from app.tui.screens.queue import QueueScreen, Rewording
from app.tui.widgets.message import AnswerView, QuestionView
from app.tui.widgets.transcript import QueuedPrompts
from app.tui.widgets.welcome import Welcome
from storage import Message, Store
from tests.app.tui.scripted import ScriptedCore, Step, finished, press, shows, store_turns, wait_until
from tests.app.tui.window import Window, started

OFFLINE = ModeChanged("offline", "no route")
DRAFTED = "use tar xf file"
OWN = "use tar xvf file"


def drafted(store: Store) -> Message:
    """A stored conversation whose answer was drafted offline."""
    answer = store.messages.ask(store.conversations.create("drafted").id, "unpack", parent_id=None)
    store.messages.finish(answer.id, range(4), [False] * 4, DRAFTED, "done", {})
    return store.messages.get(answer.id)


def verification(answer: Message) -> list[Event]:
    """What comes of it where the target departs in the middle."""
    own = [Drafted(DRAFTED, 4), Verified("use tar ", 2, 2), Verified("xvf file", 2, 0)]
    return [*own, Judged(answer.id, 2, 4, "xf file"), finished(4)]


def notes(app: Window) -> list[str]:
    return [str(note.content) for note in app.screen.query("AnswerView > .note").results(Static)]


async def test_a_prompt_is_put_off_and_taken_back(store: Store) -> None:
    async with started(ScriptedCore(store, mode=OFFLINE)) as (app, pilot):
        await wait_until(pilot, lambda: "ctrl+s queue" in str(app.prompt.border_subtitle))
        await pilot.press("ctrl+s")
        assert not store.queue.all(), "nothing to put off"
        await press(pilot, *"one", "ctrl+s", until=lambda: app.waiting == ["one"])
        assert app.prompt.text == "" and not app.screen.query_one(Welcome).display
        await press(pilot, *"two", "ctrl+s", until=lambda: app.waiting == ["one", "two"])
        assert [queued.text for queued in store.queue.all()] == ["one", "two"]
        assert app.text("QueuedPrompts > .note") == "queued: sent when the server is back"
        await press(pilot, "ctrl+s", until=lambda: app.prompt.text == "two" and app.waiting == ["one"])
        await pilot.press("ctrl+u", "ctrl+s")
        await wait_until(pilot, lambda: app.prompt.text == "one" and app.screen.query_one(Welcome).display)
        assert store.conversations.all() == [] and app.chat.conversation.id is None


async def test_what_waits_is_sent_when_it_is_due(store: Store) -> None:
    hold = asyncio.Event()
    answer = drafted(store)
    asked: list[Step] = [Verified("un", 1, 0), hold, Verified("zip", 1, 0), finished(2)]
    core = ScriptedCore(store, [[Verified("here", 1, 0), finished(1)], asked, verification(answer)])
    core.outbox.enqueue(answer.conversation_id, "and zip?")
    core.outbox.enqueue_verification(answer.id)
    async with started(core) as (app, pilot):
        await app.chat.open_conversation(None)
        await pilot.press("a", "enter")  # Another conversation is open, and stays so.
        await wait_until(pilot, lambda: app.answers == ["here"])
        ask, verify = store.queue.all()
        core.outbox.returned.put_nowait(ask)
        await wait_until(pilot, lambda: answer.conversation_id in app.chat.conversation.replies)
        assert app.answers == ["here"] and not app.prompt.answering
        await app.chat.open_conversation(answer.conversation_id)
        await wait_until(pilot, lambda: app.questions == ["unpack", "and zip?"] and app.waiting == [])
        hold.set()
        await wait_until(pilot, lambda: app.answers == [DRAFTED, "unzip"])
        core.outbox.returned.put_nowait(verify)
        # Something was said since, so the drafted answer stays in sight.
        await wait_until(pilot, lambda: any("kept 2 of 4" in note for note in notes(app)))
        await wait_until(pilot, lambda: app.answers == [DRAFTED, "unzip"])
        assert not store.queue.all()
        await pilot.pause()  # A window that closes while it shows what is stored fails.


async def test_a_drafted_answer_is_verified_and_what_was_not_kept_is_told(store: Store) -> None:
    answer = drafted(store)
    async with started(ScriptedCore(store, [verification(answer)]), at=answer.conversation_id) as (app, pilot):
        await wait_until(pilot, lambda: "ctrl+t check" in str(app.prompt.border_subtitle))
        await press(pilot, "ctrl+t", until=lambda: app.answers == [OWN])
        for _ in range(2):
            await wait_until(pilot, lambda: notes(app) == ["2/2 · the model kept 2 of 4 drafted tokens"])
            assert app.text(".withdrawn") == "▸ 2 drafted words were not kept when the answer was checked"
            assert not app.screen.query_one(AnswerView).has_class("-drafted")
            assert "ctrl+t" not in str(app.prompt.border_subtitle)
            await app.chat.open_conversation(answer.conversation_id)  # As it is stored.
            await wait_until(pilot, lambda: app.answers == [OWN])
        await pilot.press("ctrl+t")
        assert len(store.messages.of(answer.conversation_id)) == 3, "there is nothing left to verify"


async def test_keys_act_on_the_question_of_an_answer_that_was_checked_meanwhile(store: Store) -> None:
    answer = drafted(store)
    async with started(ScriptedCore(store, [verification(answer)]), at=answer.conversation_id) as (app, pilot):
        await press(pilot, "alt+up", "alt+up", "v", until=lambda: app.answers == [OWN] and not app.prompt.answering)
        question = app.screen.query_one(QuestionView)
        await press(pilot, "alt+down", "alt+up", until=lambda: question.has_class("-cursor"))
        await pilot.click(question)
        await press(pilot, "tab", "alt+down", until=lambda: app.screen.query_one(AnswerView).has_class("-cursor"))


async def test_offline_a_drafted_answer_is_marked_to_be_verified_and_other_words_are_not_queued(store: Store) -> None:
    answer = drafted(store)
    async with started(ScriptedCore(store, mode=OFFLINE), at=answer.conversation_id) as (app, pilot):
        queued = "drafted offline, not checked · queued to be checked"
        await press(pilot, "ctrl+t", until=lambda: notes(app) == [queued])
        assert [queued.message_id for queued in store.queue.all()] == [answer.id]
        assert app.waiting == []
        await press(pilot, "ctrl+t", until=lambda: notes(app) == ["drafted offline, not checked"])
        await press(pilot, "alt+up", "e", *"ed", "ctrl+s", until=lambda: app.toasted("cannot be queued"))
        assert app.prompt.text == "unpacked" and not store.queue.all()
        await press(pilot, "ctrl+u", "ctrl+s", "x", until=lambda: app.prompt.text == "x")
        assert app.prompt.border_title


async def test_a_verification_that_ends_early_leaves_the_drafted_answer(store: Store) -> None:
    answer = drafted(store)
    failure = Failed("No verifier: no route.", "unavailable")
    begun: list[Step] = [Drafted(DRAFTED, 4), Verified("use", 1, 1)]
    async with started(ScriptedCore(store, [[*begun, asyncio.Event()], [*begun, failure]])) as (app, pilot):
        await app.chat.open_conversation(answer.conversation_id)
        await press(pilot, "ctrl+t", until=lambda: app.prompt.answering)
        await press(pilot, "ctrl+t", "escape", until=lambda: not app.prompt.answering and app.answers == [DRAFTED])
        await wait_until(pilot, lambda: notes(app) == ["drafted offline, not checked"])
        assert not app.toasted(failure.message)
        await press(pilot, "ctrl+t", until=lambda: app.toasted(failure.message))
        await wait_until(pilot, lambda: not app.prompt.answering and app.answers == [DRAFTED])
        await wait_until(pilot, lambda: notes(app) == ["drafted offline, not checked"])
        assert app.prompt.text == ""


async def test_a_queued_prompt_that_somebody_else_sent_or_that_is_stopped_leaves_the_queue(store: Store) -> None:
    core = ScriptedCore(store, [[Verified("half", 1, 0), asyncio.Event()]])
    async with started(core) as (app, pilot):
        await press(pilot, "a", "ctrl+s", until=lambda: app.waiting == ["a"])
        (queued,) = store.queue.all()
        other = store.queue.take(queued.id)
        assert other is not None
        store.messages.finish(other.id, (1,), (True,), "there", "done", {}, settles=other.id)
        core.outbox.returned.put_nowait(queued)
        await wait_until(pilot, lambda: app.answers == ["there"] and app.waiting == [])
        assert app.questions == ["a"] and not app.prompt.answering
        await press(pilot, "b", "ctrl+s", until=lambda: app.waiting == ["b"])
        core.outbox.returned.put_nowait(store.queue.all()[0])
        await wait_until(pilot, lambda: app.prompt.answering and app.waiting == [])
        await wait_until(pilot, lambda: app.drawing)
        await press(pilot, "c", "ctrl+s", until=lambda: app.waiting == ["c"] and app.prompt.answering)
        await press(pilot, "escape", until=lambda: app.answers == ["there", "half"] and app.questions == ["a", "b"])
        with store.database.read() as database:
            assert database.execute("SELECT count(*) FROM queue").fetchone() == (1,), (
                "the one that was put off meanwhile"
            )


def listed(app: Window) -> list[str]:
    return [option.splitlines()[0] for option in app.options]


async def open_queue(app: Window, pilot: Pilot[None]) -> None:
    await press(pilot, "f7", until=lambda: shows(app, QueueScreen))


async def test_what_waits_is_reworded_moved_and_taken_out(store: Store) -> None:
    conversation = store_turns(store, "old", [("q", "a")])
    for text in ("one", "two \x1b[2J", "three"):
        store.queue.add(conversation, text)
    async with started(ScriptedCore(store, mode=OFFLINE), at=conversation) as (app, pilot):
        await wait_until(pilot, lambda: app.waiting == ["one", "two ", "three"])
        await open_queue(app, pilot)
        assert listed(app) == ["one", "two", "three"]
        await pilot.press("shift+down", "j", "j")
        assert listed(app) == ["two", "three", "one"]
        await pilot.press("k", "e", "ctrl+j", *"more", "enter")
        await wait_until(pilot, lambda: listed(app) == ["two", "one more", "three"])
        assert store.queue.all()[1].text == "one\nmore"
        await pilot.press("e", *" no", "escape")
        assert listed(app) == ["two", "one more", "three"] and not app.screen.query_one(Rewording).display
        await press(pilot, "down", "d", until=lambda: listed(app) == ["two", "one more"])
        assert [queued.text for queued in store.queue.all()] == ["two \x1b[2J", "one\nmore"]
        await press(pilot, "escape", until=lambda: app.screen is app.chat and app.waiting == ["two ", "one\nmore"])
        await pilot.press("up")
        assert app.prompt.text == "three", "what was taken out can be recalled"
        await press(pilot, "ctrl+n", until=lambda: app.waiting == [])


async def test_the_queue_opens_a_conversation_and_lists_verifications(store: Store) -> None:
    other = store_turns(store, "other", [("asked", "answered")])
    store.queue.add_verification(store.branches.thread(other)[-1].id)
    async with started(ScriptedCore(store, mode=OFFLINE)) as (app, pilot):
        await open_queue(app, pilot)
        assert app.options == ["asked\n  its answer is to be checked, in other"]
        await press(pilot, "e", until=lambda: app.toasted("no text to change"))
        await press(pilot, "enter", until=lambda: app.screen is app.chat and app.questions == ["asked"])


async def test_a_click_on_what_waits_opens_the_queue_and_what_was_sent_meanwhile_is_not_lost(store: Store) -> None:
    async with started(ScriptedCore(store, mode=OFFLINE)) as (app, pilot):
        await press(pilot, *"later", "ctrl+s", until=lambda: app.waiting == ["later"])
        await pilot.click(QueuedPrompts)
        await wait_until(pilot, lambda: shows(app, QueueScreen))
        await press(pilot, "d", "escape", until=lambda: app.screen is app.chat and app.chat.conversation.id is None)
        assert store.conversations.all() == [] and store.queue.all() == []
        await press(pilot, *"one", "ctrl+s", until=lambda: app.waiting == ["one"])
        await open_queue(app, pilot)
        await pilot.press("e", *" more")
        store.queue.take(store.queue.all()[0].id)
        await press(pilot, "enter", until=lambda: listed(app) == ["Nothing waits."])
        await wait_until(pilot, lambda: app.toasted("cannot be changed"))
        await press(pilot, "d", "j", "e", "enter", "escape", until=lambda: app.screen is app.chat)
        await pilot.press("up")
        assert app.prompt.text == "one more"
