"""How code blocks, their notes and their pages look; `pytest … --snapshot-update` after a change that is meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from app.config import Settings
from app.tui.app import OutriderApp
from app.tui.screens.chat.screen import ChatScreen
from app.tui.screens.code_block import CodeBlockScreen
from app.tui.screens.page_sources import SourceScreen
from app.tui.widgets.markdown_view import MarkdownView
from app.tui.widgets.transcript import Transcript
from models.guide.pages import FILE
from recipes.shell_guide.index import write
from storage import Store
from tests.app.tui.scripted import ScriptedCore, wait_until

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


async def opened(pilot: Pilot[None], store: Store) -> ChatScreen:
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


@pytest.mark.parametrize(("width", "light"), [(60, False), (100, False), (100, True)])
def test_a_chosen_block_and_what_is_said_about_the_others(
    store: Store, snap_compare: Any, width: int, light: bool
) -> None:
    async def play(pilot: Pilot[None]) -> None:
        await pilot.press(*["f2"] * light)
        screen = await opened(pilot, store)
        await pilot.press("alt+up", "tab", "tab")
        await wait_until(pilot, lambda: screen.query_one(Transcript).block == 2)
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(width, 50), run_before=play)


def test_what_can_be_done_with_a_block(store: Store, snap_compare: Any) -> None:
    async def play(pilot: Pilot[None]) -> None:
        await opened(pilot, store)
        await pilot.press("alt+up", "tab", "enter")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, CodeBlockScreen))
        await wait_until(pilot, lambda: pilot.app.screen.query_one(OptionList).has_focus)
        await wait_until(pilot, lambda: pilot.app.screen.query_one(MarkdownView).region.height > 0)
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(80, 24), run_before=play)


def test_a_command_waits_for_the_shell(store: Store, snap_compare: Any) -> None:
    async def play(pilot: Pilot[None]) -> None:
        screen = await opened(pilot, store)
        await pilot.press("alt+up", "tab", "enter")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, CodeBlockScreen))
        await pilot.press("s")
        await wait_until(pilot, lambda: screen.query_one("#for-shell").region.width > 0)
        await pilot.press("escape")
        await wait_until(pilot, lambda: screen.query_one("Prompt").has_focus)
        pilot.app.clear_notifications()
        await wait_until(pilot, lambda: not screen.query("Toast"))
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(80, 24), run_before=play)


@pytest.mark.parametrize("light", [False, True])
def test_the_page_that_an_answer_came_from(store: Store, drafter: Path, snap_compare: Any, light: bool) -> None:
    async def play(pilot: Pilot[None]) -> None:
        await pilot.press(*["f2"] * light)
        await opened(pilot, store)
        await pilot.press("alt+up", "alt+up", "alt+up", "s")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, SourceScreen))
        await wait_until(pilot, lambda: pilot.app.screen.query_one(MarkdownView).region.height > 0)
        await pilot.pause()

    app = OutriderApp(ScriptedCore(store), Settings(drafter=str(drafter)))
    assert snap_compare(app, terminal_size=(80, 24), run_before=play)
