from __future__ import annotations

from textual import events
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot

from app.tui.widgets.prompt import Prompt
from tests.app.tui.scripted import press, wait_until
from tests.app.tui.window import started


class Host(App[None]):
    """One prompt, and what it said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[Message] = []
        self.helped = False

    @property
    def sent(self) -> list[str]:
        return [message.text for message in self.said if isinstance(message, Prompt.Submitted)]

    def action_show_help(self) -> None:
        self.helped = True

    def compose(self) -> ComposeResult:
        yield Prompt()

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        self.said.append(event)

    def on_prompt_left(self, event: Prompt.Left) -> None:
        self.said.append(event)


async def test_enter_sends_and_never_nothing_and_a_new_line_does_not_send() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        await press(pilot, "enter", "space", "enter", "l", "s", "enter", until=lambda: app.sent == ["ls"])
        app.query_one(Prompt).text = ""
        for key, character in (("a", "a"), ("ctrl+j", "\n"), ("b", "b"), ("enter", "\r")):  # In one burst.
            app.post_message(events.Key(key, character))
        await wait_until(pilot, lambda: app.sent == ["ls", "a\nb"])
        app.query_one(Prompt).text = ""
        await pilot.press("a", "shift+enter", "b", "ctrl+j", "c", "alt+enter", "d")
        assert app.query_one(Prompt).text == "a\nb\nc\nd" and app.sent == ["ls", "a\nb"]


PASTED = "\n".join(f"line {number}" for number in range(400))
MARK = "⟦pasted 400 lines⟧"


async def paste(app: Host, pilot: Pilot[None], text: str) -> None:
    before = app.query_one(Prompt).text
    app.query_one(Prompt).post_message(events.Paste(text))
    await wait_until(pilot, lambda: app.query_one(Prompt).text != before)


async def test_a_long_paste_is_folded_and_sent_whole_and_clean_and_a_short_one_stays_as_it_is() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        prompt = app.query_one(Prompt)
        for text in ("short", "\n".join("twenty lines" for _ in range(20))):
            prompt.text = ""
            await paste(app, pilot, text)
            assert prompt.text == text
        prompt.text = ""
        await paste(app, pilot, MARK)
        await paste(app, pilot, f"{MARK}\n" * 30)
        assert prompt.full_text == MARK + f"{MARK}\n" * 30, "what looks like a mark is only text"
        prompt.text = ""
        await pilot.press(*"see ")
        await paste(app, pilot, PASTED.replace("\n", "\r\n") + "\x1b]52;c;aGk=\x07\x1b[2J")
        assert prompt.text == f"see {MARK}" and prompt.full_text == f"see {PASTED}"
        await press(pilot, *"?", "enter", until=lambda: app.sent == [f"see {PASTED}?"])


async def test_a_mark_goes_and_comes_back_as_one() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        prompt = app.query_one(Prompt)
        await paste(app, pilot, PASTED)
        await paste(app, pilot, PASTED)
        second = "⟦pasted 400 lines · 2⟧"
        assert prompt.text == MARK + second
        for key in ("backspace", "ctrl+w"):
            await pilot.press(key)
            assert prompt.text == MARK, key
            await pilot.press("ctrl+z")
            assert prompt.full_text == PASTED + PASTED, key
            prompt.move_cursor(prompt.document.end)
        await pilot.press("left", "x")
        assert prompt.text == f"{MARK}x{second}"
        await pilot.press("left", "left", "delete")
        assert prompt.full_text == f"x{PASTED}"
        prompt.insert("y", (0, 5))
        prompt.delete((0, 0), (0, 7))
        assert prompt.full_text in ("y", "") and "⟦" not in prompt.text


async def test_a_mark_is_unfolded_by_a_key_or_a_click() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        prompt = app.query_one(Prompt)
        for how in ("key", "click"):
            prompt.text = ""
            await pilot.press(*"a ")
            await paste(app, pilot, PASTED)
            await pilot.press(*" b")
            if how == "key":
                await pilot.press("ctrl+o")
            else:
                await pilot.click(Prompt, offset=(8, 1))
            await wait_until(pilot, lambda: prompt.text == f"a {PASTED} b")
            await pilot.press("ctrl+o")
            assert prompt.text == f"a {PASTED} b"


async def test_up_and_down_recall_and_what_was_typed_comes_back() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        prompt = app.query_one(Prompt)
        await press(pilot, "up", until=lambda: bool(app.said))
        assert isinstance(app.said[0], Prompt.Left), "there is nothing to recall"
        await press(pilot, "question_mark", until=lambda: app.helped and prompt.text == "")
        prompt.remember(["one", "two\nlines\x1b[2J"])
        seen = []
        for key in ("up", "up", "up", "down", "down", "down"):
            await pilot.press(key)
            seen.append(prompt.text)
        assert seen == ["two\nlines", "one", "one", "two\nlines", "", ""]
        await pilot.press("x", "question_mark", "ctrl+j", "y", "up")
        assert prompt.text == "x?\ny", "the cursor has a line to go up to"
        await pilot.press("up")
        assert prompt.text == "two\nlines"
        await pilot.press("down")
        assert prompt.text == "x?\ny"


async def test_a_recalled_prompt_that_was_changed_is_not_lost() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        prompt = app.query_one(Prompt)
        prompt.remember(["one"])
        await pilot.press("m", "y", "up", "!", "up")
        seen = [prompt.text]
        for key in ("up", "down", "down"):
            await pilot.press(key)
            seen.append(prompt.text)
        assert seen == ["my", "one", "my", "one!"]
