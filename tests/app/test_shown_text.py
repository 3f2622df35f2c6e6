"""What is shown of hostile texts: no control sequences, nothing that hides or reorders; and short titles and names.

Characters that do are kept where a script or an emoji needs them.
"""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.model_names import short_model
from app.sanitise import MAX_STRING, Sanitiser, escape_json, sanitise
from app.titles import TITLE_LENGTH, title_from

CORPUS = {
    "clipboard, OSC 52 with BEL": ("a\x1b]52;c;cm0gLXJmIC8=\x07b", "ab"),
    "clipboard, 8-bit OSC": ("a\x9d52;c;cm0=\x9cb", "ab"),
    "hyperlink": ("\x1b]8;;http://evil.example\x1b\\ls\x1b]8;;\x1b\\", "ls"),
    "colour": ("\x1b[31;1mred\x1b[0m", "red"),
    "8-bit CSI": ("a\x9b2Jb", "ab"),
    "full reset": ("\x1bcls", "ls"),
    "character set": ("\x1b(0ls\x1b(B", "ls"),
    "DCS, tmux passthrough": ("\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\x", "x"),
    "PM": ("\x1b^private\x1b\\x", "x"),
    "C1 alone": ("a\x84\x85\x8d\x8fb", "ab"),
    "bell, backspaces over text": ("safe\x07\x08\x08\x08\x08rm", "saferm"),
    "carriage return hides a command": ("rm -rf /\rls       ", "rm -rf /ls       "),
    "nul, delete, form feed, vertical tab": ("a\x00\x7f\x0c\x0bb", "ab"),
    "windows line ends": ("a\r\nb", "a\nb"),
    "bidi embeddings": ("\u202a\u202b\u202c\u202da\u2067\u2068", "a"),
    "sequence inside a sequence": ("\x1b[\x1b]0;x\x07ls", "ls"),
    "aborted by another control": ("\x1b[31\x18ls", "ls"),
    "string aborted": ("\x1b]0;title\x18ls", "ls"),
    "escape at the end": ("ls\x1b", "ls"),
    "CSI at the end": ("ls\x1b[31", "ls"),
    "newline breaks a CSI": ("\x1b[3\nls", "\nls"),
}
ZWNJ, ZWJ, TEXT_FORM, EMOJI_FORM = "\u200c", "\u200d", "\ufe0e", "\ufe0f"

REMOVED = {
    "Trojan Source, an early return": ("'''\u202e\u2066 return\u2069\u2066'''; go()", "''' return'''; go()"),
    "Trojan Source, a homoglyph": ("is\u200bAdmin is\u2060Admin is\ufeffAdmin", "isAdmin isAdmin isAdmin"),
    "joiners between Latin letters": (f"rm{ZWJ} -r{ZWNJ}f", "rm -rf"),
    "joiners at both ends and doubled": (f"{ZWJ}می{ZWNJ}{ZWNJ}{ZWJ}خواهم{ZWNJ}", f"می{ZWNJ}خواهم"),
    "an emoji joined to a letter": (f"👩{ZWJ}a a{ZWJ}👩", "👩a a👩"),
    "soft hyphen and grapheme joiner": ("pass\u00adwd\u034f", "passwd"),
    "invisible operators": ("f\u2061x\u2062y\u2063z\u2064", "fxyz"),
    "tags that spell hidden words": ("ok\U000e0001\U000e0069\U000e0067\U000e006e\U000e007f", "ok"),
    "tags behind a flag": ("🏴\U000e0067\U000e0062\U000e007f", "🏴"),
    "selectors that carry bytes": ("a\ufe01\U000e0101😀\ufe01\ufe02\U000e0123b", "a😀\ufe01b"),
    "annotations": ("\ufff9word\ufffanote\ufffb", "wordnote"),
    "a control sequence between an emoji and its joiner": (f"👩{ZWJ}\x1b[31m💻", f"👩{ZWJ}💻"),
}
KEPT = {
    "plain text": "tar -xzf\tarchive.tar.gz\n# ünï ☃ 🐢 العربية עברית",
    "Persian": f"می{ZWNJ}خواهم کتاب{ZWNJ}ها",
    "Hindi": f"क्{ZWJ}ष श्री क्{ZWNJ}ष र्{ZWJ}",
    "Sinhala": f"ශ්{ZWJ}රී ලංකාව",
    "family": f"👨{ZWJ}👩{ZWJ}👧{ZWJ}👦",
    "profession with a skin tone": f"👩🏽{ZWJ}💻",
    "heart on fire": f"❤{EMOJI_FORM}{ZWJ}🔥",
    "keycap": f"1{EMOJI_FORM}\u20e3 #{EMOJI_FORM}\u20e3",
    "sign as text": f"☎{TEXT_FORM} ©{EMOJI_FORM}",
    "ideograph's form": "葛\U000e0100",
    "Mongolian": "ᠠ\u180b",
}


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [*CORPUS.values(), *REMOVED.values(), *((text, text) for text in KEPT.values())],
    ids=[*CORPUS, *REMOVED, *KEPT],
)
def test_corpus(dirty: str, clean: str) -> None:
    sanitiser = Sanitiser()
    assert sanitise(dirty) == clean == "".join(sanitiser.feed(char) for char in dirty)


