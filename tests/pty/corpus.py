"""Control sequences that hostile models, servers, titles and imports send, and must never reach a terminal."""

from __future__ import annotations

import re

PAYLOADS = {
    "clipboard": "\x1b]52;c;UFdORUQ=\x07",
    "clipboard_st": "\x1b]52;c;UFdORUQ=\x1b\\",
    "title": "\x1b]0;PWNED\x07",
    "title_icon": "\x1b]2;PWNED\x1b\\",
    "hyperlink": "\x1b]8;;http://pwned.example/\x1b\\",
    "notify": "\x1b]9;PWNED\x07",
    "palette": "\x1b]4;1;rgb:ff/00/00\x07",
    "iterm": "\x1b]1337;File=name=UFdO;inline=1:UFdORUQ=\x07",
    "clear": "\x1b[2J",
    "scroll_back": "\x1b[3J",
    "move": "\x1b[99;199H",
    "report": "\x1b[6n",
    "attributes": "\x1b[c",
    "report_title": "\x1b[21t",
    "resize": "\x1b[8;1;1t",
    "blink": "\x1b[5;31;7m",
    "mouse": "\x1b[?1002h",
    "keys": "\x1b[>4;2m",
    "insert": "\x1b[4h",
    "dcs": "\x1bP$q\x22p\x1b\\",
    "sixel": "\x1bPq#0;2;0;0;0#0~~@@vv\x1b\\",
    "tmux": "\x1bPtmux;\x1b\x1b]52;c;UFdORUQ=\x07\x1b\\",
    "apc": "\x1b_Gf=24,s=1,v=1;UFdO\x1b\\",
    "pm": "\x1b^PWNED\x1b\\",
    "sos": "\x1bXPWNED\x1b\\",
    "reset": "\x1bc",
    "charset": "\x1b(0",
    "index": "\x1bD\x1bM",
    "save": "\x1b7",
    "c1_csi": "\x9b2J",
    "c1_osc": "\x9d52;c;UFdORUQ=\x9c",
    "c1_dcs": "\x90$q\x22p\x9c",
    "c1_apc": "\x9fGf=24;UFdO\x9c",
    "bell": "\x07",
    "backspace": "\x08\x08",
    "return": "\x0d",
    "shift_out": "\x0e",
    "enquiry": "\x05",
    "override": "\u202egnihtyna\u202c",
    "isolate": "\u2067gnihtyna\u2069",
    "mark": "a\u200eb\u200fc\u061cd",
    "zero_width": "a\u200bb\u2060c\ufeffd\u00ade",
    "joiner": "a\u200db\u200cc",
    "filler": "a\u3164b",
    "selector": "a\ufe01b\U000e0101c",
    "tag": "a\U000e0050\U000e0057\U000e007fb",
    "torn": "\x1b]52;c;VE9STg==",
}
"""Payloads by name. `torn` has no end and may take what follows it, so it comes last."""
END = "the-end-of-it"


def hostile(name: str) -> str:
    """Text with all payloads between plain words, and an end to wait for before the torn one."""
    parts = [f"{name} {word} {payload}." for word, payload in PAYLOADS.items()]
    return " ".join([*parts[:-1], f"\n\n{name}-{END}\n\n", parts[-1]])


def hostile_line(name: str) -> str:
    """A line with all payloads for a title or an error, of which only the beginning is shown."""
    return f"{name}-{END} " + "".join(payload for key, payload in PAYLOADS.items() if key != "torn")


OWN = re.compile(
    rb"\x1b\[[0-9;:]*[mH]"  # colours, the cursor
    rb"|\x1b\[\?(?:7|25|1000|1003|1004|1006|1015|1049|2004|2026|2048)[hl]"  # modes that Textual sets
    rb"|\x1b\[\?(?:2026|2048)\$p"  # and asks for
    rb"|\x1b\[(?:>[0-9]+|<|\?)u"  # the keyboard's protocol
    rb"|\x1b\]22;[a-z]*\x07"  # the shape of the pointer
    rb"|\x1b\[[23]?J|\x1b\[K"
)
"""Textual's own sequences, none of which carries text. No payload may be one of them."""
CONTROLS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe01\ufeff\U000e0000-\U000e0fff]"
)


def arrived(raw: bytes) -> list[str]:
    """Payloads, by name, that are in these bytes of a terminal; then any other control character."""
    found = [name for name, payload in PAYLOADS.items() if len(payload) > 1 and payload.encode() in raw]
    # Without our own sequences the rest is text, whose only control characters are line ends and tabs.
    text = OWN.sub(b"", raw).decode("utf-8", "replace")
    return found + [repr(text[max(0, at.start() - 20) : at.end() + 20]) for at in CONTROLS.finditer(text)]
