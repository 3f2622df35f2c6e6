"""How the screen looks, and that every letter can be read: a contrast of at least 4.5 to 1 (WCAG 2.2, level AA).

`pytest tests/app/tui/test_snapshots.py --snapshot-update` writes the pictures after a change that is meant.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

from rich.style import Style
from textual.color import Color
from textual.pilot import Pilot
from textual.screen import ModalScreen, Screen
from textual.widgets._toast import Toast

from app.events import Drafted, ModeChanged, RoundEnded
from app.tui.app import OutriderApp
from app.tui.theme import DARK, LIGHT
from app.tui.widgets.conversation_list import ConversationList
from app.tui.widgets.message import AnswerView, QuestionView
from app.tui.widgets.transcript import Transcript
from storage import Store
from tests.app.tui.scripted import STATS, ScriptedCore, Step, finished, press, store_turns, verified, wait_until
from tests.app.tui.test_message import judged
from tests.app.tui.window import Window, started

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


# ---- contrast, in both themes ----------------------------------------------------------------------------------------


LEAST = 4.5
CODE = (
    "# Title\n\nUse `tar` to *read* **it** [here](https://example.org):\n\n```python\nimport os\n\n\n"
    "def f(path: str) -> int:\n"
    '    """Count."""\n    return len(os.listdir(path)) + 1  # all\n\n\n@f\nclass A(B):\n    x = None\n```\n\n'
    '```sh\n# note\nfor f in *.gz; do\n  tar xzf "$f" | head -n 20 > out\ndone\nrm -rf build\n```\n\n> quoted\n\n'
    '```json\n{"a": [1, true, null, "x"]}\n```\n\n| a | b |\n|---|---|\n| c | d |\n\n- item\n1. other\n'
)


def luminance(color: Color) -> float:
    parts = [part / 255 for part in (color.r, color.g, color.b)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Color, other: Color) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def drawn(app: OutriderApp) -> Iterator[tuple[str, Style]]:
    """The words on the screen with the styles that the terminal gets."""
    screen = app.screen
    # Around a dialog, the screen below it is faded on purpose.
    part = screen.children[0].region if isinstance(screen, ModalScreen) else screen.region
    for strip in screen._compositor.render_strips()[part.y : part.bottom]:
        shown = strip.crop(part.x, part.right).apply_filter(app._filters[0], screen.background_colors[1])
        for text, style, control in shown:
            if style is not None and not control and any(map(str.isalnum, text)):
                yield text, style


def unreadable(app: OutriderApp) -> list[tuple[str, float]]:
    """Words whose contrast is too low, with the contrast."""
    found: list[tuple[str, float]] = []
    for text, style in drawn(app):
        assert style.color is not None and style.bgcolor is not None, text
        ink, paper = Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)
        if style.reverse:
            ink, paper = paper, ink
        if (ratio := contrast(ink, paper)) < LEAST:
            found.append((text, round(ratio, 2)))
    return found


async def assert_readable(pilot: Pilot[None], app: OutriderApp) -> None:
    """In both themes, first in the one that is there."""
    for theme in sorted((DARK.name, LIGHT.name), key=lambda name: name != app.theme):
        app.theme = theme
        await pilot.pause()
        assert len(list(drawn(app))) > 3, "there is something to be read"
        assert not (found := unreadable(app)), f"{theme}: {found}"


async def test_code_and_drafted_text(store: Store) -> None:
    running: list[Step] = [*verified(CODE[:150], 50), Drafted(CODE[150:], 20), asyncio.Event()]
    conversation = store_turns(store, "title", [("first", CODE)])
    async with started(ScriptedCore(store, [running]), (120, 90), at=conversation) as (app, pilot):
        await wait_until(pilot, lambda: app.answers == [CODE])
        await assert_readable(pilot, app)
        await pilot.press("alt+up", "tab")
        await assert_readable(pilot, app)
        await pilot.press("escape")
        app.prompt.write("second")
        await press(pilot, "enter", until=lambda: app.drawing and bool(app.screen.query(AnswerView).last().prose.ghost))
        await assert_readable(pilot, app)


async def test_notes_and_what_was_not_kept(store: Store) -> None:
    conversation = judged(store)
    store.queue.add(conversation, "later")
    script: list[Step] = [Drafted("Use `df -h`:\n\n```sh\nrm -rf /\n```\n", 5), OFFLINE, finished(5, 5)]
    app = Window(ScriptedCore(store, [script], mode=OFFLINE))
    async with app.run_test(size=(120, 50), notifications=True) as pilot:
        await app.turn_to(pilot, conversation, until=lambda: bool(app.answers))
        await pilot.press("alt+up", "w", "escape")
        await assert_readable(pilot, app)
        app.prompt.write("free some space")
        await press(pilot, "enter", until=lambda: len(app.answers) == 2)
        await pilot.press("alt+up", "p")
        for severity in ("information", "warning", "error"):
            app.notify(f"what was said: {severity}", title="Title", severity=severity)
        await wait_until(pilot, lambda: len(app.screen.query("Toast")) >= 3)
        await assert_readable(pilot, app)


async def test_the_list_what_a_search_found_and_screens(store: Store) -> None:
    for number in range(3):
        conversation = store_turns(store, f"conversation {number}", [("q", f"needle {number} in the hay")])
    store.queue.add(conversation, "later")
    async with started(ScriptedCore(store), (120, 40), at=conversation) as (app, pilot):
        await wait_until(pilot, lambda: len(app.answers) == 1 and len(app.titles) == 4)
        await assert_readable(pilot, app)
        conversations = app.screen.query_one(ConversationList)
        conversations.focus()
        await pilot.press("down", "down")
        await assert_readable(pilot, app)
        await press(pilot, "slash", *"need", until=lambda: "needle" in "".join(app.titles))
        await assert_readable(pilot, app)
        conversations.focus()
        await assert_readable(pilot, app)
        await pilot.press("slash", "escape", "escape")
        await wait_until(pilot, lambda: app.prompt.has_focus and len(app.titles) == 4)
        for key in ("f1", "f7", "f6", "ctrl+r", "f3"):
            await pilot.press(key)
            over = key != "f3"
            await wait_until(pilot, lambda: app.screen.is_mounted and len(app.screen_stack) == 2 + over)  # noqa: B023
            await assert_readable(pilot, app)
            await press(pilot, "escape", until=lambda: app.screen is app.screen_stack[1])


class Drawn(Window):
    """Knows when the whole screen was drawn last."""

    whole = 0.0

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        if getattr(renderable, "region", None) == screen.size.region:
            self.whole = time.monotonic()
        super()._display(screen, renderable)


async def test_all_is_drawn_again_once_a_notice_has_gone_and_none_covers_the_prompt(store: Store) -> None:
    app = Drawn(ScriptedCore(store))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        gone = time.monotonic() + 1
        app.notify("notice", timeout=1)
        await wait_until(pilot, lambda: bool(app.screen.query(Toast)))
        await wait_until(pilot, lambda: not app.screen.query(Toast))
        await wait_until(pilot, lambda: app.whole > gone)
        app.prompt.write("\n".join("a long prompt" for _ in range(20)))
        for number in [0] * 20 + [0, 1, 2]:
            app.notify(f"notice {number}", title="Title", timeout=60)
            await pilot.pause()
        await wait_until(pilot, lambda: len(app.screen.query(Toast)) == 3 and app.prompt.region.height > 9)
        await wait_until(pilot, lambda: all(toast.region.height for toast in app.screen.query(Toast)))
        for width in (80, 200):
            await pilot.resize_terminal(width, 24)
            await wait_until(pilot, lambda: app.screen.size.width == width and app.prompt.region.height > 9)  # noqa: B023
            await pilot.pause()
            assert max(toast.region.bottom for toast in app.screen.query(Toast)) <= app.prompt.region.y, width