def test_an_unterminated_string_hides_a_bounded_part() -> None:
    text = "\x1b]0;" + "x" * (2 * MAX_STRING)
    assert sanitise(text) == "x" * (MAX_STRING + 2)


INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u3164\u180b\u200b\u200c\u200d\u200e\u2060\u202e\u2069"
    "\ufe00\ufe0f\ufeff\U000e0041\U000e0101"
)
CONTROLS = "\x1b[]P_^X\\;?0123mHJch(\x07\x18\x1a\x9b\x9c\x9d\x90\n\t\r\u202e\u2066"
texts = st.text(
    st.one_of(st.sampled_from(CONTROLS), st.sampled_from(f"a1 葛क्می👩🏽❤↔{INVISIBLE}"), st.characters()), max_size=60
)


@given(texts, st.integers(0, 60))
@example(f"👩{ZWJ}💻", 2)
def test_the_text_of_a_prefix_is_a_prefix_of_the_text(text: str, cut: int) -> None:
    sanitiser = Sanitiser()
    first = sanitiser.feed(text[:cut])
    ghost = sanitiser.copy()
    assert first + ghost.feed(text[cut:]) == first + sanitiser.feed(text[cut:]) == sanitise(text)
    assert sanitise(sanitise(text)) == sanitise(text)


@given(texts)
def test_what_stays_is_alone_and_between_what_it_belongs_to(text: str) -> None:
    clean = sanitise(text)
    for before, char in zip(f"\n{clean}", clean):
        if char in INVISIBLE:
            assert before not in INVISIBLE or before == EMOJI_FORM, "two in a row could spell something"
            assert before not in "a \n", "nothing hides behind a plain letter"
    assert not any(char in "\u200b\u2060\ufeff\U000e0041" for char in clean)
    assert all(char in "\n\t" or unicodedata.category(char) != "Cc" for char in clean)
    ordering = {"LRO", "RLO", "LRE", "RLE", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not any(unicodedata.bidirectional(char) in ordering for char in clean)


def test_nothing_without_a_picture_is_left() -> None:
    """Every character of category Cf or of the default-ignorable blocks is removed beside plain letters."""
    shown = {"\u0600", "\u06dd", "\u070f", "\u0890", "\u08e2", "\U000110bd", "\U000110cd"}  # Signs that are visible.
    for code in range(0x110000):
        char = chr(code)
        if unicodedata.category(char) == "Cf" and char not in shown and not 0x13430 <= code <= 0x1345F:
            if unicodedata.name(char, "").startswith(("ARABIC", "KAITHI", "SYRIAC")) and char != "\u061c":
                continue
            assert sanitise(f"a{char}b") == "ab", hex(code)


@given(texts)
def test_json_says_the_same_and_shows_it(text: str) -> None:
    escaped = escape_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(escaped) == text
    assert sanitise(escaped) == escaped


# ---- titles and names ------------------------------------------------------------------------------------------------


def test_titles() -> None:
    for question, title in (
        ("How do I unpack a .tar.gz file?", "Unpack a .tar.gz file"),
        ("Hi, how can I find\nlarge files ?", "Find large files"),
        ("Could you please tell me how to rename a branch?", "Rename a branch"),
        ("I want to e2fsck a disk", "e2fsck a disk"),
        ("What is eating my disk?", "What is eating my disk"),
        ("解凍するには？", "解凍するには"),
        ("ls -l, please", "ls -l"),
        ("How do I?", "How do I"),
    ):
        assert title_from(question) == title
    for question in ("and list what is in it", "list images, pdfs etc.", "???", ""):
        assert title_from(question) == question


@given(st.text(max_size=200))
def test_any_question_has_a_title_from_one_line(question: str) -> None:
    title = title_from(question)
    assert len(title) <= TITLE_LENGTH and title == " ".join(title.split())
    assert bool(title) == bool(question.split())


def test_the_last_part_of_a_path_is_shown() -> None:
    for name, shown in (
        ("/srv/models/qwen.gguf", "qwen.gguf"),
        ("models/7B/ggml-model.gguf", "ggml-model.gguf"),
        ("./guide", "guide"),
        (r"C:\Users\me\guide.gguf", "guide.gguf"),
        (r"\\server\share\guide", "guide"),
        ("/srv/guide@main", "guide@main"),
    ):
        assert short_model(name) == shown
    for name in ("meta-llama/Llama-3.1-8B", "llama3:8b", "/", ""):
        assert short_model(name) == name
