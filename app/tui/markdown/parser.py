"""Parses Markdown into leaves. No part of the source is left out: HTML is shown as written."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

from markdown_it import MarkdownIt
from markdown_it.token import Token
from textual.content import Content, Span
from textual.highlight import highlight
from textual.style import Style

from app.complete_markdown import complete_markdown
from app.tui.markdown.blocks import split
from app.tui.markdown.leaf import SEPARATOR, Formula, Kind, Leaf

BULLETS = "•▪‣◦"
LONGEST = 50_000
"""Most characters of a block that is parsed; a longer one is shown as written. No person writes such a paragraph, and
100,000 brackets take the parser 10 s."""
CHUNK = 10_000
"""Characters that are parsed in one call, if they are more than one block."""
UNCLOSED = re.compile(r"(?P<marks>`+)(?:.*?(?P=marks)|(?P<rest>.*$))", re.DOTALL)
LOOSE_END = re.compile(r"(?:^|\n)[ \t]*(?:[-=*+_~`|]+|\d+[.)]?)[ \t]*$")
"""Matches a last line that may still become anything: a list, a fence, a rule, or a heading made of the line above."""
MARK = re.compile(r"(?P<code>`+)|(?<![\\A-Za-z0-9/^.\]])\\[(\[]|^[ \t]*\$\$", re.MULTILINE)
"""A mark of code, or one that opens a formula."""
CLOSES = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
"""The marks that close formulas."""

_parsers = threading.local()


def parse(text: str, start: int = 0, code_blocks: int = 0) -> tuple[list[Leaf], int]:
    """The leaves of `text[start:]`, and the start of its last top-level block: nothing before that can change any more.

    `code_blocks`: the number of code blocks before `start`.
    """
    part = text[start:]
    if len(part) > LONGEST:
        return list(_leaves_as_written(text, start, code_blocks)), start
    tokens = _parser().parse(part)
    lines = [start]
    for line in part.split("\n"):
        lines.append(min(lines[-1] + len(line) + 1, len(text)))
    last = next((token.map[0] for token in reversed(tokens) if token.map and not token.level), 0)
    return list(_LeafBuilder(tokens, text, lines, code_blocks, bool(text[:start].strip())).leaves()), lines[last]


@lru_cache(maxsize=64)
def leaves(text: str) -> tuple[Leaf, ...]:
    """All leaves of a finished text, with highlighted code. Call it in a thread: it may load a lexer."""
    return tuple(highlight_leaf(leaf) for leaf in _leaves_in_chunks(text))


def _leaves_in_chunks(text: str) -> Iterator[Leaf]:
    """Parses a text of any length, a few blocks at a time."""
    start, code_blocks, length = 0, 0, CHUNK
    while start < len(text):
        end = text.find("\n", start + length) + 1 or len(text)
        found, last = parse(text[:end], start, code_blocks)
        if end < len(text):
            if last > start:  # The last block may continue.
                found, end = [leaf for leaf in found if leaf.source[0] < last], last
            elif length <= LONGEST:
                length *= 2
                continue
            else:
                end = start + split(text[start:])[0].end
                found, _ = parse(text[:end], start, code_blocks)
        yield from found
        code_blocks += sum(leaf.kind == "code" for leaf in found)
        start, length = end, CHUNK


def _leaves_as_written(text: str, start: int, code_blocks: int) -> Iterator[Leaf]:
    """Leaves for blocks that are too long to be parsed: a fence is code, and all other text keeps its marks."""
    for block in split(text[start:]):
        begin, end = start + block.start, start + block.end
        leaf = Leaf("prose", Content(text[begin:end].rstrip("\n")), gap=begin > 0, source=(begin, end))
        leaf = replace(leaf, text=text[begin:end])
        if block.fenced:
            code_blocks += 1
            code = Content(text[start + block.body[0] : start + block.body[1]].removesuffix("\n"))
            info = text[begin : start + block.body[0]].strip().lstrip("`~").strip()
            leaf = replace(
                leaf, kind="code", content=code, number=code_blocks, language=block.language or "", info=info
            )
        yield leaf


def highlight_leaf(leaf: Leaf) -> Leaf:
    if leaf.kind != "code":
        return leaf
    return replace(leaf, content=highlight_code(leaf.content.plain, leaf.language or "text"))


@lru_cache(maxsize=256)
def highlight_code(code: str, language: str) -> Content:
    """Highlights code. 200 lines take 25 ms, and 20 ms more for the first in a language.

    The language is never guessed: that loads every lexer, which takes seconds.
    """
    content = highlight(code, language=language)
    return content if content.plain == code else Content(code)


def close_marks(text: str) -> str:
    """Closes the marks that are open at the end of an unfinished text, without changing anything before."""
    blocks = split(text)
    if not blocks or blocks[-1].closed:
        return text
    last = blocks[-1]
    if last.fenced:
        return text[: last.body[1]] if last.body[1] > last.body[0] else text
    prose = text[last.start :]
    if len(prose) > LONGEST:
        return text
    if (loose := LOOSE_END.search(prose)) is not None:
        prose = prose[: loose.start()]
    prose = _close_formula(prose)
    plain, closing = "", ""
    at = 0
    for match in UNCLOSED.finditer(prose):
        plain += prose[at : match.start()]
        at = match.end()
        if match["rest"] is not None:
            if match["rest"].strip("` \n"):
                closing = match["marks"]
                prose = prose.rstrip("` \n")
            else:
                prose = prose[: match.start()]
            break
    plain += prose[at:]
    if not closing and plain.count("**") % 2:
        prose = prose[:-2] if prose.endswith("**") else prose.rstrip("* \n") + "**"
    return text[: last.start] + prose + closing


def _close_formula(prose: str) -> str:
    """Closes a formula that is open at the end of a text behind what can be drawn of it; it grows by whole parts.

    One that will stay as written is left alone, and so are single dollars, which are more often prices.
    """
    at = 0
    while (mark := MARK.search(prose, at)) is not None:
        opening = mark[0].strip()
        closing = mark["code"] or CLOSES[opening]
        end = prose.find(closing, mark.end())
        if end < 0 and mark["code"]:
            return prose
        if end < 0:
            from app.tui.markdown.formulas import sayable_part  # It takes 10 ms to load, which the first frame saves.

            part = sayable_part(opening, prose[mark.end() :])
            return prose if part is None else prose[: mark.end()] + part + closing if part else prose[: mark.start()]
        at = end + len(closing)
    return prose.removesuffix("\\")  # It may open one.


def _parser() -> MarkdownIt:
    """The parser of this thread: it keeps state while it parses."""
    if not hasattr(_parsers, "markdown"):
        _parsers.markdown = complete_markdown("gfm-like")
    markdown: MarkdownIt = _parsers.markdown
    return markdown


@dataclass
class _Container:
    """A list item or a quote that is open, with the marks left of its first line and of the rest."""

    first: Content
    rest: Content
    begun: bool = False


class _LeafBuilder:
    """Turns the tokens of a text into leaves, in one pass."""

    def __init__(self, tokens: Sequence[Token], text: str, lines: Sequence[int], code_blocks: int, goes_on: bool):
        self._tokens, self._text, self._lines = tokens, text, lines
        self._code_blocks = code_blocks
        self._containers: list[_Container] = []
        self._lists: list[int | None] = []
        """The next number of each open list; None for a list with bullets."""
        self._any = goes_on
        self._listed = False
        """Whether the open list already has a leaf."""

    def leaves(self) -> Iterator[Leaf]:
        style, at = "", 0
        while at < len(self._tokens):
            token = self._tokens[at]
            match token.type:
                case "bullet_list_open" | "ordered_list_open":
                    self._listed = self._listed and bool(self._lists)
                    self._lists.append(int(token.attrs.get("start", 1)) if token.type[0] == "o" else None)
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
                case "list_item_open":
                    self._containers.append(self._item(token))
                case "blockquote_open":
                    bar = Content.styled("▌ ", ".quote")
                    self._containers.append(_Container(bar, bar))
                case "list_item_close" | "blockquote_close":
                    container = self._containers.pop()
                    if not container.begun:  # An empty item is drawn too.
                        self._containers.append(container)
                        yield self._leaf("prose", Content(""), token.map or (0, 0), tight=True)
                        self._containers.pop()
                case "heading_open":
                    style = ".title" if token.tag == "h1" else ".heading"
                case "heading_close" | "paragraph_close":
                    style = ""
                case "inline":
                    content, formulas = inline(token)
                    leaf = self._leaf("prose", content.stylize_before(style) if style else content, token.map)
                    yield replace(leaf, formulas=formulas) if formulas else leaf
                case "fence" | "code_block":
                    self._code_blocks += 1
                    code = Content(token.content.removesuffix("\n"))
                    leaf = self._leaf("code", code, token.map, number=self._code_blocks)
                    info = " ".join(token.info.split())
                    yield replace(leaf, language=info.partition(" ")[0], info=info)
                case "hr":
                    yield self._leaf("rule", Content(""), token.map)
                case "html_block" | "definition":
                    yield self._leaf("prose", Content(token.content.rstrip("\n")), token.map)
                case "formula":
                    text = _drawn(token.content)
                    formulas = () if text is None else (Formula(0, len(text), token.content),)
                    leaf = self._leaf("prose", Content(token.content.rstrip("\n") if text is None else text), token.map)
                    yield replace(leaf, formulas=formulas)
                case "table_open":
                    end = next(end for end in range(at, len(self._tokens)) if self._tokens[end].type == "table_close")
                    yield from self._table(self._tokens[at:end])
                    at = end
            at += 1

    def _item(self, token: Token) -> _Container:
        number = self._lists[-1]
        if number is None:
            depth = sum(one is None for one in self._lists)
            mark = f" {BULLETS[(depth - 1) % len(BULLETS)]} "
        else:
            number = int(token.attrs.get("value", number))
            self._lists[-1] = number + 1
            mark = f"{number:>2}{token.markup} "
        return _Container(Content.styled(mark, ".bullet"), Content(" " * len(mark)))

    def _leaf(
        self, kind: Kind, content: Content, lines: Sequence[int] | None, *, tight: bool = False, number: int = 0
    ) -> Leaf:
        opens = any(not container.begun for container in self._containers)
        tight = tight or (bool(self._lists) and self._listed and (opens or kind == "code"))
        first = Content("").join([one.rest if one.begun else one.first for one in self._containers])
        rest = Content("").join([one.rest for one in self._containers])
        for container in self._containers:
            container.begun = True
        gap, self._any, self._listed = self._any and not tight, True, bool(self._lists)
        start, end = (self._lines[line] for line in (lines or (0, 0)))
        return Leaf(kind, content, first, rest, gap, (start, end), self._text[start:end], number)

    def _table(self, tokens: Sequence[Token]) -> Iterator[Leaf]:
        rows: list[tuple[Kind, list[tuple[Content, tuple[Formula, ...]]], Sequence[int] | None]] = []
        aligns: list[str] = []
        kind: Kind = "head"
        for token in tokens:
            if token.type == "tbody_open":
                kind = "row"
            elif token.type == "tr_open":
                rows.append((kind, [], token.map))
            elif token.type == "th_open":
                aligns.append(str(token.attrs.get("style", "")).removeprefix("text-align:"))
            elif token.type == "inline":
                rows[-1][1].append(inline(token, alone=False))
        widths = tuple(
            max((cell.cell_length for cell, _ in column), default=0) for column in zip(*(row[1] for row in rows))
        )
        for number, (kind, cells, lines) in enumerate(rows):
            leaf = self._leaf(kind, Content(SEPARATOR).join(cell for cell, _ in cells), lines, tight=number > 0)
            lengths = tuple(len(cell) for cell, _ in cells)
            starts = accumulate((length + len(SEPARATOR) for length in lengths), initial=0)
            moved = tuple(
                Formula(start + one.start, start + one.end, one.source)
                for start, (_, formulas) in zip(starts, cells)
                for one in formulas
            )
            yield replace(leaf, cells=lengths, widths=widths, aligns=tuple(aligns), formulas=moved)


def inline(token: Token, *, alone: bool = True) -> tuple[Content, tuple[Formula, ...]]:
    """The text of a paragraph with its emphasis, code and links, and its formulas.

    A link or picture is followed by its address. `alone`: a formula that is the whole text may have several lines.
    """
    pieces: list[str] = []
    spans: list[Span] = []
    formulas: list[Formula] = []
    opened: list[tuple[int, str | Style, str]] = []
    length = 0

    def add(text: str, style: str | Style = "") -> None:
        nonlocal length
        pieces.append(text)
        if style and text:
            spans.append(Span(length, length + len(text), style))
        length += len(text)

    for child in token.children or ():
        match child.type:
            case "softbreak":
                add(" ")
            case "hardbreak":
                add("\n")
            case "code_inline":
                add(child.content, ".code_inline")
            case "em_open" | "strong_open" | "s_open":
                opened.append((length, f".{child.type.removesuffix('_open')}", ""))
            case "link_open":
                written = child.info == "auto"  # The address itself.
                opened.append((length, link(str(child.attrs.get("href", ""))), "" if written else _address(child)))
            case "em_close" | "strong_close" | "s_close" | "link_close":
                start, style, address = opened.pop()
                spans.append(Span(start, length, style))
                if address and address != "".join(pieces)[start:]:
                    add(f" ({address})" if length > start else address, ".notice")
            case "image":
                add(child.content, link(str(child.attrs.get("src", ""))))
                add(f" ({_address(child)})" if child.content else _address(child), ".notice")
            case "formula_inline":
                text = _drawn(child.content)
                if text is None or ("\n" in text and not (alone and len(token.children or ()) == 1)):
                    add(child.content)
                else:
                    formulas.append(Formula(length, length + len(text), child.content))
                    add(text)
            case _:
                add(child.content)
    return Content("".join(pieces), spans), tuple(formulas)


def _drawn(formula: str) -> str | None:
    from app.tui.markdown.formulas import drawn

    return drawn(formula)


def _address(token: Token) -> str:
    """The address of a link or picture, with its title."""
    target, title = token.attrs.get("href", token.attrs.get("src", "")), token.attrs.get("title", "")
    return f'{target} "{title}"' if title else str(target)


def link(target: str) -> Style:
    """The style of a link. A click copies its address: an answer must not open pages."""
    return Style(underline=True) + Style.from_meta({"@click": f"show_link({target!r})"})
