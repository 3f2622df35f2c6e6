"""The pages that an answer came from: which ones its message names, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from app.sanitise import sanitise

if TYPE_CHECKING:
    from drafter.guide.pages import Page

MOST = 5
"""Pages that an answer may name. The guide names three at most; the store may hold imported messages, too."""
LONGEST = 80
"""Characters of a page's name."""
OWN = "outrider"
"""The platform of pages that were written for Outrider."""


class SourcePage(NamedTuple):
    """A page that an answer came from."""

    name: str
    platform: str

    def __str__(self) -> str:
        return self.name if self.platform == OWN else f"{self.name} ({self.platform})"


def sources_of(stats: Mapping[str, Any]) -> tuple[SourcePage, ...]:
    """The pages that a stored message names. What is not the name of a page is left out."""
    named = stats.get("sources")
    pages: dict[SourcePage, None] = {}
    for one in named if isinstance(named, list) else ():
        if isinstance(one, Mapping):
            name, platform = one.get("page"), one.get("platform")
            if isinstance(name, str) and isinstance(platform, str) and name and max(len(name), len(platform)) < LONGEST:
                pages[SourcePage(_one_line(name), _one_line(platform))] = None
    return tuple(pages)[:MOST]


def said(sources: Iterable[SourcePage]) -> str:
    """The line below an answer that names its pages."""
    pages = tuple(sources)
    ours = all(page.platform == OWN for page in pages)
    named = ", ".join(map(str, pages))
    return f"from the page{'s' * (len(pages) > 1)} {named} of {'Outrider' if ours else 'tldr pages'}"


def _one_line(text: str) -> str:
    return " ".join(sanitise(text).split())


def read_sources(folders: Iterable[Path], sources: Iterable[SourcePage]) -> str:
    """The pages as Markdown, with their licence; a page that none of these folders of drafters has is said to be away.

    Raises `DrafterError` if an index cannot be read.
    """
    from drafter.guide.pages import FILE, Pages

    found: dict[SourcePage, Page] = {}
    licences: dict[str, None] = {}
    wanted = tuple(sources)
    for path in dict.fromkeys(folder / FILE for folder in folders):
        if path.is_file() and len(found) < len(wanted):
            pages = Pages.open(path)
            try:
                for source in wanted:
                    if source not in found and (page := pages.page(*source)) is not None:
                        found[source] = page
                        licences[pages.licence] = None
            finally:
                pages.close()
    parts: list[str] = []
    for source in wanted:
        page = found.get(source)
        parts.append(f"# {source}\n")
        parts.append(_markdown(page) if page else "This page is not in the index on this device.\n")
    return sanitise("\n".join([*parts, *(["---\n"] if licences else []), *licences]))


def _markdown(page: Page) -> str:
    examples = [f"- {example.task}\\\n  {_code(example.command)}" for example in page.examples]
    return "\n\n".join([*([page.description] if page.description else []), "\n".join(examples), ""])


def _code(command: str) -> str:
    """Inline code, whatever backticks are in it."""
    marks = "`"
    while marks in command:
        marks += "`"
    space = " " if len(marks) > 1 else ""
    return f"{marks}{space}{command}{space}{marks}"
