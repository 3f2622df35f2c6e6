from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from app.events import Drafted, Failed, Verified
from app.tui.turn import Turn
from app.tui.widgets.message import Answer
from tests.app.tui.scripted import finished, verified, wait_until

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
        yield Answer(self.turn)

    @property
    def answer(self) -> Answer:
        return self.query_one(Answer)

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


async def test_code_is_plain_until_it_is_complete() -> None:
    turn = Turn("q")
    app = Host(turn)
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: app.shown == ["…"])
        turn.apply(Verified("Use `tar`:\n\n```sh\ntar xf", 9, 0))
        turn.apply(Drafted(" a.tar", 3))
        await wait_until(pilot, lambda: app.shown == ["Use tar:", "tar xf a.tar"])
        assert app.answer.prose.ghost == " a.tar"
        assert not app.answer.prose.parsed[-1].content.spans
        turn.apply(Verified(" b.tar\n```\n", 4, 1))
        await wait_until(pilot, lambda: bool(app.answer.prose.parsed[-1].content.spans))
        assert app.shown == ["Use tar:", "tar xf b.tar"] and app.answer.prose.ghost == ""


@pytest.mark.parametrize("piece", [1, 7, 200])
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


async def test_what_stays_is_not_wrapped_again() -> None:
    turn = Turn("q")
    app = Host(turn)
    async with app.run_test() as pilot:
        turn.apply(Verified(TEXT, 9, 0))
        await wait_until(pilot, lambda: len(app.shown) == 5)
        before = list(app.answer.prose._drawn)
        turn.apply(Verified(", or nearly", 9, 0))
        await wait_until(pilot, lambda: app.shown[-1].endswith("nearly"))
        assert all(one is other for one, other in zip(before[:-1], app.answer.prose._drawn))


async def test_marks_of_an_answer() -> None:
    turn = Turn("q")
    app = Host(turn)
    async with app.run_test() as pilot:
        turn.apply(Drafted("ls", 2))
        turn.apply(finished(2, 2))
        await wait_until(pilot, lambda: app.answer.has_class("-drafted"))
        assert app.note("note") == "drafted offline, not verified"
        assert app.note("error") == ""


async def test_an_error_is_plain_text() -> None:
    turn = Turn("q")
    app = Host(turn)
    async with app.run_test() as pilot:
        turn.apply(Failed("No [b]verifier[/b] at http://localhost:1.", "unavailable"))
        await wait_until(pilot, lambda: app.answer.has_class("-failed"))
        assert app.note("error") == "No [b]verifier[/b] at http://localhost:1."
