"""Files in the chat: dropped, named, shown before they are sent, sent, queued, edited, folded and unfolded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Static

from app.events import ModeChanged, Reasoned
from app.tui.screens.chat import question_files
from app.tui.screens.chat.conversation import ConversationView
from app.tui.screens.chat.question_files import PromptFiles
from app.tui.screens.confirm import Confirm
from app.tui.screens.queue import QueueScreen
from app.tui.widgets.folded import Thoughts
from app.tui.widgets.message import AnswerView, QuestionView
from app.tui.widgets.prompt import Prompt
from storage import Attachment, Store
from tests.app.attachments.conftest import PNG
from tests.app.attachments.test_documents import site
from tests.app.tui.scripted import READY, ScriptedCore, Step, finished, press, shows, store_turns, verified, wait_until
from tests.app.tui.window import Window, started

NOTES = Attachment("notes.txt", "text/plain", b"first\nsecond\n")
SIZE = (100, 36)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the window was opened."""
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "start.py").write_text("print('hi')\n")
    (folder / "src" / ".env").write_text("x")
    (folder / "notes.txt").write_bytes(NOTES.data)
    (folder / "a b.png").write_bytes(PNG)
    (folder / ".env").write_text("TOKEN=x")
    monkeypatch.chdir(folder)
    return folder


def core_of(store: Store, count: int = 1, mode: ModeChanged = READY) -> ScriptedCore:
    answer: list[Step] = [*verified("It says hi."), finished(3)]
    return ScriptedCore(store, [answer] * count, mode)


def lines(app: Window) -> list[str]:
    widget = app.screen.query_one(PromptFiles)
    return [line.text for line in widget.lines] if widget.display else []


def sent(store: Store) -> list[tuple[str, tuple[Attachment, ...]]]:
    """The questions of the newest conversation that is shown, each with its files."""
    thread = store.branches.thread(store.conversations.all()[0].id)
    return [(one.text, one.attachments) for one in thread if one.role == "user"]


async def write(app: Window, pilot: Pilot[None], text: str, wanted: Sequence[str]) -> None:
    """Writes a prompt, and waits until these lines stand above it."""
    app.prompt.write(text)
    await wait_until(pilot, lambda: lines(app) == list(wanted))


