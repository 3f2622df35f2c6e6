"""Which turns should be mounted, without a screen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.tui.widgets.virtual_list import FAR, NEAR, PAGE, SLICE, Range, grown_range, kept_range

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
