"""Which turns should be mounted, without a screen."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from app.tui.widgets.markdown_view import TextPlace
from app.tui.widgets.virtual_list import FAR, NEAR, PAGE, SLICE, Range, ScrollAnchor, grown_range, kept_range

HEIGHT = 24


class Scrolled:
    """Turns of these heights, of which some are mounted, and a view that stands on one of them."""

    def __init__(self, heights: list[int], at: int) -> None:
        self.heights = heights
        self.at = at % len(heights)
        first = max(0, min(self.at, len(heights) - PAGE))
        self.mounted: Range = (first, min(len(heights), first + PAGE))

    def lines(self, first: int, last: int) -> int:
        return sum(self.heights[first:last])

    def step(self) -> bool:
        """One slice, as the list takes it; False if nothing is to be done."""
        first, last = self.mounted
        above, whole = self.lines(first, self.at), self.lines(first, last)
        above = max(0, min(above, whole - HEIGHT))
        grown = grown_range(
            self.mounted, len(self.heights), above=above, below=max(0, whole - HEIGHT - above), height=HEIGHT
        )
        if grown is not None:
            (old_first, old_last), self.mounted = self.mounted, grown
            assert 0 < (old_first - grown[0]) + (grown[1] - old_last) <= SLICE
            return True
        spans = []
        for at in range(first, last):
            top = self.lines(first, at)
            spans += [(top, top + 1), (top + 1, top + self.heights[at])]
        top, bottom = above - FAR * HEIGHT, above + (FAR + 1) * HEIGHT
        kept = kept_range(self.mounted, len(self.heights), spans, top=top, bottom=bottom)
        if kept is not None:
            assert first <= kept[0] < kept[1] <= last
            self.mounted = kept
        return kept is not None


conversations = st.builds(Scrolled, st.lists(st.integers(2, 120), min_size=1, max_size=60), st.integers(0, 59))


@given(conversations)
def test_the_steps_end_with_enough_on_both_sides_and_not_much_more(scrolled: Scrolled) -> None:
    steps = 0
    while scrolled.step():
        steps += 1
        assert steps < 200, "mounting and removing must not take turns for ever"
    first, last = scrolled.mounted
    assert first <= scrolled.at < last
    whole = scrolled.lines(first, last)
    above = max(0, min(scrolled.lines(first, scrolled.at), whole - HEIGHT))
    assert first == 0 or above >= NEAR * HEIGHT
    assert last == len(scrolled.heights) or whole - HEIGHT - above >= NEAR * HEIGHT
    assert scrolled.lines(first + 1, scrolled.at) <= FAR * HEIGHT + max(scrolled.heights)


def test_the_newest_turn_is_kept_while_it_is_being_added() -> None:
    spans = [(line, line + 1) for line in range(0, 1000, 100) for _ in range(2)]
    assert kept_range((0, 10), 10, spans, top=0, bottom=850) is None
    assert kept_range((0, 10), 10, spans, top=0, bottom=750) == (0, 8)
    assert kept_range((0, 10), 11, spans, top=0, bottom=850) == (0, 9)


def test_one_turn_at_least_is_kept() -> None:
    assert kept_range((3, 5), 9, [(0, 1), (1, 5), (5, 6), (6, 9)], top=100, bottom=200) == (4, 5)


def test_nothing_is_mounted_where_all_is() -> None:
    assert grown_range((0, 3), 3, above=0, below=0, height=HEIGHT) is None
    assert grown_range((1, 3), 3, above=0, below=0, height=HEIGHT) == (0, 3)
    assert grown_range((0, 3), 9, above=0, below=0, height=HEIGHT) == (0, 3 + SLICE)


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
