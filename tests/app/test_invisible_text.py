"""Characters that hide or reorder text are removed, except where a script or an emoji needs them."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.sanitise import Sanitiser, escape_json, sanitise

ZWNJ, ZWJ, TEXT_FORM, EMOJI_FORM = "\u200c", "\u200d", "\ufe0e", "\ufe0f"

REMOVED = {
    "Trojan Source, an early return": ("'''\u202e\u2066 return\u2069\u2066'''; go()", "''' return'''; go()"),
    "Trojan Source, a homoglyph by zero width": (
        "is\u200bAdmin is\u2060Admin is\ufeffAdmin",
        "isAdmin isAdmin isAdmin",
    ),
    "marks of direction": ("a\u200eb\u200fc\u061cd", "abcd"),
    "joiners between Latin letters": (f"rm{ZWJ} -r{ZWNJ}f", "rm -rf"),
    "joiners at both ends and doubled": (f"{ZWJ}می{ZWNJ}{ZWNJ}{ZWJ}خواهم{ZWNJ}", f"می{ZWNJ}خواهم"),
    "an emoji joined to a letter": (f"👩{ZWJ}a a{ZWJ}👩", "👩a a👩"),
    "soft hyphen and grapheme joiner": ("pass\u00adwd\u034f", "passwd"),
    "Hangul fillers, which look like spaces": ("a\u3164b\uffa0c\u115f\u1160", "abc"),
    "invisible operators": ("f\u2061x\u2062y\u2063z\u2064", "fxyz"),
    "tags that spell hidden words": ("ok\U000e0001\U000e0069\U000e0067\U000e006e\U000e007f", "ok"),
    "tags behind a flag": ("🏴\U000e0067\U000e0062\U000e007f", "🏴"),
    "selectors that carry bytes": ("a\ufe01\U000e0101😀\ufe01\ufe02\U000e0123b", "a😀\ufe01b"),
    "annotations": ("\ufff9word\ufffanote\ufffb", "wordnote"),
    "deprecated controls": ("a\u206a\u206fb", "ab"),
    "musical controls": ("a\U0001d173b", "ab"),
    "a control sequence between an emoji and its joiner": (f"👩{ZWJ}\x1b[31m💻", f"👩{ZWJ}💻"),
}
KEPT = {
    "Persian": f"می{ZWNJ}خواهم کتاب{ZWNJ}ها",
    "Hindi": f"क्{ZWJ}ष श्री क्{ZWNJ}ष र्{ZWJ}",
    "Sinhala": f"ශ්{ZWJ}රී ලංකාව",
    "family": f"👨{ZWJ}👩{ZWJ}👧{ZWJ}👦",
    "profession with a skin tone": f"👩🏽{ZWJ}💻",
    "heart on fire": f"❤{EMOJI_FORM}{ZWJ}🔥",
    "head that shakes": f"🙂{ZWJ}↔{EMOJI_FORM}",
    "rainbow flag": f"🏳{EMOJI_FORM}{ZWJ}🌈",
    "keycap": f"1{EMOJI_FORM}\u20e3 #{EMOJI_FORM}\u20e3",
    "sign as text": f"☎{TEXT_FORM} ©{EMOJI_FORM}",
    "ideograph's form": "葛\U000e0100",
    "Hebrew, Arabic": "עברית العربية",
    "Mongolian": "ᠠ\u180b",
    "accents": "e\u0301 Ünï",
}


@pytest.mark.parametrize("name", REMOVED)
def test_what_hides_or_reorders_is_removed(name: str) -> None:
    dirty, clean = REMOVED[name]
    assert sanitise(dirty) == clean


@pytest.mark.parametrize("name", KEPT)
def test_what_words_and_emoji_are_written_with_is_kept(name: str) -> None:
    assert sanitise(KEPT[name]) == KEPT[name]
    sanitiser = Sanitiser()
    assert "".join(sanitiser.feed(char) for char in KEPT[name]) == KEPT[name]


INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u3164\u180b\u200b\u200c\u200d\u200e\u2060\u202e\u2069"
    "\ufe00\ufe0f\ufeff\U000e0041\U000e0101"
)
CONTROLS = "\x1b[]P_^X\\?3mJc(\x07\x18\x9b\x9c\x9d\t\r"
texts = st.text(st.one_of(st.sampled_from(f"a1 \n葛क्می👩🏽❤↔{INVISIBLE}{CONTROLS}"), st.characters()), max_size=60)


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
    assert not any(char in "\u200b\u2060\u202e\u2069\ufeff\U000e0041" for char in clean)


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
