"""Markdown that hides nothing: all that a model wrote must appear on the screen.

Markdown drops what it cannot place. A parser stops at a depth of nesting, a link definition shows nothing, a table
drops cells without a column, and an entity may stand for an invisible character. Here all of them stay, as written if
there is no better form. Formulas are tokens of their own, with their backslashes: `formula` for whole lines,
`formula_inline` within a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.parser_block import ParserBlock
from markdown_it.renderer import RendererHTML, RendererProtocol
from markdown_it.rules_block import StateBlock, heading, html_block, list_block, reference, table
from markdown_it.rules_block.table import escapedSplit
from markdown_it.rules_inline import StateInline, entity, escape
from markdown_it.token import Token

from app.sanitise import sanitise

DEEPEST = 30
"""Most levels of nesting: 30 quotes, or 15 lists. Deeper text is parsed without the marks of its containers. Each level
costs stack, and for hostile text time: 48,000 characters of `>` and of lines without it take 3.5 s."""
LONGEST_FORMULA = 2_000
"""Most characters of a formula within a line; without a limit, a thousand open ones would take seconds."""
MOST_LINES = 60
"""Most lines of a formula that stands on its own lines."""
_MARK = r"(?:>|(?:[-+*]|\d{1,9}[.)])(?=[ \t]|$))[ \t]*"
_MARKS = re.compile(rf"[ \t]*(?:{_MARK})*")
_LAST_ITEM = re.compile(r"([-+*]|\d{1,9}[.)])[ \t]*$")
_FENCE = re.compile(r"(?P<marks>`{3,}(?=[^`]*$)|~{3,})")
_INSIDE = rf"[^`]{{1,{LONGEST_FORMULA}}}?"
_FORMULA = re.compile(
    rf"\\\({_INSIDE}\\\)|\\\[{_INSIDE}\\\]|\$\$[^`$]{{1,{LONGEST_FORMULA}}}\$\$"
    rf"|\\begin\{{(?P<name>\w+\*?)\}}{_INSIDE}\\end\{{(?P=name)\}}"
    # Prices and shell variables are not formulas: "$5 or $6", "$HOME/$USER".
    rf"|(?<![\w$\\])\$(?![\s$])[^`$\n]{{1,{LONGEST_FORMULA}}}(?<![\s\\])\$(?![\w$])"
)
_IN_CODE = re.compile(r"(?:[A-Za-z0-9/^.\\\]]|(?<=\\) )\\[(\[]|\\[)\]](?:[\\/+{]|\*(?!\*)|\.\w)|\$[{(]")
"""What a regular expression or a shell command around a formula has: `s/\\(a\\)/\\1/`, `${x}/${y}`."""
_OPENS_FORMULA = re.compile(r"(?:\$\$|\\\[|\\begin\{(?P<name>\w+\*?)\})")
_NAME = re.compile(r"(?<=[0-9A-Za-z])\*(?=[0-9A-Za-z])|(?<![\w*])__[a-z][a-z0-9_]*__(?!\w)")
_PLAIN = frozenset("\"%'(),/:;=?@^{}")
"""Punctuation without a meaning in Markdown. A backslash before it belongs to a formula or a command: `\\;`."""


def complete_markdown(
    preset: str,
    options: Mapping[str, Any] | None = None,
    *,
    renderer_cls: Callable[[MarkdownIt], RendererProtocol] = RendererHTML,
) -> MarkdownIt:
    """A parser with the rules of this preset that leaves nothing out."""
    markdown = MarkdownIt(preset, options, renderer_cls=renderer_cls)
    markdown.block = _Blocks()
    markdown.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    markdown.block.ruler.at("reference", _definition)
    markdown.block.ruler.at("html_block", _html_block, {"alt": ["paragraph", "reference", "blockquote"]})
    markdown.block.ruler.at("heading", _heading, {"alt": ["paragraph", "reference", "blockquote"]})
    markdown.block.ruler.at("list", _list, {"alt": ["paragraph", "reference", "blockquote"]})
    markdown.inline.ruler.at("escape", _escape)
    markdown.inline.ruler.at("entity", _entity)
    markdown.configure(preset, {**(options or {}), "maxNesting": DEEPEST})
    if preset != "zero":
        ends = ["paragraph", "reference", "blockquote", "list"]
        markdown.block.ruler.after("code", "formula", _formula_block, {"alt": ends})
        markdown.inline.ruler.before("escape", "formula", _formula)
        markdown.inline.ruler.before("emphasis", "name", _name)
    return markdown


class _Blocks(ParserBlock):
    """Parses text that is nested too deeply without the marks of its containers; the original parser drops it."""

    def tokenize(self, state: StateBlock, startLine: int, endLine: int) -> None:
        if state.level < DEEPEST:
            super().tokenize(state, startLine, endLine)
            return
        end = startLine
        while end < endLine and (state.isEmpty(end) or state.sCount[end] >= state.blkIndent):
            end += 1
        lines = state.getLines(startLine, end, state.blkIndent, False).split("\n")
        flat = StateBlock("\n".join(_without_containers(lines)), state.md, state.env, [])
        super().tokenize(flat, 0, flat.lineMax)
        for token in flat.tokens:
            token.level += state.level
            token.map = token.map and [line + startLine for line in token.map]
        state.tokens += flat.tokens
        state.line = end


def _without_containers(lines: list[str]) -> Iterator[str]:
    """Lines of nested lists and quotes without their marks and indents, reduced to one list. Code keeps its indent."""
    quotes = closing = None
    indent = 0
    for line in lines:
        if quotes is not None and closing is not None:
            inside = line[_end(quotes, line) :]
            inside = inside[min(indent, len(inside) - len(inside.lstrip(" "))) :]
            yield inside
            if closing.match(inside):
                quotes = closing = None
            continue
        start = _end(_MARKS, line)
        marks, text = line[:start], line[start:]
        if fence := _FENCE.match(text):
            quotes = re.compile(rf"(?:[ \t]*>){{0,{marks.count('>')}}}")
            closing = re.compile(rf"[ \t]*{fence['marks']}{fence['marks'][0]}*[ \t]*$")
            indent = start - marks.rfind(">") - 1
            yield text
        else:
            item = _LAST_ITEM.search(marks)
            yield f"{item[1]} {text}" if item else text


def _end(pattern: re.Pattern[str], line: str) -> int:
    found = pattern.match(line)
    return found.end() if found else 0


# ---- rules of blocks: a state, the first line, the line after the last, and whether only to look ahead ---------------


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A table whose last column takes surplus cells."""
    first = len(state.tokens)
    if not table(state, start, end, silent):
        return False
    row: list[Token] = []
    for token in () if silent else state.tokens[first:]:
        if token.type == "tr_open":
            row = []
        elif token.type == "inline":
            row.append(token)
        elif token.type == "tr_close" and row and row[0].map:
            line = row[0].map[0]
            written = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].strip()
            cells = escapedSplit(written)
            cells = cells[cells[0] == "" : len(cells) - (cells[-1] == "")]
            row[-1].content = " | ".join(cell.strip() for cell in cells[len(row) - 1 :])
    return True


