"""Headings in an exported answer are larger than its text, and smaller than the conversation's title."""

from __future__ import annotations

import re

import pytest

from app.archive.html import STYLE

TEXT = 1.0
"""The size of an answer's text, in rem."""


def matches(selector: str, tag: str, path: tuple[str, ...]) -> bool:
    """True if a selector of the page matches `tag` below `path`, outermost first. `>` requires the parent."""
    steps = re.findall(r">|[^\s>]+", selector)
    if steps.pop() != tag:
        return False
    above = list(path)
    while steps:
        step = steps.pop()
        if step == ">":
            if not above or steps.pop() != above.pop():
                return False
        else:
            while above and above.pop() != step:
                pass
            if not above and step not in path:
                return False
    return True


def specificity(selector: str) -> tuple[int, int]:
    return len(re.findall(r"[.:\[]", selector)), len(re.findall(r"(?:^|[\s>])[a-z]", selector))


def size(tag: str, path: tuple[str, ...]) -> float:
    """The font size in rem of an element in the style sheet. The last of the most specific rules wins."""
    screen = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", STYLE)
    found: list[tuple[tuple[int, int], int, float]] = []
    for place, (selectors, body) in enumerate(re.findall(r"([^{}]+)\{([^{}]*)\}", screen)):
        given = re.search(r"font-size: ([\d.]+)rem", body)
        for selector in map(str.strip, selectors.split(",")):
            if given and matches(selector, tag, path):
                found.append((specificity(selector), place, float(given[1])))
    assert found, f"nothing says how large {tag} is in {path}"
    return max(found)[2]


def test_the_headings_of_an_answer_stand_out_of_its_text() -> None:
    tags = [*(f'[data-level="{level}"]' for level in (1, 2, 3)), "h5", "h6"]
    sizes = [size(tag, ("section", "article", ".text")) for tag in tags]
    title = size("h1", ("section",))
    assert size("h2", ("section",)) == title, "of one conversation or of several"
    assert title > sizes[0] > sizes[1] > sizes[2] > TEXT and sizes == sorted(sizes, reverse=True)
    assert sizes[-1] >= TEXT


def test_who_speaks_is_told_in_small() -> None:
    assert size("h2", ("section", "article")) == size("h3", ("section", "article")) < TEXT


@pytest.mark.parametrize(
    ("selector", "tag", "path", "meant"),
    [
        ("h2", "h2", ("article", ".text"), True),
        ("article > h2", "h2", ("article", ".text"), False),
        ("article > h2", "h2", ("section", "article"), True),
        (".text h2", "h2", ("article", ".text"), True),
        (".text h2", "h2", ("article",), False),
        ("h1", "h2", ("article",), False),
    ],
)
def test_selectors_are_read(selector: str, tag: str, path: tuple[str, ...], meant: bool) -> None:
    assert matches(selector, tag, path) == meant
