"""Removes the quotes and backslashes of Bash, as described in its manual under "Quoting"."""

from __future__ import annotations

import re

_NAMED = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ANSI_C = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{1,4})"
    r"|U(?P<long>[0-9A-Fa-f]{1,8})|c(?P<control>.)|(?P<other>.))",
    re.DOTALL,
)


def unescaped(text: str) -> str:
    """A word outside quotes: a backslash keeps the next character, or removes a newline."""
    return re.sub(r"\\(\n|.|$)", lambda found: "" if found[1] == "\n" else found[1] or "\\", text, flags=re.DOTALL)


def double_quoted(text: str) -> str:
    r"""The inside of double quotes: a backslash is special only before `$`, `` ` ``, `"`, `\` and a newline."""
    return re.sub(r'\\([$`"\\\n])', lambda found: "" if found[1] == "\n" else found[1], text)


def ansi_c(text: str) -> str:
    r"""The inside of `$'…'`: `\n`, `\x72`, `\162` and others are the characters that they name."""
    return _ANSI_C.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    if found["octal"]:
        return chr(int(found["octal"], 8) & 0xFF)
    for name in ("hex", "short", "long"):
        if found[name]:
            number = int(found[name], 16)
            return chr(number) if number < 0x110000 else found[0]
    if found["control"]:
        return chr(ord(found["control"]) & 0x1F)
    return _NAMED.get(found["other"], found["other"])
