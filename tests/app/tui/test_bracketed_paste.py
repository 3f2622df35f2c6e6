"""What a terminal sends around a paste, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.message import Message

from app.sanitise import sanitise_paste
from app.tui.bracketed_paste import PasteParser

START, END = "\x1b[200~", "\x1b[201~"


def read(*pieces: str) -> list[Message]:
    parser = PasteParser()
    return [message for piece in pieces for message in parser.feed(piece)]


def told(messages: list[Message]) -> list[str]:
    """Keys by their names, pastes with their text in brackets."""
    keys = [message for message in messages if isinstance(message, events.Key | events.Paste)]
    assert len(keys) == len(messages)
    return [f"[{one.text}]" if isinstance(one, events.Paste) else one.key for one in keys]


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "",
        "\x1b[31mred\x1b[0m\rnext line\rlast",
        "bell \x07 and escape \x1b and \x1b\x1b[A",
        f"{START}nested",
        "\x1b[20" * 3,
        "\x1b[201",
        "x" * 100_000,
    ],
)
def test_a_paste_is_one_text_and_no_key(text: str) -> None:
    assert told(read(f"a{START}{text}{END}\x1b[A\x07")) == ["a", f"[{sanitise_paste(text)}]", "up", "ctrl+g"]


hostile = st.text(st.sampled_from("ab\r\x07\x1b[]200~1m\x00"), max_size=30).filter(
    lambda text: END not in f"{text}{END}"[:-1]
)


@given(st.lists(hostile, min_size=1, max_size=3), st.lists(st.integers(0, 120), max_size=6))
def test_reads_may_be_cut_anywhere(texts: list[str], cuts: list[int]) -> None:
    stream = "".join(f"k{START}{text}{END}" for text in texts)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in zip(places, places[1:])]
    assert told(read(*pieces)) == [part for text in texts for part in ("k", f"[{sanitise_paste(text)}]")]
