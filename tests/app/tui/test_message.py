from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from app.events import Drafted, Failed, Retracted, Verified
from app.tui.turn import Turn
from app.tui.widgets.markdown_view import HELD
from app.tui.widgets.message import AnswerView
from tests.app.tui.scripted import finished, verified, wait_until
from tests.app.tui.window import started

TEXT = (
    "Use `tar` to **unpack** it\nhere:\n\n```sh\ntar xf a.tar\n```\n\n- `-x` extracts\n- `-f` names it\n\nThat is all"
)


class Host(App[None]):
    """Shows one turn."""

    CSS_PATH = "../../../app/tui/widgets/message.tcss"

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn = turn

    def compose(self) -> ComposeResult:
        yield AnswerView(self.turn)

    @property
    def answer(self) -> AnswerView:
        return self.query_one(AnswerView)

    @property
    def shown(self) -> list[str]:
        return self.answer.prose.plain.split("\n")

    @property
    def screen_text(self) -> list[str]:
        """The rows of the answer as they are drawn, down to the last that is not blank."""
        prose = self.answer.prose
        return [prose.render_line(y).text.rstrip() for y in range(prose.size.height)]

    def note(self, name: str) -> str:
        return "".join(str(line.content) for line in self.answer.query(f".{name}").results(Static) if line.display)


async def test_code_is_plain_until_it_is_complete_or_the_answer_ends() -> None:
    turn = Turn("q")
    async with started(Host(turn), (80, 24)) as (app, pilot):
        await wait_until(pilot, lambda: app.shown == ["…"])
        turn.apply(Verified("Use `tar`:\n\n```sh\ntar xf", 9, 0))
        turn.apply(Drafted(" a.tar", 3))
        await wait_until(pilot, lambda: app.shown == ["Use tar:", "tar xf a.tar"])
        assert app.answer.prose.ghost == " a.tar"
        assert not app.answer.prose.parsed[-1].content.spans
        turn.apply(Verified(" b.tar\n```\n", 4, 1))
        await wait_until(pilot, lambda: bool(app.answer.prose.parsed[-1].content.spans))
        assert app.shown == ["Use tar:", "tar xf b.tar"] and app.answer.prose.ghost == ""
        turn.apply(Verified("```py\nimport os\n", 9, 0))
        await wait_until(pilot, lambda: app.shown[-1] == "import os")
        assert not app.answer.prose.parsed[-1].content.spans
        turn.apply(finished(9))
        await wait_until(pilot, lambda: app.answer.drawn)
        assert app.answer.prose.parsed[-1].content.spans


@pytest.mark.parametrize("piece", [1, 200])
async def test_a_streamed_answer_ends_as_if_it_had_come_at_once(piece: int) -> None:
    turn = Turn("q")
    app = Host(turn)
    stored = Host(Turn("q", outcome="done"))
    stored.turn.reply.solid = TEXT
    async with app.run_test() as pilot:
        for count, event in enumerate(verified(TEXT, piece)):
            turn.apply(event)
            if count % 7 == 0:
                await app.answer.flush()
        await app.answer.flush()
        await pilot.pause()
        before = app.screen_text
        turn.apply(finished(9))
        await wait_until(pilot, lambda: app.answer.drawn)
        await pilot.pause()
        assert app.screen_text == before, "nothing moves at the end"
        parsed = app.answer.prose.parsed
    async with stored.run_test():
        assert stored.answer.prose.source == TEXT
        assert stored.answer.prose.parsed == parsed
        assert stored.screen_text == before


async def test_other_words_take_the_place_of_those_that_are_withdrawn_without_a_jump() -> None:
    turn = Turn("q")
    async with started(Host(turn), (80, 24)) as (app, pilot):
        turn.apply(Verified("one\n\n", 2, 0))
        turn.apply(Drafted("two\n\nthree\n", 4))
        await wait_until(pilot, lambda: app.screen_text == ["one", "", "two", "", "three"])
        turn.apply(Verified("other", 1, 0))
        await wait_until(pilot, lambda: app.screen_text == ["one", "", "other", "", ""])
        turn.apply(Drafted(" words\n\nend\n", 3))
        await wait_until(pilot, lambda: app.screen_text == ["one", "", "other words", "", "end"])
        turn.apply(Drafted("x\n\n" * 7, 14))
        await wait_until(pilot, lambda: len(app.screen_text) > 15)
        turn.apply(Retracted(18))
        await wait_until(pilot, lambda: len(app.screen_text) == 3 + HELD)
        turn.apply(finished(3))
        await wait_until(pilot, lambda: app.screen_text == ["one", "", "other"])


async def test_what_is_selected_among_tabs_is_what_is_copied() -> None:
    turn = Turn("q", outcome="done")
    turn.reply.solid = "```go\nfunc main() {\n\tfmt.Println(1)\n}\n```\n"
    async with started(Host(turn), (80, 24)) as (app, pilot):
        await wait_until(pilot, lambda: len(app.screen_text) == 4)
        assert app.screen_text[2] == " " * 10 + "fmt.Println(1)"
        await pilot.mouse_down(app.answer.prose, offset=(10, 2))
        await pilot.hover(app.answer.prose, offset=(15, 2))
        await pilot.hover(app.answer.prose, offset=(20, 2))
        await pilot.mouse_up(app.answer.prose, offset=(20, 2))
        await wait_until(pilot, lambda: app.screen.get_selected_text() == "fmt.Println")


async def test_a_long_block_that_is_read_in_a_thread_comes_whole() -> None:
    turn = Turn("q")
    async with started(Host(turn), (80, 24)) as (app, pilot):
        text = "[word] " * 2000
        turn.apply(Verified(text, 9, 0))
        await wait_until(pilot, lambda: app.answer.prose.plain == text.strip())
        turn.apply(Verified("end", 9, 0))
        turn.apply(finished(9))
        await wait_until(pilot, lambda: app.answer.drawn and app.answer.prose.plain == f"{text}end")


async def test_an_error_is_plain_text() -> None:
    turn = Turn("q")
    async with started(Host(turn), (80, 24)) as (app, pilot):
        turn.apply(Failed("No [b]verifier[/b] at http://localhost:1.", "unavailable"))
        await wait_until(pilot, lambda: app.answer.has_class("-failed"))
        assert app.note("error") == "No [b]verifier[/b] at http://localhost:1."
