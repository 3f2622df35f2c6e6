from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Markdown, Static

from app.events import Drafted, Failed, Verified
from app.tui.blocks import split
from app.tui.turn import Turn
from app.tui.widgets.message import Answer, Code
from app.tui.widgets.tail import GHOST, OpenBlock, Tail, preview
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
    def closed(self) -> str:
        return self.query_one(Markdown).source

    @property
    def open(self) -> list[str]:
        return [str(block.content) for block in self.query(OpenBlock)]


def ghost(text: str, solid: int) -> str:
    """What of the preview is drawn as ghost text."""
    contents = [preview(text, block, solid) for block in split(text)]
    return "".join(
        content.plain[span.start : span.end] for content in contents for span in content.spans if span.style == GHOST
    )


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Use `tar", "Use tar"),
        ("Use `tar` `", "Use tar "),
        ("so **very b", "so very b"),
        ("one\ntwo", "one two"),
        ("- a\n- b", "• a\n• b"),
        ("## Title", "Title"),
        ("```sh\nls\n`", "ls"),
        ("2 * 3 * 4 \\ [bold]x", "2 * 3 * 4 \\ [bold]x"),
    ],
)
def test_a_preview_looks_as_markdown_will(text: str, plain: str) -> None:
    (block,) = split(text)
    assert preview(text, block, 0).plain == plain


@pytest.mark.parametrize("text", [TEXT, TEXT[:20], TEXT[:50]])
def test_text_turns_solid_from_left_to_right_without_moving(text: str) -> None:
    shown = ["".join(preview(text, block, solid).plain for block in split(text)) for solid in range(len(text) + 1)]
    assert len(set(shown)) == 1
    ghosts = [ghost(text, solid) for solid in range(len(text) + 1)]
    assert ghosts[0] == shown[0] and ghosts[-1] == ""
    assert all(before.endswith(after) for before, after in zip(ghosts, ghosts[1:]))


async def test_only_closed_blocks_go_to_markdown() -> None:
    turn = Turn("q")
    app = Host(turn)
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: app.open == ["…"])
        turn.apply(Verified("Use `tar`:\n\n```sh\ntar xf", 9, 0))
        turn.apply(Drafted(" a.tar", 3))
        await wait_until(pilot, lambda: app.open == ["tar xf a.tar"])
        assert app.closed == "Use `tar`:\n\n" and not app.query(Code)
        turn.apply(Verified(" b.tar\n```\n", 4, 1))
        await wait_until(pilot, lambda: len(app.query(Code)) == 1)
        assert app.open == []
        assert app.query_one(Code).code == "tar xf b.tar"


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
                await app.query_one(Answer).flush()
        turn.apply(finished(9))
        await wait_until(pilot, lambda: not app.query_one(Tail).display)
        assert app.closed == TEXT
        blocks = [type(block) for block in app.query_one(Markdown).children]
    async with stored.run_test():
        assert stored.closed == TEXT
        assert [type(block) for block in stored.query_one(Markdown).children] == blocks


async def test_marks_of_an_answer() -> None:
    turn = Turn("q")
    app = Host(turn)
    async with app.run_test() as pilot:
        turn.apply(Drafted("ls", 2))
        turn.apply(finished(2, 2))
        answer = app.query_one(Answer)
        await wait_until(pilot, lambda: answer.has_class("-drafted"))
        assert str(answer.query_one(".note", Static).content) == "drafted offline, not verified"
        assert answer.query_one(".note").display and not answer.query_one(".error").display


async def test_an_error_is_plain_text() -> None:
    turn = Turn("q")
    app = Host(turn)
    async with app.run_test() as pilot:
        turn.apply(Failed("No [b]verifier[/b] at http://localhost:1.", "unavailable"))
        answer = app.query_one(Answer)
        await wait_until(pilot, lambda: answer.has_class("-failed"))
        assert str(answer.query_one(".error", Static).content) == "No [b]verifier[/b] at http://localhost:1."
