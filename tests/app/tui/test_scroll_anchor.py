"""The line that is read stays at its place, without a screen: messages are lists of rows."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from app.tui.widgets.markdown_view import TextPlace
from app.tui.widgets.scroll_anchor import ScrollAnchor


@dataclass(eq=False)
class Text:
    """Characters, wrapped to any width without regard for words."""

    length: int
    width: int = 10

    @property
    def height(self) -> int:
        return max(1, -(-self.length // self.width))

    def place_at(self, row: int) -> TextPlace | None:
        return TextPlace(0, 0, row * self.width) if 0 <= row < self.height else None

    def row_of(self, place: TextPlace, width: int) -> int:
        return place.x // width


def stacked(texts: list[Text]) -> list[tuple[Text, int, int]]:
    spans, top = [], 0
    for text in texts:
        spans.append((text, top, top + text.height))
        top += text.height
    return spans


def first_of(texts: list[Text], item: Text) -> int:
    return next(first for text, first, _ in stacked(texts) if text is item)


lengths = st.lists(st.integers(1, 200), min_size=1, max_size=8)


@given(lengths, lengths, st.integers(0, 100))
def test_what_comes_above_moves_the_view_by_as_much(here: list[int], above: list[int], at: int) -> None:
    texts = [Text(length) for length in here]
    at %= sum(text.height for text in texts)
    anchor: ScrollAnchor[Text] = ScrollAnchor()
    anchor.take(stacked(texts), at)
    assert anchor.item is not None
    anchor.before_layout(10)
    more = [*(Text(length) for length in above), *texts]
    top = anchor.top_after_layout(first_of(more, anchor.item), 10)
    assert top == at + sum(Text(length).height for length in above)


@given(lengths, st.integers(0, 100), st.integers(1, 40))
def test_the_first_character_in_view_is_in_the_first_row_at_another_width(here: list[int], at: int, width: int) -> None:
    texts = [Text(length) for length in here]
    at %= sum(text.height for text in texts)
    anchor: ScrollAnchor[Text] = ScrollAnchor()
    anchor.before_layout(10)
    anchor.take(stacked(texts), at)
    item = anchor.item
    assert item is not None
    character = 10 * (at - first_of(texts, item))
    anchor.before_layout(width)
    for text in texts:
        text.width = width
    row = anchor.top_after_layout(first_of(texts, item), width) - first_of(texts, item)
    assert row * width <= character < (row + 1) * width


def test_nothing_is_anchored_where_there_is_nothing_below_the_top() -> None:
    anchor: ScrollAnchor[Text] = ScrollAnchor()
    anchor.take([], 0)
    assert anchor.item is None
    text = Text(25)
    anchor.take([(text, 0, 3)], 3)
    assert anchor.item is None
    anchor.take([(Text(1), 0, 0), (text, 0, 3)], 0)
    assert anchor.item is text, "a message without a line is not what is read"


def test_a_held_message_begins_at_the_top_and_its_successor_takes_its_place() -> None:
    anchor: ScrollAnchor[Text] = ScrollAnchor()
    old, new, other = Text(5), Text(50), Text(7)
    anchor.hold(old)
    assert anchor.held and anchor.top_after_layout(7, 10) == 7
    anchor.replace(other, new)
    assert anchor.item is old
    anchor.replace(old, new)
    assert anchor.item is new and anchor.held
    anchor.clear()
    assert anchor.item is None and not anchor.held
