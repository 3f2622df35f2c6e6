"""Nothing that a model wrote is left out, in the chat and in exported HTML: whatever Markdown makes of it."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.archive.html_markdown import render
from app.commands.risk import Kind
from app.commands.risks import answer_risks
from app.tui.block_notes import block_notes
from app.tui.markdown.layout import wrap
from app.tui.markdown.parser import leaves

FENCE = ["```sh", "rm -rf zz", "```", "end"]
DEEP = {
    "nested lists": [f"{'  ' * level}- level{level}" for level in range(60)],
    "numbered lists": [f"{'   ' * level}1. level{level}" for level in range(40)],
    "lists in a line": ["- " * 60 + "word"],
    "many quotes": [">" * 1_000 + "word", "after"],
    "code in quotes": ["> " * 60 + line for line in FENCE],
    "code in lists": [f"{'  ' * level}- level{level}" for level in range(30)] + ["  " * 30 + line for line in FENCE],
    "code behind marks": ["- " * 50 + FENCE[0], *("  " * 50 + line for line in FENCE[1:])],
    "code in lists in quotes": ["> " * 30 + "- " * 8 + FENCE[0], *("> " * 30 + "  " * 8 + line for line in FENCE[1:])],
    "a table in lists": [f"{'  ' * n}- level{n}" for n in range(12)]
    + ["  " * 12 + row for row in ("|a|", "|-|", "|b|")],
}
WRITTEN = {
    "a definition": '[name]: http://a.example/b "a title"',
    "definitions over lines": "see [a] and [c]\n\n[a]: http://b.example\n[c]: <http://d.example>\n  'more\n  words'",
    "a footnote": "words[^1]\n\n[^1]: https://a.example",
    "a comment": "a <!-- hidden --> b\n\n<!-- another\n\nword -->",
    "tags": "<details><summary>more</summary>\n\ninside <b id='x'>bold</b>\n\n</details><script>y()</script>",
    "front matter": "---\ntitle: words\nother: more\n---\n\nbody",
    "more cells than columns": "| a | b |\n|---|---|\n| c | d | e | f |\n| `g|h` | i |",
    "a picture": '![words](http://a.example/b.png "a title")',
    "words behind the language": '```sh title="a name" {.b}\nls\n```',
    "words in place of a language": "```rm -rf zz\n```",
    "numbers that leave some out": "3. a\n7. b\n9. c",
    "hidden characters": "a&#x202e;b&#8203;c&shy;d&#0;e&NewLine;f",
    "a line of any length": "word " * 4_000,
    "a product": "2*3*4 and a*b*c",
    "a name": "__init__.py has __all__",
}
FORMULAS = {
    r"so \[ a_1 * b_1 * c \] is": "so a₁ * b₁ * c is",
    r"$a_1 \% b$ and $x\_y$": "a₁%b and x_y",
    "$$\n\\int_0^1 \\, dx\n+ b \\\\\n- c\n= d\n$$": "∫₀¹ dx + b\n−c = d",
    "so:\n\\[\na\n> b\n\\]\nthen": "so:\n\na > b\n\nthen",
    "\\begin{align}\na &= b \\\\\n# c &= d\n\\end{align}": None,
    r"find with \( -name x \) -exec rm {} \;": None,
}
"""What is drawn of each; None if it stays as written."""
FORMATTED = {
    "costs $5 and *more* for $6": "costs $5 and more for $6",
    "`$HOME` and *a* `$USER`": "$HOME and a $USER",
    "$HOME/*a*/$USER": "$HOME/a/$USER",
    r"\*no emphasis\* \_x\_ \# \\": "*no emphasis* _x_ # \\",
    "&lt;b&gt; &amp; &nbsp;&copy;": "<b> & \xa0©",
}


def shown(text: str, width: int = 60) -> str:
    """The chat's rows, as they are on a screen of this width."""
    rows = [row for one in wrap(leaves(text), width, solid=len(text)) for row in one.rows]
    lines = [row.left.plain + row.info + "".join(piece.plain for _, piece, _ in row.pieces) for row in rows]
    assert all(row.left.cell_length < width for row in rows)
    return "\n".join(lines)


def page(text: str) -> str:
    """The words of a page, with those of its attributes."""
    html = re.sub(r'<[^>]*?(?: (?:data-language|value|start)="([^"]*)")?>', r"\1 ", render(text))
    return unescape(html)


def words(text: str) -> set[str]:
    """The words and numbers of a text; long ones may be wrapped on a screen, and the marks of lists are drawn."""
    return set(re.findall(r"[^\W_]+", text)) - {"sh"}


@pytest.mark.parametrize("lines", DEEP.values(), ids=DEEP)
def test_what_is_nested_deeply_is_shown_with_its_warnings(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert words(text) <= words(shown(text)) | {"1"}
    assert words(text) <= words(page(text)) | {"1"}
    if FENCE[1] in text:
        found = block_notes("list my files", [leaf for leaf in leaves(text) if leaf.kind == "code"])
        assert [len(notes.lines) for _, notes in found.blocks] == [1]
        assert [risk.kind for risk in answer_risks(text)] == [Kind.DELETES]
        assert f">{FENCE[1]}\n<" in render(text)


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_what_markdown_hides_is_shown(text: str) -> None:
    for told in (shown(text), page(text)):
        assert words(text) <= words(told)
    for mark in ("__init__", "2*3*4", "a*b*c", "&#x202e;", "&#8203;", "&shy;", "&#0;", "<!--", "<summary>"):
        assert (mark in text) == (mark in shown(text)) == (mark in page(text)), mark


@pytest.mark.parametrize(("text", "said"), FORMULAS.items())
def test_a_formula_loses_nothing_and_is_drawn_only_on_the_screen(text: str, said: str | None) -> None:
    assert all(line in page(text) for line in text.splitlines())
    assert shown(text, 200) == (said or text)


@pytest.mark.parametrize(("text", "plain"), FORMATTED.items())
def test_what_is_no_formula_is_formatted(text: str, plain: str) -> None:
    assert shown(text) == plain
    assert "".join(page(text).split()) == "".join(plain.split())


def test_code_within_html_is_code() -> None:
    for text in ("<!--\n```sh\nrm -rf zz\n```\n-->", "<div>\n```sh\nrm -rf zz\n```\n</div>"):
        assert [leaf.content.plain for leaf in leaves(text) if leaf.kind == "code"] == ["rm -rf zz"]
        assert words(text) <= words(shown(text))


def test_an_address_stands_behind_its_words() -> None:
    for text, seen in (
        ("[bank](http://evil.example 'safe') http://a.example", 'bank (http://evil.example "safe") http://a.example'),
        ("[](http://a.example)", "http://a.example"),
        ("[http://a.example](http://a.example)", "http://a.example"),
    ):
        assert shown(text) == seen


PIECES = [
    "> ", "- ", "1. ", "  ", "\n", "\n\n", "```\n", "w1", "w2 ", "[a]: ", "[^1]: ", "| ", "|-|\n", "<!--", "$$", "\\[",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_no_word_of_any_text_is_lost(text: str) -> None:
    assert words(text) - {"1"} <= words(shown(text, 200))
    assert words(text) - {"1"} <= words(page(text))
