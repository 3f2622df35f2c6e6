"""How the screen looks; `pytest tests/app/tui/test_snapshots.py --snapshot-update` after a change that is meant."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from app.config import Settings
from app.events import Drafted, Failed, ModeChanged, RoundEnded, RoundReport, Stats, Verified
from app.tui.app import OutriderApp
from app.tui.screens.chat.screen import ChatScreen
from app.tui.screens.code_block import CodeBlockScreen
from app.tui.screens.page_sources import SourceScreen
from app.tui.screens.queue import QueueScreen
from app.tui.widgets.conversation_list import ConversationList
from app.tui.widgets.markdown_view import MarkdownView
from app.tui.widgets.message import AnswerView, QuestionView
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.sidebar import SearchBox, TitleBox
from app.tui.widgets.transcript import QueuedPrompts, Transcript
from models.guide.pages import FILE
from recipes.shell_guide.index import write
from storage import Store
from tests.app.tui.scripted import STATS, ScriptedCore, Step, finished, press, store_turns, verified, wait_until

ANSWER = (
    "Use `tar` to extract a gzip-compressed archive:\n\n```sh\ntar xzvf {{path/to/archive.tar.gz}}\n```\n\n"
    "Some **useful** options:\n\n- `-x` extracts, `-z` goes through gzip\n- `-C {{path/to/directory}}` elsewhere\n"
)
OFFLINE = ModeChanged("offline", "no answer from the server for 1.2 s; trying again")


def ask(*events: Step) -> Sequence[Step]:
    return events


async def type_question(pilot: Pilot[None], question: str) -> None:
    pilot.app.screen.query_one(Prompt).write(question)
    await pilot.press("enter")


def test_welcome(store: Store, snap_compare: Any) -> None:
    app = OutriderApp(ScriptedCore(store, mode=ModeChanged("warming", "starting the bundled model")))
    assert snap_compare(app, terminal_size=(100, 30))


@pytest.mark.parametrize("width", [60, 130])
def test_ghost_text_after_solid_text(store: Store, snap_compare: Any, width: int) -> None:
    store_turns(store, "Find files larger than 1 GB", [("q", "a")])
    running = ask(*verified(ANSWER[:119]), Drafted(ANSWER[119:190], 20), RoundEnded(STATS), asyncio.Event())
    app = OutriderApp(ScriptedCore(store, [running]))

    async def play(pilot: Pilot[None]) -> None:
        await type_question(pilot, "How do I unpack photos.tar.gz?")
        await wait_until(pilot, lambda: pilot.app.screen.query_one(AnswerView).turn.reply.ghost != "")
        await pilot.app.screen.query_one(AnswerView).flush()
        await pilot.pause()

    assert snap_compare(app, terminal_size=(width, 30), run_before=play)


def test_marked_answers_in_light(store: Store, snap_compare: Any) -> None:
    scripts = [
        ask(Verified("Use ", 1, 0), Drafted(ANSWER[4:85], 19), OFFLINE, finished(20, 19)),
        ask(Verified("Use `df -h` to", 5, 0), finished(5, stopped=True)),
        ask(Failed("The verifier speaks another version of the protocol; update Outrider.", "incompatible")),
    ]
    app = OutriderApp(ScriptedCore(store, scripts))

    async def play(pilot: Pilot[None]) -> None:
        await pilot.press("f2")
        for number, question in enumerate(("Unpack a .tar.gz file", "What is eating my disk?", "Make it executable")):
            await type_question(pilot, question)
            await wait_until(
                pilot,
                lambda: len([a for a in pilot.app.screen.query(AnswerView) if not a.turn.running]) == number + 1,  # noqa: B023
            )
        screen = pilot.app.screen
        assert isinstance(screen, ChatScreen)
        await wait_until(pilot, lambda: screen.query(AnswerView).last().has_class("-failed"))
        await pilot.pause()

    assert snap_compare(app, terminal_size=(100, 30), run_before=play)


def test_what_waits_and_what_was_not_kept(store: Store, snap_compare: Any) -> None:
    question = "Unpack a .tar.gz file"
    conversation = store.conversations.create(question).id
    drafted = store.messages.ask(conversation, question, parent_id=None)
    text = "Use `tar`:\n\n```sh\ntar xf {{path/to/archive}}\n```\n"
    store.messages.finish(drafted.id, range(40), [False] * 40, text, "done", {})
    verified_answer = store.messages.verify(drafted.id)
    assert verified_answer is not None
    stats = {"kept": 11, "of": 40}
    store.messages.finish(verified_answer.id, range(60), [True] * 60, ANSWER, "done", stats, settles=drafted.id)
    app = OutriderApp(ScriptedCore(store, [ask(Drafted("Use `df -h`", 5), finished(5, 5))], mode=OFFLINE))

    async def play(pilot: Pilot[None]) -> None:
        screen = pilot.app.screen
        assert isinstance(screen, ChatScreen)
        await screen.open_conversation(conversation)
        await type_question(pilot, "What is eating my disk?")
        await wait_until(pilot, lambda: screen.query(AnswerView).last().has_class("-drafted"))
        await pilot.press("ctrl+t")
        screen.query_one(Prompt).write("And how do I empty the trash?")
        await press(pilot, "ctrl+s", until=lambda: screen.query_one(QueuedPrompts).display)
        screen.query_one(Prompt).write("Make it")
        await pilot.pause()

    assert snap_compare(app, terminal_size=(100, 42), run_before=play)


def test_help(store: Store, snap_compare: Any) -> None:
    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(100, 30), press=["f1"])


def organised(store: Store) -> None:
    """Conversations of today, one of them pinned."""
    for number, title in enumerate(
        ("Free the disk of old logs", "Rename many files at once", "Which process listens?")
    ):
        conversation = store_turns(store, title, [(title, f"Answer {number} about files and logs.")])
        if not number:
            store.conversations.pin(conversation, True)


@pytest.mark.parametrize("width", [60, 130])
def test_what_a_search_finds(store: Store, snap_compare: Any, width: int) -> None:
    organised(store)
    with store.database.write() as sql:  # A picture of today is another one tomorrow.
        sql.execute("UPDATE conversations SET updated = printf('2025-03-%02dT12:00:00.000+00:00', 10 + key)")

    async def play(pilot: Pilot[None]) -> None:
        await press(pilot, "ctrl+f", until=lambda: pilot.app.screen.query_one(SearchBox).has_focus)
        await pilot.press(*"files")
        conversations = pilot.app.screen.query_one(ConversationList)
        await wait_until(pilot, lambda: "\n" in str(conversations.options[0].prompt))
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(width, 24), run_before=play)


def test_the_list_with_a_name_that_is_edited(store: Store, snap_compare: Any) -> None:
    organised(store)

    async def play(pilot: Pilot[None]) -> None:
        conversations = pilot.app.screen.query_one(ConversationList)
        await wait_until(pilot, lambda: len(conversations.options) == 6)
        conversations.focus()
        conversations.highlighted = 4
        await press(pilot, "r", "end", *"?", until=lambda: pilot.app.screen.query_one(TitleBox).has_focus)
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(120, 24), run_before=play)


@pytest.mark.parametrize(("width", "theme"), [(60, "dark"), (130, "light")])
def test_the_panel(store: Store, snap_compare: Any, width: int, theme: str) -> None:
    reports = [
        RoundReport(4 + number % 3, 20, 3.1, 2 + number % 4, None, 0.01, 0.02, 0.08 + 0.01 * (number % 5))
        for number in range(24)
    ]
    totals = Stats(
        rounds=24, verified=84, seconds=2.1, rtt_ms=84.0, line="online", up_bytes_per_second=120e3,
        down_bytes_per_second=900e3, bytes_up=4200, bytes_down=61000,
    )  # fmt: skip
    rounds = [RoundEnded(totals, report) for report in reports]
    app = OutriderApp(ScriptedCore(store, [ask(*verified(ANSWER), *rounds, finished(84, stats=totals))]))

    async def play(pilot: Pilot[None]) -> None:
        if theme == "light":
            await pilot.press("f2")
        await type_question(pilot, "How do I unpack photos.tar.gz?")
        screen = pilot.app.screen
        await wait_until(pilot, lambda: any(not one.turn.running and one.drawn for one in screen.query(AnswerView)))
        await pilot.press("f3")
        meter, panel = screen.query_one("#context", Static), screen.query_one("Panel Static", Static)
        await wait_until(
            pilot, lambda: str(meter.content).startswith(("ctx", "context")) and "61 kB" in str(panel.content)
        )
        await wait_until(pilot, lambda: not screen.query_one(Prompt).answering)
        await wait_until(pilot, lambda: any(one.disabled for one in screen.query_one(ConversationList).options))
        await pilot.pause()

    assert snap_compare(app, terminal_size=(width, 36), run_before=play)


def test_a_folded_paste_and_a_full_context(store: Store, snap_compare: Any) -> None:
    conversation = store_turns(store, "Why does it fail?", [("Why does it fail?", "Show me its log.")])
    core = ScriptedCore(store, mode=OFFLINE)
    core.limit = 8

    async def play(pilot: Pilot[None]) -> None:
        screen = pilot.app.screen
        assert isinstance(screen, ChatScreen)
        await screen.open_conversation(conversation)
        prompt = screen.query_one(Prompt)
        await pilot.press(*"here: ")
        prompt.post_message(events.Paste("\n".join(f"line {number}" for number in range(120))))
        await wait_until(pilot, lambda: "120 lines" in prompt.text)
        meter = screen.query_one("#context", Static)
        await wait_until(pilot, lambda: str(meter.content).startswith(("ctx", "context")))
        await pilot.pause()

    assert snap_compare(OutriderApp(core), terminal_size=(100, 24), run_before=play)


def test_the_queue(store: Store, snap_compare: Any) -> None:
    conversation = store_turns(store, "Free the disk", [("How full is it?", "Ask `df -h`.")])
    for text in ("And which folder takes most?", "How do I empty the trash?"):
        store.queue.add(conversation, text)
    store.queue.add_verification(store.branches.thread(conversation)[-1].id)

    async def play(pilot: Pilot[None]) -> None:
        await press(pilot, "f7", until=lambda: isinstance(pilot.app.screen, QueueScreen))
        await pilot.press("down", "e", *" Now")
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store, mode=OFFLINE)), terminal_size=(100, 24), run_before=play)


MESSAGE_ANSWER = (
    "Use `tar` to **extract** a gzip-compressed archive:\n\n```sh\ntar xzvf {{path/to/archive.tar.gz}}\n```\n\n"
    "or, from a URL:\n\n```sh\ncurl -L {{url}} | tar xz\n```\n\n"
    "| option | meaning |\n|---|---|\n| `-x` | extract |\n| `-z` | through gzip |\n\n"
    "1. See the [manual](https://www.gnu.org/software/tar/manual/tar.html).\n2. Try `-t` first:\n   - it lists\n"
)
SHORT = "A tarball is unpacked by `tar xf {{file}}`, which finds out by itself how it was compressed."


def talk(store: Store) -> str:
    """Two wordings of the first question, three answers to the second, of which the last was drafted in part."""
    conversation = store.conversations.create("Unpack a .tar.gz file").id
    first = store.messages.ask(conversation, "Unpack a tar", parent_id=None)
    store.messages.finish(first.id, range(20), [True] * 20, SHORT, "done", {})
    asked = store.messages.ask(conversation, "Unpack a .tar.gz file", parent_id=None)
    store.messages.finish(asked.id, range(60), [True] * 60, MESSAGE_ANSWER, "done", {})
    again = store.messages.ask(conversation, "And in one word?", parent_id=asked.id)
    store.messages.finish(again.id, range(9), [True] * 9, "`tar`", "done", {})
    for checked in (0, 8):
        beside = store.messages.add(conversation, "assistant", "", parent_id=again.parent_id, status="pending")
        store.messages.finish(beside.id, range(20), [at < checked for at in range(20)], SHORT, "stopped", {})
    return conversation


async def opened(pilot: Pilot[None], conversation: str) -> ChatScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ChatScreen)
    await screen.open_conversation(conversation)
    await wait_until(pilot, lambda: all(one.region.height for one in screen.query("QuestionView, AnswerView")))
    return screen


@pytest.mark.parametrize(("width", "light"), [(60, False), (100, True)])
def test_a_question_with_the_cursor_and_what_nobody_verified(
    store: Store, snap_compare: Any, width: int, light: bool
) -> None:
    conversation = talk(store)

    async def play(pilot: Pilot[None]) -> None:
        await pilot.press(*["f2"] * light)
        screen = await opened(pilot, conversation)
        await press(pilot, "alt+up", "p", until=lambda: bool(screen.query(AnswerView).last().prose.shaded))
        await pilot.press("alt+up", "alt+up", "alt+up")
        await wait_until(pilot, lambda: screen.query(QuestionView).first().has_class("-cursor"))
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(width, 44), run_before=play)


def test_a_deleted_answer_can_be_brought_back_while_a_question_is_reworded(store: Store, snap_compare: Any) -> None:
    conversation = talk(store)

    async def play(pilot: Pilot[None]) -> None:
        screen = await opened(pilot, conversation)
        await press(pilot, "alt+up", "d", until=lambda: screen.query(AnswerView).last().turn.versions == (2, 2))
        await wait_until(pilot, lambda: screen.query(AnswerView).last().has_class("-cursor"))
        await press(pilot, "e", until=lambda: screen.query_one("Prompt").has_focus and bool(screen.query("Toast")))
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(100, 44), run_before=play)


RISKY = (
    "The first frees space, the second starts anew:\n\n```sh\nsudo rm -rf /var/log/*\nsudo reboot\n```\n\n"
    "1. Then publish:\n\n   ```console\n   $ git push --force origin main\n   done\n   ```\n\n2. A disk:\n\n"
    "   ```sh\n   dd if=/dev/zero of=/dev/sda\n   ```\n"
)
PAGE = {
    "platform": "common",
    "name": "mv",
    "alias": False,
    "translations": 9,
    "description": "Move or rename files and directories.\nMore information: <https://www.gnu.org/software/coreutils/mv>.",
    "examples": [
        {"task": "Rename a file when the target is not a directory that exists", "command": "mv {{source}} {{target}}"},
        {"task": "Ask before it replaces a file", "command": "mv {{-i|--interactive}} {{source}} {{target}}"},
    ],
}


@pytest.fixture
def drafter(tmp_path: Path) -> Path:
    folder = tmp_path / "drafter"
    folder.mkdir()
    write(folder / FILE, [PAGE], ())
    return folder


async def code_opened(pilot: Pilot[None], store: Store) -> ChatScreen:
    """A conversation with a harmless answer that names its page, and one full of risks."""
    conversation = store.conversations.create("Make some room").id
    moved = store.messages.ask(conversation, "Rename draft.txt to final.txt", parent_id=None)
    stats = {"sources": [{"page": "mv", "platform": "common"}]}
    store.messages.finish(moved.id, (1, 2), (True, True), "```sh\nmv draft.txt final.txt\n```\n", "done", stats)
    risky = store.messages.ask(conversation, "Make some room", parent_id=moved.id)
    store.messages.finish(risky.id, (1, 2), (True, True), RISKY, "done", {})
    screen = pilot.app.screen
    assert isinstance(screen, ChatScreen)
    await screen.open_conversation(conversation)
    await wait_until(pilot, lambda: all(one.region.height for one in screen.query("QuestionView, AnswerView")))
    return screen


@pytest.mark.parametrize(("width", "light"), [(60, False), (100, True)])
def test_a_chosen_block_and_what_is_said_about_the_others(
    store: Store, snap_compare: Any, width: int, light: bool
) -> None:
    async def play(pilot: Pilot[None]) -> None:
        await pilot.press(*["f2"] * light)
        screen = await code_opened(pilot, store)
        await press(pilot, "alt+up", "tab", "tab", until=lambda: screen.query_one(Transcript).block == 2)
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(width, 50), run_before=play)


def test_what_can_be_done_with_a_block(store: Store, snap_compare: Any) -> None:
    async def play(pilot: Pilot[None]) -> None:
        await code_opened(pilot, store)
        await press(pilot, "alt+up", "tab", "enter", until=lambda: isinstance(pilot.app.screen, CodeBlockScreen))
        await wait_until(pilot, lambda: pilot.app.screen.query_one(OptionList).has_focus)
        await wait_until(pilot, lambda: any(view.region.height for view in pilot.app.screen.query(MarkdownView)))
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(80, 24), run_before=play)


def test_a_command_waits_for_the_shell(store: Store, snap_compare: Any) -> None:
    async def play(pilot: Pilot[None]) -> None:
        screen = await code_opened(pilot, store)
        await press(pilot, "alt+up", "tab", "enter", until=lambda: isinstance(pilot.app.screen, CodeBlockScreen))
        await press(pilot, "s", until=lambda: screen.query_one("#for-shell").region.width > 0)
        await press(pilot, "escape", until=lambda: screen.query_one("Prompt").has_focus)
        pilot.app.clear_notifications()
        await wait_until(pilot, lambda: not screen.query("Toast"))
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(80, 24), run_before=play)


def test_the_page_that_an_answer_came_from(store: Store, drafter: Path, snap_compare: Any) -> None:
    async def play(pilot: Pilot[None]) -> None:
        await pilot.press("f2")
        await code_opened(pilot, store)
        await press(pilot, "alt+up", "alt+up", "alt+up", "s", until=lambda: isinstance(pilot.app.screen, SourceScreen))
        await wait_until(pilot, lambda: any(view.region.height for view in pilot.app.screen.query(MarkdownView)))
        await pilot.pause()

    app = OutriderApp(ScriptedCore(store), Settings(drafter=str(drafter)))
    assert snap_compare(app, terminal_size=(80, 24), run_before=play)
