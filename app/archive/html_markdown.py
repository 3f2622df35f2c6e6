"""Renders an answer's Markdown as HTML, with every unverified word shaded.

The answer is rendered twice: as it is, and with marks where drafted words begin and end. The renderer turns the marks
into spans. A mark is a punctuation character before a word, so Markdown treats it much like the white space there. If
the two results differ in more than the spans, whole lines are marked instead, then whole paragraphs, then nothing. The
answer cannot inject markup: HTML in it is text, images become a remark, and links lead only to web and mail addresses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import groupby
from urllib.parse import quote

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from app.complete_markdown import complete_markdown
from app.sanitise import sanitise

DRAFTED, VERIFIED = "\u2e40", "\u2e41"
"""The marks. Hardly any text contains them; if one does, it is not shaded."""
MARKED, SHADING = "marked", "shading"
"""Keys of the renderer's `env`: whether the marks in the text are ours, and whether the next text was drafted."""
LEVEL = "level"
"""Key of the renderer's `env`: the level of the heading above the answer."""
OPEN, CLOSE = '<span class="drafted">', "</span>"
LONGEST = 50_000
"""Longest answer, in characters, that is not shown as plain text. No model writes a longer one, and the parser takes a
minute for a hostile one of 100,000 brackets."""

INCOMPLETE = "\ufffd"
"""The character that a decoder returns for an incomplete character."""
_MARKS = re.compile(f"([{DRAFTED}{VERIFIED}])")
_STRUCTURE = re.compile(r"(?:(?:[-*+>#|=:_]+|\d{1,9}[.)]|(?:```|~~~)[^\n]*)(?:\s+|$))*")
"""Markup at the beginning of a line. A mark before it would turn a list into a paragraph."""
_ADDRESS = re.compile("(https?://|mailto:|#)", re.IGNORECASE)

Decode = Callable[[Sequence[int]], str]
Span = tuple[int, int]


def render(text: str, drafted: Sequence[Span] = (), level: int = 0) -> str:
    """The answer as HTML. `drafted` holds the (start, end) ranges of characters to shade, in order.

    `level`: of the heading above the answer. Its own headings are below that level, and keep their original level as an
    attribute.
    """
    if len(text) > LONGEST:
        return f"<pre>{escape(text)}</pre>\n"
    plain = str(_MARKDOWN.render(text, {LEVEL: level}))
    if not drafted or DRAFTED in text or VERIFIED in text:
        return plain
    for within in ("", "\n", "\n\n"):
        marked = _marked(text, [_widened(text, span, within) for span in drafted])
        shaded = str(_MARKDOWN.render(marked, {MARKED: True, LEVEL: level}))
        if shaded.replace(OPEN, "").replace(CLOSE, "") == plain:
            return shaded
    return plain


def drafted_spans(text: str, tokens: Sequence[int], provenance: Sequence[bool], decode: Decode | None) -> list[Span]:
    """The ranges of unverified characters; empty if the tokens cannot be mapped onto the text."""
    if not tokens or all(provenance):
        return []
    if not any(provenance):
        return [(0, len(text))]
    if decode is None or sanitise(decode(tokens)) != text:
        return []
    spans: list[Span] = []
    at = place = 0
    for verified, run in groupby(provenance):
        at += len(list(run))
        before, place = place, len(sanitise(decode(tokens[:at]).rstrip(INCOMPLETE))) if at < len(tokens) else len(text)
        if not verified and place > before:
            spans.append((before, place))
    return spans


def _marked(text: str, drafted: Iterable[Span]) -> str:
    """The text with a mark before the first word of each drafted range, and one before the first word after it."""
    pieces: list[str] = []
    at = 0
    for start, end in drafted:
        while start > at and not text[start - 1].isspace():
            start -= 1
        start, end = _word(text, max(start, at)), _word(text, end)
        if start >= end:
            continue
        pieces += [text[at:start], DRAFTED, text[start:end]]
        if end < len(text):
            pieces.append(VERIFIED)
        at = end
    return "".join(pieces) + text[at:]


def _widened(text: str, span: Span, within: str) -> Span:
    """The range, extended to whole parts that end with `within`: lines or paragraphs."""
    if not within:
        return span
    start, end = text.rfind(within, 0, span[0]), text.find(within, span[1])
    return 0 if start < 0 else start + len(within), len(text) if end < 0 else end


def _word(text: str, at: int) -> int:
    """The index at or after `at` where a word begins."""
    while 0 < at < len(text) and (text[at].isspace() or not text[at - 1].isspace()):
        at += 1
    begins_line = not text[text.rfind("\n", 0, at) + 1 : at].strip(" \t-*+>#|0123456789.)")
    found = _STRUCTURE.match(text, at) if begins_line else None
    return found.end() if found else at


class _Shaded(RendererHTML):
    """Turns marks into spans wherever text is shown, and closes each span before its element ends.

    Its state is in `env`, because several threads may render at once.
    """

    def renderToken(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        for name, value in token.attrs.items():
            if isinstance(value, str):
                token.attrs[name] = _unmarked(value, env)
        return super().renderToken(tokens, idx, options, env)

    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        own = int(tokens[idx].tag[1:])
        return f'<{_lowered(own, env)} data-level="{own}">'

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"</{_lowered(int(tokens[idx].tag[1:]), env)}>\n"

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _spans(tokens[idx].content, env)

    formula_inline = text

    def code_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<code>{_spans(tokens[idx].content, env)}</code>"

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<pre><code>{_spans(tokens[idx].content, env)}</code></pre>\n"

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        info = escape(" ".join(_unmarked(tokens[idx].info, env).split()))
        label = f' data-language="{info}"' if info else ""
        return f"<pre{label}><code>{_spans(tokens[idx].content, env)}</code></pre>\n"

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        about = _unmarked(token.content, env)
        address = " ".join(_unmarked(str(token.attrs.get(name, "")), env) for name in ("src", "title"))
        return f'<em class="picture">Picture: {escape(about)} {escape(address.strip())}</em>'

    def definition(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<p>{_spans(tokens[idx].content, env)}</p>\n"

    def formula(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f'<p class="formula">{_spans(tokens[idx].content, env)}</p>\n'


def _lowered(level: int, env: EnvType) -> str:
    """The tag of a heading of the answer; HTML has none deeper than `h6`."""
    return f"h{min(6, level + env[LEVEL])}"


def _spans(content: str, env: EnvType) -> str:
    if MARKED not in env:
        return escape(content)
    pieces: list[str] = []
    for piece in _MARKS.split(content):
        if piece in (DRAFTED, VERIFIED):
            env[SHADING] = piece == DRAFTED
        elif piece:
            pieces.append(f"{OPEN}{escape(piece)}{CLOSE}" if env.get(SHADING) else escape(piece))
    return "".join(pieces)


def _unmarked(text: str, env: EnvType) -> str:
    """An attribute or label without marks. The last mark in it decides how the text after it is shaded."""
    if MARKED not in env:
        return text
    for mark in (DRAFTED, VERIFIED):
        text = text.replace(quote(mark), mark)
    if marks := _MARKS.findall(text):
        env[SHADING] = marks[-1] == DRAFTED
    return _MARKS.sub("", text)


_MARKDOWN = complete_markdown("commonmark", {"html": False}, renderer_cls=_Shaded).enable(["table", "strikethrough"])
_MARKDOWN.validateLink = lambda url: bool(_ADDRESS.match(url))  # type: ignore[method-assign]
