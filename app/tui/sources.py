"""The pages that an answer came from: which ones its message names, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.events import PageSource
from app.sanitise import sanitise

if TYPE_CHECKING:
    from models.guide.pages import Page

MOST = 5
"""Pages that an answer may name. The guide names three at most; the store may hold imported messages, too."""
LONGEST = 80
"""Characters of a page's name."""
OWN_EXAMPLE = "The example that the answer came from is Outrider's own, so it does not stand on this page."


def sources_of(stats: Mapping[str, Any]) -> tuple[PageSource, ...]:
    """The pages that a stored message names. What is not the name of a page is left out."""
    named = stats.get("sources")
    pages: dict[PageSource, None] = {}
    for one in named if isinstance(named, list) else ():
        if isinstance(one, Mapping):
            name, platform = one.get("page"), one.get("platform")
            if isinstance(name, str) and isinstance(platform, str) and name and max(len(name), len(platform)) < LONGEST:
                source = PageSource(
                    _one_line(name), _one_line(platform), "outrider" if one.get("by") == "outrider" else "tldr"
                )
                pages[source] = None
    return tuple(pages)[:MOST]


def source_lines(sources: Iterable[PageSource]) -> Iterator[str]:
    """The lines below an answer that name its pages."""
    known = tuple(sources)
    for by, words in (("tldr", "from the"), ("outrider", "from Outrider's own examples; more on the")):
        if pages := [f"{source.page} ({source.platform})" for source in known if source.by == by]:
            yield f"{words} page{'s' * (len(pages) > 1)} {', '.join(pages)} of tldr pages"


def read_sources(folders: Iterable[Path], sources: Sequence[PageSource]) -> str:
    """The pages as Markdown, with their licence; a page that no index in these folders has is said to be missing.

    Raises `DrafterError` if an index cannot be read.
    """
    from models.guide.pages import FILE, Pages

    found: dict[PageSource, Page] = {}
    licences: dict[str, None] = {}
    for path in dict.fromkeys(folder / FILE for folder in folders):
        if path.is_file() and len(found) < len(sources):
            pages = Pages.open(path)
            try:
                for source in sources:
                    if source not in found and (page := pages.page(source.page, source.platform)) is not None:
                        found[source] = page
                        licences[pages.licence] = None
            finally:
                pages.close()
    parts: list[str] = []
    for source in sources:
        parts.append(f"# {source.page} ({source.platform})")
        parts += _paragraphs(found[source]) if source in found else ["This page is not in the index on this device."]
        parts += [OWN_EXAMPLE] if source in found and source.by == "outrider" else []
    return sanitise("\n\n".join([*parts, *(["---"] if licences else []), *licences]))


def _paragraphs(page: Page) -> Iterator[str]:
    if page.description:
        yield page.description
    yield "\n".join(f"- {example.task}\\\n  {_code(example.command)}" for example in page.examples)


def _one_line(text: str) -> str:
    return " ".join(sanitise(text).split())


def _code(command: str) -> str:
    """Inline code, whatever backticks are in it."""
    marks = "`"
    while marks in command:
        marks += "`"
    space = " " if len(marks) > 1 else ""
    return f"{marks}{space}{command}{space}{marks}"
