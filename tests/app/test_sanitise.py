"""Hostile answers, and the text of them that a terminal may get."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sanitise import MAX_STRING, Sanitiser, sanitise

CORPUS = {
    "clipboard, OSC 52 with BEL": ("a\x1b]52;c;cm0gLXJmIC8=\x07b", "ab"),
    "clipboard, OSC 52 with ST": ("a\x1b]52;c;cm0gLXJmIC8=\x1b\\b", "ab"),
    "clipboard, 8-bit OSC": ("a\x9d52;c;cm0=\x9cb", "ab"),
    "window title": ("\x1b]0;owned\x07ls", "ls"),
    "hyperlink": ("\x1b]8;;http://evil.example\x1b\\ls\x1b]8;;\x1b\\", "ls"),
    "colour": ("\x1b[31;1mred\x1b[0m", "red"),
    "private mode": ("\x1b[?1049hx\x1b[?25l", "x"),
    "8-bit CSI": ("a\x9b2Jb", "ab"),
    "clear screen and home": ("\x1b[2J\x1b[Hdone", "done"),
    "report asked, terminal would type": ("\x1b[6n\x1b[c\x1bZls", "ls"),
    "full reset": ("\x1bcls", "ls"),
    "character set": ("\x1b(0ls\x1b(B", "ls"),
    "DCS, sixel": ('\x1bP0;0;8q"1;1\x1b\\x', "x"),
    "DCS, tmux passthrough": ("\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\x", "x"),
    "APC, kitty graphics": ("\x1b_Gf=100;AAAA\x1b\\x", "x"),
    "PM": ("\x1b^private\x1b\\x", "x"),
    "SOS": ("\x1bXstring\x1b\\x", "x"),
    "C1 alone": ("a\x84\x85\x8d\x8fb", "ab"),
    "bell, backspaces over text": ("safe\x07\x08\x08\x08\x08rm", "saferm"),
    "carriage return hides a command": ("rm -rf /\rls       ", "rm -rf /ls       "),
    "nul, delete, form feed, vertical tab": ("a\x00\x7f\x0c\x0bb", "ab"),
    "windows line ends": ("a\r\nb", "a\nb"),
    "bidi override": ("access \u202e\u2066// admin\u2069\u2066", "access // admin"),
    "bidi embeddings": ("\u202a\u202b\u202c\u202da\u2067\u2068", "a"),
    "sequence inside a sequence": ("\x1b[\x1b]0;x\x07ls", "ls"),
    "aborted by another control": ("\x1b[31\x18ls", "ls"),
    "string aborted": ("\x1b]0;title\x18ls", "ls"),
    "escape at the end": ("ls\x1b", "ls"),
    "CSI at the end": ("ls\x1b[31", "ls"),
    "newline breaks a CSI": ("\x1b[3\nls", "\nls"),
    "plain text": (
        "tar -xzf\tarchive.tar.gz\n# ünï ☃ 🐢 العربية עברית",
        "tar -xzf\tarchive.tar.gz\n# ünï ☃ 🐢 العربية עברית",
    ),
}

hostile = st.text(
    st.one_of(
        st.sampled_from("\x1b[]P_^X\\;?0123mHJch(\x07\x18\x1a\x9b\x9c\x9d\x90\n\t\r\u202e\u2066"), st.characters()
    ),
    max_size=60,
)


@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name: str) -> None:
    dirty, clean = CORPUS[name]
    sanitiser = Sanitiser()
    assert sanitise(dirty) == clean == "".join(sanitiser.feed(char) for char in dirty)


@given(hostile)
def test_nothing_but_text_comes_out(text: str) -> None:
    clean = sanitise(text)
    assert all(char in "\n\t" or unicodedata.category(char) != "Cc" for char in clean)
    assert not any(
        unicodedata.bidirectional(char) in {"LRO", "RLO", "LRE", "RLE", "PDF", "LRI", "RLI", "FSI", "PDI"}
        for char in clean
    )
    assert sanitise(clean) == clean


def test_an_unterminated_string_hides_a_bounded_part() -> None:
    text = "\x1b]0;" + "x" * (2 * MAX_STRING)
    assert sanitise(text) == "x" * (MAX_STRING + 2)
