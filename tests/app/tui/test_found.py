"""What a search shows: the words where they are, the day, and how many messages have them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from textual.content import Content
from textual.widgets import OptionList

from app.tui.screens.recall import RecallScreen
from app.tui.widgets.conversation_list import FOUND, ConversationList, day, marked_line
from storage import Store
from tests.app.tui.scripted import ScriptedCore, store_turns, wait_until
from tests.app.tui.window import Window

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def highlighted(content: Content) -> list[str]:
    return [content.plain[span.start : span.end] for span in content.spans if span.style == FOUND]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("2026-03-04T09:05:00Z", "today 09:05"),
        ("2026-03-03T09:05:00Z", "3 Mar"),
        ("2024-12-31T09:05:00Z", "31 Dec 2024"),
        ("nonsense", "some time ago"),
    ],
)
def test_days(written: str, said: str) -> None:
    assert day(written, NOW) == said


def test_a_line_keeps_its_marks_and_nothing_that_could_harm() -> None:
    line = marked_line("a  \x1b[31mlong\nneedle  in it", ((10, 16),))
    assert "\x1b" not in line.plain and "  " not in line.plain and "\n" not in line.plain
    assert highlighted(marked_line("so the needle, and the needle", ((7, 13), (23, 29)))) == ["needle", "needle"]


def test_the_first_word_that_was_found_is_in_view() -> None:
    text = "a long beginning before the needle in it"
    at = text.index("needle")
    line = marked_line(text, ((at, at + 6),), before=12)
    assert line.plain == "…before the needle in it" and highlighted(line) == ["needle"]
    assert marked_line("the needle", ((4, 10),), before=12).plain == "the needle"


@pytest.mark.parametrize("width", [80, 120])
async def test_a_found_conversation(store: Store, width: int) -> None:
    words = "a long sentence that comes before it says archive, and the archive again"
    conversation = store_turns(store, "Unpack it", [("archive?", words), ("more", "no")])
    store_turns(store, "My archives", [("q", "a")])
    app = Window(ScriptedCore(store))
    async with app.run_test(size=(width, 30)) as pilot:
        await pilot.press("ctrl+f", *"archive")
        found = app.screen.query_one(ConversationList)

        def searched() -> bool:
            """Whether the whole word was searched, not only its first letters."""
            marked = [set(highlighted(one.prompt)) for one in found.options if isinstance(one.prompt, Content)]
            return sorted(map(sorted, marked)) == [["archive"], ["archives"]]

        await wait_until(pilot, searched)
        prompts = {option.id: option.prompt for option in found.options}
        said = prompts.pop(f"at-{conversation}")
        (titled,) = prompts.values()
        assert isinstance(said, Content) and isinstance(titled, Content)
        title, about, snippet = said.plain.split("\n")
        assert title == "  Unpack it" and about.strip().startswith("today ") and about.endswith(" · 2 messages")
        assert set(highlighted(said)) == {"archive"} and "archive" in snippet[: found.size.width]
        assert highlighted(titled) == ["archives"] and titled.plain.endswith("in the title")


async def test_words_are_marked_in_what_was_asked(store: Store) -> None:
    store_turns(store, "t", [("unpack a tar file", "a"), ("rename a file", "b")])
    app = Window(ScriptedCore(store))
    async with app.run_test(size=(100, 30)) as pilot:
        await app.push_screen(RecallScreen(["unpack a tar file", "rename a File"], "file tar"))
        asked = app.screen.query_one(OptionList)
        await wait_until(pilot, lambda: len(asked.options) == 1)
        prompt = asked.options[0].prompt
        assert isinstance(prompt, Content) and highlighted(prompt) == ["tar", "file"]