def _heading(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A heading; marks without words become its text."""
    if not heading(state, start, end, silent):
        return False
    if not silent and not state.tokens[-2].content:
        state.tokens[-2].content = state.tokens[-1].markup
    return True


def _list(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A list whose numbers may have gaps: an item after a gap has its number as `value`."""
    first = len(state.tokens)
    if not list_block(state, start, end, silent):
        return False
    if not silent and state.tokens[first].type == "ordered_list_open":
        number = int(state.tokens[first].attrs.get("start", 1))
        for token in state.tokens[first:]:
            if token.type == "list_item_open" and token.level == state.level + 1:
                if int(token.info) > number:
                    number = token.attrs["value"] = int(token.info)
                number += 1
    return True


def _definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A link definition. A footnote is not one, and stays text."""
    if state.src.startswith("[^", state.bMarks[start] + state.tShift[start]):
        return False
    return reference(state, start, end, silent) and (silent or _written(state, "definition", start))


def _html_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """HTML that ends where code begins, so that code inside a comment is shown too."""
    if not html_block(state, start, end, silent):
        return False
    for line in () if silent else range(start + 1, state.line):
        if _FENCE.match(state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]):
            state.tokens.pop()
            state.line = line
            return _written(state, "html_block", start)
    return True


def _formula_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A formula of several lines, whose lines may look like a list or a heading."""
    begin = state.bMarks[start] + state.tShift[start]
    opening = None if state.is_code_block(start) else _OPENS_FORMULA.match(state.src, begin, state.eMarks[start])
    if opening is None:
        return False
    close = {"$$": "$$", "\\[": "\\]"}.get(opening[0], f"\\end{{{opening['name']}}}")
    if close in state.src[opening.end() : state.eMarks[start]]:
        return False
    for line in range(start + 1, min(end, start + MOST_LINES)):
        if state.isEmpty(line) or state.sCount[line] < state.blkIndent:
            return False
        if close in state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]:
            state.line = line + 1
            return silent or _written(state, "formula", start)
    return False


def _written(state: StateBlock, kind: str, start: int) -> bool:
    """Adds a token for the lines from `start` to the state's line, as written."""
    token = state.push(kind, "", 0)
    token.map = [start, state.line]
    token.content = state.getLines(start, state.line, state.blkIndent, False)
    return True


# ---- rules of text ---------------------------------------------------------------------------------------------------


def _formula(state: StateInline, silent: bool) -> bool:
    found = _FORMULA.match(state.src, state.pos, state.posMax) if state.src[state.pos] in "\\$" else None
    if found is None:
        return False
    if not silent:
        start, end = found.span()
        if (start and _IN_CODE.match(state.src, start - 1)) or _IN_CODE.match(
            state.src, end - 2 + (found[0][0] == "$")
        ):
            state.append_pending(found[0])
        else:
            state.push("formula_inline", "", 0).content = found[0]
    state.pos = found.end()
    return True


def _name(state: StateInline, silent: bool) -> bool:
    """A product such as `2*3*4` and a name such as `__init__` keep their marks."""
    return _as_written(_NAME, state, silent)


def _as_written(pattern: re.Pattern[str], state: StateInline, silent: bool) -> bool:
    found = pattern.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        state.append_pending(found[0])
    state.pos = found.end()
    return True


def _escape(state: StateInline, silent: bool) -> bool:
    begin = state.pos
    if not escape(state, silent):
        return False
    if not silent and state.src[begin + 1] in _PLAIN:
        state.tokens[-1].content = state.tokens[-1].markup
    return True


def _entity(state: StateInline, silent: bool) -> bool:
    """A character by its name, unless it is invisible, or hides or reorders others."""
    if not entity(state, silent):
        return False
    if not silent:
        token = state.tokens[-1]
        if token.content in "\n\t\ufffd" or sanitise(token.content) != token.content:
            token.content = token.markup
    return True
