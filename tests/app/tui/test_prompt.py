from __future__ import annotations

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.message import Message

from app.tui.widgets.prompt import Prompt
from tests.app.tui.scripted import wait_until


class Host(App[None]):
    """One prompt, and what it said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[Message] = []

    def compose(self) -> ComposeResult:
        yield Prompt()

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        self.said.append(event)

    def on_prompt_help_wanted(self, event: Prompt.HelpWanted) -> None:
        self.said.append(event)

    def on_prompt_left(self, event: Prompt.Left) -> None:
        self.said.append(event)


async def test_enter_sends_and_never_sends_nothing() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press("enter", "space", "enter", "l", "s", "enter")
        await wait_until(pilot, lambda: bool(app.said))
        assert [message.text for message in app.said if isinstance(message, Prompt.Submitted)] == ["ls"]


async def test_text_and_enter_in_one_burst_are_sent_in_order() -> None:
    app = Host()
    async with app.run_test() as pilot:
        for key, character in (("a", "a"), ("ctrl+j", "\n"), ("b", "b"), ("enter", "\r")):
            app.post_message(events.Key(key, character))
        await wait_until(pilot, lambda: bool(app.said))
        assert [message.text for message in app.said if isinstance(message, Prompt.Submitted)] == ["a\nb"]


@pytest.mark.parametrize("key", ["shift+enter", "ctrl+j", "alt+enter"])
async def test_a_new_line_does_not_send(key: str) -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press("a", key, "b")
        assert app.query_one(Prompt).text == "a\nb"
        assert not app.said


async def test_a_long_paste_arrives_once_and_clean() -> None:
    app = Host()
    async with app.run_test() as pilot:
        lines = [f"line {number}" for number in range(400)]
        app.query_one(Prompt).post_message(events.Paste("\r\n".join(lines) + "\x1b]52;c;aGk=\x07\x1b[2J"))
        await wait_until(pilot, lambda: bool(app.query_one(Prompt).text))
        assert app.query_one(Prompt).text == "\n".join(lines)


async def test_up_and_down_recall_while_nothing_else_is_typed() -> None:
    app = Host()
    async with app.run_test() as pilot:
        prompt = app.query_one(Prompt)
        prompt.earlier = ["one", "two"]
        seen = []
        for key in ("up", "up", "up", "down", "down", "down"):
            await pilot.press(key)
            seen.append(prompt.text)
        assert seen == ["two", "one", "one", "two", "", ""]
        await pilot.press("x", "up")
        assert prompt.text == "x"


async def test_up_with_nothing_to_recall_leaves_the_prompt() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press("up")
        await wait_until(pilot, lambda: bool(app.said))
        assert isinstance(app.said[0], Prompt.Left)


async def test_a_question_mark_asks_for_help_only_in_an_empty_prompt() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press("question_mark")
        await wait_until(pilot, lambda: bool(app.said))
        assert isinstance(app.said[0], Prompt.HelpWanted) and app.query_one(Prompt).text == ""
        await pilot.press("a", "question_mark")
        assert app.query_one(Prompt).text == "a?"