async def test_a_page_is_fetched_once_and_only_after_a_yes(store: Store) -> None:
    async with site(asked := []) as server, started(core := core_of(store, 3), SIZE) as (app, pilot):
        text, shown = f"what costs @{server}/page?", f"{server}/page · fetched if you agree when you send it"
        await write(app, pilot, text, [shown])
        await press(pilot, "enter", until=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "n", until=lambda: not isinstance(app.screen, Confirm))
        assert asked == [] and core.prompts == [] and app.prompt.text == text
        await press(pilot, "enter", until=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", until=lambda: len(core.prompts) == 1 and app.prompt.text == "")
        ((question, (page,)),) = sent(store)
        assert question == text and page.name == f"{server}/page" and "forty euros" in page.text
        await wait_until(pilot, lambda: not app.prompt.answering)
        await write(app, pilot, f"and @{server}/gone", [f"{server}/gone · fetched if you agree when you send it"])
        await press(pilot, "enter", until=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", until=lambda: app.toasted("was refused (404 Not Found)"))
        assert len(core.prompts) == 1
        await press(pilot, "enter", until=lambda: len(core.prompts) == 2)
        assert sent(store)[1] == (f"and @{server}/gone", ()) and asked == ["/page", "/gone"]


async def test_what_goes_along_is_shown_before_it_is_sent_and_unfolds_in_the_question(store: Store) -> None:
    async with started(core := core_of(store, 2), SIZE) as (app, pilot):
        shown = ["notes.txt · 13 bytes", "src/ · 1 file · 12 bytes"]
        shown += ["left out of src/, because they may hold a secret: .env"]
        shown += ["gone.py does not exist, so it is not sent"]
        await write(app, pilot, "read @notes.txt and @src/ for anna@host, @gone.py too", shown)
        assert "✕" in app.text("#files")
        await press(pilot, "enter", until=lambda: app.toasted("one.py does not exist"))
        assert core.prompts == [] and app.prompt.text.startswith("read @notes.txt")
        await pilot.press("enter")  # Once more: it goes as it is.
        await wait_until(pilot, lambda: len(core.prompts) == 1 and app.prompt.text == "")
        (question,) = sent(store)
        assert question[0].endswith("@gone.py too")
        assert question[1] == (NOTES, Attachment("src/start.py", "text/plain", b"print('hi')\n"))
        await wait_until(pilot, lambda: lines(app) == [] and len(app.answers) == 1)
        await pilot.press("ctrl+n")
        await pilot.resize_terminal(80, 24)
        await write(app, pilot, '@notes.txt @"a b.png" what?', ["notes.txt · 13 bytes", "a b.png · 39 bytes · 3 × 2"])
        await press(pilot, "enter", until=lambda: app.answers == ["It says hi."] and len(core.prompts) == 2)
        asked = app.screen.query_one(QuestionView)

        def rows() -> list[str]:
            return [asked.render_line(row).text.strip() for row in range(asked.region.height)]

        await wait_until(pilot, lambda: "▸ notes.txt · 13 bytes" in rows())
        assert "▪ a b.png · 39 bytes · 3 × 2" in rows() and "second" not in rows()
        await pilot.press("alt+up", "alt+up", "enter")
        await wait_until(pilot, lambda: "second" in rows() and "▾ notes.txt · 13 bytes" in rows())
        await press(pilot, "enter", until=lambda: "second" not in rows())
        at = rows().index("▸ notes.txt · 13 bytes")
        await pilot.click(asked, offset=(6, at))
        await wait_until(pilot, lambda: "second" in rows())


async def test_a_dropped_file_becomes_a_line_that_can_be_removed(store: Store, folder: Path) -> None:
    async with started(core := core_of(store), SIZE) as (app, pilot):
        app.prompt.write("what is")
        app.prompt.post_message(events.Paste(f"'{folder}/a b.png' "))
        await wait_until(pilot, lambda: app.prompt.text == 'what is @"a b.png" ')
        await wait_until(pilot, lambda: lines(app) == ["a b.png · 39 bytes · 3 × 2"])
        await wait_until(pilot, lambda: app.screen.query_one(PromptFiles).region.height == 1)  # It is laid out later.
        await pilot.click(PromptFiles, offset=(len("+ a b.png · 39 bytes · 3 × 2") + 2, 0))
        await wait_until(pilot, lambda: app.prompt.text == "what is " and lines(app) == [])
        app.prompt.write("")
        for paste in ("notes.txt", "/no/such/file", "see /etc", f"{folder}/notes.txt\n{folder}/notes.txt"):
            app.prompt.post_message(events.Paste(paste))
            await wait_until(pilot, lambda paste=paste: app.prompt.text == paste)  # type: ignore[misc]
            app.prompt.write("")
        there, missing = "notes.txt · 13 bytes", "src/sta does not exist, so it is not sent"
        await write(app, pilot, "@notes.txt @src/sta", [there])  # Still being typed.
        await write(app, pilot, "@notes.txt @src/sta ", [there, missing])
        await write(app, pilot, "", [])
        app.prompt.post_message(events.Paste("see @notes.txt\n" * 30))
        await wait_until(pilot, lambda: "⟦pasted" in app.prompt.text)
        await press(pilot, "enter", until=lambda: len(core.prompts) == 1)
        await wait_until(pilot, lambda: sent(store)[0][1] == ())
        assert sent(store)[0][0].count("@notes.txt") == 30, "a long paste names no files"


async def test_a_secret_or_too_much_for_the_model_is_told_before_it_is_sent(store: Store, folder: Path) -> None:
    (folder / "long.txt").write_text("words " * 8000)
    async with started(core := core_of(store, 2), SIZE) as (app, pilot):
        core.here = False
        await write(app, pilot, "see @.env", [".env · 7 bytes", ".env may hold a secret"])
        await press(pilot, "enter", until=lambda: app.toasted("would leave this device"))
        assert core.prompts == []
        await press(pilot, "enter", until=lambda: app.answers == ["It says hi."])
        core.here = True
        await write(app, pilot, "see @.env again", [".env · 7 bytes", ".env may hold a secret"])
        await pilot.press("enter")  # A server on this device: no question.
        await wait_until(pilot, lambda: len(app.answers) == 2 and app.chat.conversation.context is not None)
        await write(app, pilot, "@long.txt", ["long.txt · 48.0 kB"])
        await press(pilot, "enter", until=lambda: app.toasted("about 12,001 tokens, and the model has room for 8,1"))
        assert len(core.prompts) == 2


async def test_a_queued_prompt_keeps_its_files_even_if_they_change(store: Store, folder: Path) -> None:
    async with started(core := core_of(store, mode=ModeChanged("offline", "no line")), SIZE) as (app, pilot):
        await write(app, pilot, "read @notes.txt", ["notes.txt · 13 bytes"])
        await press(pilot, "ctrl+s", until=lambda: app.waiting == ["read @notes.txt\n+ notes.txt · 13 bytes"])
        await wait_until(pilot, lambda: lines(app) == [])  # Else what is shown later may be what stood there before.
        (folder / "notes.txt").unlink()
        await press(pilot, "f7", until=lambda: shows(app, QueueScreen))
        assert app.options[0].splitlines()[1].strip() == "with 1 file, begins a conversation"
        await press(pilot, "escape", until=lambda: app.screen is app.chat and app.prompt.has_focus)
        await pilot.press("ctrl+s")  # Take it back.
        await wait_until(pilot, lambda: app.prompt.text == "read @notes.txt")
        await wait_until(pilot, lambda: lines(app) == ["notes.txt · 13 bytes"])
        await press(pilot, "enter", until=lambda: len(core.prompts) == 1)
        await wait_until(pilot, lambda: sent(store) == [("read @notes.txt", (NOTES,))])


async def test_the_files_of_a_question_that_is_taken_back_go_with_its_text(store: Store) -> None:
    extra = Attachment("given.txt", "text/plain", b"by --file")
    conversation = store.conversations.create("t").id
    store.queue.add(conversation, "sum up", [extra])
    async with started(core := core_of(store), SIZE, at=conversation) as (app, pilot):
        await wait_until(pilot, lambda: len(app.waiting) == 1)
        await press(pilot, "ctrl+s", until=lambda: lines(app) == ["given.txt · 9 bytes"])
        await press(pilot, "ctrl+c", until=lambda: app.prompt.text == "")
        await press(pilot, *"list files", "enter", until=lambda: len(core.prompts) == 1)
        await wait_until(pilot, lambda: sent(store) == [("list files", ())])


async def test_other_words_for_a_question_keep_its_files(store: Store, folder: Path) -> None:
    extra = Attachment("given.txt", "text/plain", b"by --file")
    conversation = store.conversations.create("t").id
    answer = store.messages.ask(conversation, "read @notes.txt", parent_id=None, attachments=[NOTES, extra])
    store.messages.finish(answer.id, (), (), "It says first.", "done", {})
    (folder / "notes.txt").write_text("changed since")
    async with started(core := core_of(store, 2), SIZE, at=conversation) as (app, pilot):
        await wait_until(pilot, lambda: app.answers == ["It says first."])
        await pilot.press("alt+up", "alt+up", "e")
        await wait_until(pilot, lambda: lines(app) == ["given.txt · 9 bytes", "notes.txt · 13 bytes"])
        await press(pilot, "ctrl+u", until=lambda: app.prompt.text == "")
        app.prompt.write("please read @notes.txt")
        await press(pilot, "enter", until=lambda: len(core.prompts) == 1 and app.answers == ["It says hi."])
        assert sent(store) == [("please read @notes.txt", (extra, NOTES))]
        await wait_until(pilot, lambda: lines(app) == [])


async def test_thoughts_are_folded_above_the_answer_and_shown_again(store: Store) -> None:
    gate = asyncio.Event()
    script = [Reasoned("let me ", 0.0), Reasoned("see", 12.4), gate, *verified("It says hi."), finished(3)]
    conversation = store.conversations.create("t").id
    stored = store.messages.ask(conversation, "hello", parent_id=None)
    stats = {"reasoning_seconds": 3.2}
    store.messages.finish(stored.id, (), (), "Hi.", "done", stats, reasoning="a\x1b[2J greeting\u202e")
    async with started(ScriptedCore(store, [script]), SIZE) as (app, pilot):
        app.prompt.write("hello")
        await press(pilot, "enter", until=lambda: app.text(".thoughts > .label") == "▸ Thinking for 12 s")
        gate.set()
        await wait_until(pilot, lambda: app.answers == ["It says hi."])
        assert app.text(".thoughts > .label") == "▸ Thought for 12 s"
        thoughts = app.screen.query_one(Thoughts)
        text = thoughts.query_one(".text", Static)
        assert not text.display
        await press(pilot, "alt+up", "t", until=lambda: text.display and str(text.content) == "let me see")
        answer = app.screen.query_one(AnswerView)
        assert thoughts.region.y < answer.prose.region.y
        await pilot.click(thoughts.query_one(".label", Static))
        await wait_until(pilot, lambda: not text.display)
        await app.turn_to(pilot, conversation, until=lambda: app.text(".thoughts > .label") == "▸ Thought for 3 s")
        app.prompt.focus()
        await press(pilot, "alt+up", "t", until=lambda: app.text(".thoughts > .text") == "a greeting")


async def test_what_was_left_out_is_told_without_time_to_show_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_files, "LOOK_SECONDS", 1000.0)
    async with started(core := core_of(store), SIZE) as (app, pilot):
        app.prompt.write("see @src/ now")
        await press(pilot, "enter", until=lambda: len(core.prompts) == 1)
        await wait_until(pilot, lambda: app.toasted("may hold a secret: .env"))


@pytest.mark.parametrize("message", [Prompt.Submitted, Prompt.Kept])
async def test_a_question_whose_files_are_read_goes_to_no_conversation_that_is_opened_meanwhile(
    store: Store, message: type[Prompt.Submitted | Prompt.Kept]
) -> None:
    conversation = store_turns(store, "old", [("q", "a")])
    async with started(core_of(store), SIZE, at=conversation) as (app, pilot):
        view, text = app.screen.query_one(ConversationView), "@notes.txt what?"
        app.prompt.write(text)
        sending = asyncio.create_task((view.send if message is Prompt.Submitted else view.enqueue)(message(text, text)))
        await asyncio.sleep(0)  # Now it waits for the thread that reads.
        await app.chat.open_conversation(None)
        await sending
        await wait_until(pilot, lambda: app.toasted("Not sent"))
        assert [one.id for one in store.conversations.all()] == [conversation]
        await app.turn_to(pilot, conversation, until=lambda: app.prompt.text == text)
        assert store.queue.all() == [] and app.questions == ["q"]
