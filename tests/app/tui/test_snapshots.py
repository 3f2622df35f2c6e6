"""How the screen looks; `pytest tests/app/tui/test_snapshots.py --snapshot-update` after a change that is meant."""

from __future__ import annotations

import asyncio
from typing import Any

from textual.pilot import Pilot

from app.events import Drafted, Failed, ModeChanged, RoundEnded, Verified
from app.tui.widgets.message import AnswerView, QuestionView
from app.tui.widgets.transcript import Transcript
from storage import Store
from tests.app.tui.scripted import STATS, ScriptedCore, Step, finished, press, store_turns, verified, wait_until
from tests.app.tui.window import Window

ANSWER = (
    "Use `tar` to extract a gzip-compressed archive:\n\n```sh\ntar xzvf {{path/to/archive.tar.gz}}\n```\n\n"
    "Some **useful** options:\n\n- `-x` extracts, `-z` goes through gzip\n- `-C {{path/to/directory}}` elsewhere\n"
)
OFFLINE = ModeChanged("offline", "no answer from the server for 1.2 s; trying again")


async def ask(app: Window, pilot: Pilot[None], question: str) -> None:
    app.prompt.write(question)
    await pilot.press("enter")


async def opened(app: Window, pilot: Pilot[None], conversation: str) -> None:
    await app.chat.open_conversation(conversation)
    await wait_until(pilot, lambda: all(one.region.height for one in app.screen.query("QuestionView, AnswerView")))


def test_ghost_text_after_solid_text(store: Store, snap_compare: Any) -> None:
    store_turns(store, "Find files larger than 1 GB", [("q", "a")])
    running: list[Step] = [*verified(ANSWER[:119]), Drafted(ANSWER[119:190], 20), RoundEnded(STATS), asyncio.Event()]
    app = Window(ScriptedCore(store, [running]))

    async def play(pilot: Pilot[None]) -> None:
        await ask(app, pilot, "How do I unpack photos.tar.gz?")
        await wait_until(pilot, lambda: app.screen.query_one(AnswerView).turn.reply.ghost != "")
        await app.screen.query_one(AnswerView).flush()
        await pilot.pause()

    assert snap_compare(app, terminal_size=(130, 30), run_before=play)


def test_marked_answers_in_light(store: Store, snap_compare: Any) -> None:
    scripts: list[list[Step]] = [
        [Verified("Use ", 1, 0), Drafted(ANSWER[4:85], 19), OFFLINE, finished(20, 19)],
        [Verified("Use `df -h` to", 5, 0), finished(5, stopped=True)],
        [Failed("The verifier speaks another version of the protocol; update Outrider.", "incompatible")],
    ]
    app = Window(ScriptedCore(store, scripts))

    async def play(pilot: Pilot[None]) -> None:
        await pilot.press("f2")
        for number, question in enumerate(("Unpack a .tar.gz file", "What is eating my disk?", "Make it executable")):
            await ask(app, pilot, question)
            await wait_until(pilot, lambda: [a.turn.running for a in app.screen.query(AnswerView)][number:] == [False])  # noqa: B023
        await wait_until(pilot, lambda: app.screen.query(AnswerView).last().has_class("-failed"))
        await pilot.pause()

    assert snap_compare(app, terminal_size=(100, 30), run_before=play)


MESSAGE_ANSWER = (
    "Use `tar` to **extract** a gzip-compressed archive:\n\n```sh\ntar xzvf {{path/to/archive.tar.gz}}\n```\n\n"
    "or, from a URL:\n\n```sh\ncurl -L {{url}} | tar xz\n```\n\n"
    "| option | meaning |\n|---|---|\n| `-x` | extract |\n| `-z` | through gzip |\n\n"
    "1. See the [manual](https://www.gnu.org/software/tar/manual/tar.html).\n2. Try `-t` first:\n   - it lists\n"
)
SHORT = "A tarball is unpacked by `tar xf {{file}}`, which finds out by itself how it was compressed."


def test_a_question_with_the_cursor_and_what_nobody_verified(store: Store, snap_compare: Any) -> None:
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
    app = Window(ScriptedCore(store))

    async def play(pilot: Pilot[None]) -> None:
        await opened(app, pilot, conversation)
        await press(pilot, "alt+up", "p", until=lambda: bool(app.screen.query(AnswerView).last().prose.shaded))
        await pilot.press("alt+up", "alt+up", "alt+up")
        await wait_until(pilot, lambda: app.screen.query(QuestionView).first().has_class("-cursor"))
        await pilot.pause()

    assert snap_compare(app, terminal_size=(60, 44), run_before=play)


RISKY = (
    "The first frees space, the second starts anew:\n\n```sh\nsudo rm -rf /var/log/*\nsudo reboot\n```\n\n"
    "1. Then publish:\n\n   ```console\n   $ git push --force origin main\n   done\n   ```\n\n2. A disk:\n\n"
    "   ```sh\n   dd if=/dev/zero of=/dev/sda\n   ```\n"
)


def test_a_chosen_block_and_what_is_said_about_the_others(store: Store, snap_compare: Any) -> None:
    """A harmless answer that names its page, and one full of risks."""
    conversation = store.conversations.create("Make some room").id
    moved = store.messages.ask(conversation, "Rename draft.txt to final.txt", parent_id=None)
    stats = {"sources": [{"page": "mv", "platform": "common"}]}
    store.messages.finish(moved.id, (1, 2), (True, True), "```sh\nmv draft.txt final.txt\n```\n", "done", stats)
    risky = store.messages.ask(conversation, "Make some room", parent_id=moved.id)
    store.messages.finish(risky.id, (1, 2), (True, True), RISKY, "done", {})
    app = Window(ScriptedCore(store))

    async def play(pilot: Pilot[None]) -> None:
        await pilot.press("f2")
        await opened(app, pilot, conversation)
        await press(pilot, "alt+up", "tab", "tab", until=lambda: app.screen.query_one(Transcript).block == 2)
        await pilot.pause()

    assert snap_compare(app, terminal_size=(100, 50), run_before=play)
