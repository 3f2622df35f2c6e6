"""Answers as HTML: nothing in them becomes markup, and every word that nobody verified is marked."""

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from app.archive.html_markdown import CLOSE, LONGEST, OPEN, render

SAMPLE = (
    "Use **tar** to _unpack it_ now:\n\n```sh\ntar -xf a.tgz\nls -l\n```\n\n- first item\n"
    '- second [link here](http://a.b/c "its title") x\n\n# A head\n\n| a | b |\n|---|---|\n| c d | e |\n\n'
    "last `co de` words."
)


def shaded(html: str) -> str:
    """The text inside the spans."""
    return "".join(re.findall(f"{OPEN}(.*?){CLOSE}", html, re.DOTALL))


def without_spans(html: str) -> str:
    return html.replace(OPEN, "").replace(CLOSE, "")


def test_from_there_on_it_is_marked() -> None:
    for text, start, marked in (
        ("one two three", 5, "two three"),  # Part of a word is drafted.
        ("one two three", 0, "one two three"),
        ("a\n\n# head\n\nb", 3, "headb"),
        ("a\n\n- one\n- two", 3, "onetwo"),
        ("a\n\n1. one\n2. two", 10, "two"),
        ("a\n\n```sh\nls -l\n```", 12, "-l\n"),
        ("a\n\n    code here", 12, "here\n"),
        ("a **b c** d", 6, "cd"),
        ("a _b_ `c d`", 2, "bc d"),
        ("see <http://a.b/c> there", 4, "http://a.b/c there"),
        ("x [a](http://b) y", 16, "y"),
    ):
        html = render(text, [(start, len(text))])
        assert without_spans(html) == render(text)
        assert shaded(html).replace(" ", "") == marked.replace(" ", "")


def test_marks_never_change_the_page_and_cover_what_was_drafted() -> None:
    plain = render(SAMPLE)
    for start in range(len(SAMPLE)):
        for end in (start + 1, start + 9, len(SAMPLE)):
            html = render(SAMPLE, [(start, min(end, len(SAMPLE)))])
            assert without_spans(html) == plain
            for word in re.findall(r"\b(?:unpack|first|second|words|tgz|head)\b", SAMPLE[start:end]):
                assert word in shaded(html)


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '![x" onerror="alert(1)](http://evil/track.png)',
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,x) [d](vbscript:x) [e](file:///etc/passwd)",
    "[a]: javascript:alert(1)\n\n[a]",
    "<javascript:alert(1)>",
    '[a](http://x/"onmouseover="alert(1))',
    '```"><script>alert(1)</script>\nx\n```',
    "```sh\n</code></pre><script>alert(1)</script>\n```",
    "`</code><script>alert(1)</script>`",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    '<span class="drafted">trust me</span></span></div></article>',
    "| <b>a</b> |\n|---|\n| </table><script> |",
    "<!-- ",
    "<style>*{display:none}</style>",
    "</div></article></section></body>",
]


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


ALLOWED = {
    "p", "em", "strong", "s", "a", "code", "pre", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote",
    "table", "thead", "tbody", "tr", "th", "td", "hr", "br", "span",
}  # fmt: skip


def check_harmless(html: str) -> None:
    parser = Tags()
    parser.feed(html)
    for tag, attributes in parser.found:
        assert tag in ALLOWED, html
        assert set(attributes) <= {"href", "title", "class", "data-language", "data-level", "start", "style"}, html
        assert re.fullmatch("(https?:|mailto:|#).*", attributes.get("href") or "#", re.IGNORECASE | re.DOTALL), html
        assert re.fullmatch("(text-align:(left|right|center))?", attributes.get("style") or ""), html


def test_nothing_in_an_answer_becomes_markup() -> None:
    for text in HOSTILE:
        for spans in ([], [(0, len(text))], [(len(text) // 2, len(text))]):
            check_harmless(render(text, spans))
        check_harmless(render(f"- a\n  > {text}", [(3, 9)]))


PIECES = [*"<>\"'&[]()!`*_#|-\n :", "a", "script", "javascript:", "http://x", "```", "<b "]


@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_no_text_becomes_markup(pieces: list[str]) -> None:
    text = "".join(pieces)
    html = render(text, [(len(text) // 3, len(text))])
    check_harmless(html)
    assert without_spans(html) == render(text)


def test_a_link_to_the_web_stays_one_and_what_is_too_long_to_parse_is_shown_as_it_is() -> None:
    assert '<a href="https://a.b/?c=1&amp;d">x</a>' in render("[x](https://a.b/?c=1&d)")
    assert render("<" * (LONGEST + 1)).startswith("<pre>&lt;&lt;")
