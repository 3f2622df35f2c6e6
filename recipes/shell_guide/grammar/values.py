"""What slots hold: how a person says a value, and how a command types it."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
"""Values that people use often, and placeholders."""
SPOKEN = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
UNITS = (("K", "KB", "kilobytes", 2**10), ("M", "MB", "megabytes", 2**20), ("G", "GB", "gigabytes", 2**30))
"""Short and long names of units of size, and their bytes."""
SPANS = {
    "minute": 60,
    "hour": 3600,
    "day": 86_400,
    "week": 604_800,
    "month": 2_592_000,
    "year": 31_536_000,
}
"""Units of time, in seconds. A month has 30 days, a year 365."""

_BARE = re.compile(r"(?:~/)?[\w@%+=:,./-]+|~")


class SlotError(ValueError):
    """A slot is declared in a way that nothing can be drawn from. The message says what is wrong."""


@dataclass(frozen=True)
class Value:
    """A value of a slot."""

    said: str
    """In a question, and in the sentence above the command."""
    forms: Mapping[str, str]
    """In a command, by the name of the form; "" is the usual one."""


@dataclass(frozen=True)
class Slot:
    """What an intent declares of a slot."""

    type: str
    default: str | None = None
    """What the command holds if the question does not name it. None: the placeholder of the type."""
    ends: tuple[str, ...] = ()
    """Endings that a file may have."""
    choices: tuple[Value, ...] = ()
    """Words with a meaning. Else values are drawn by the type."""
    least: int = 1
    most: int = 1000
    own: bool = False
    """A folder of the person's own, none of the system's."""

    @classmethod
    def read(cls, name: str, raw: Mapping[str, Any]) -> Slot:
        """Read `slots.NAME`. Raises `SlotError`."""
        unknown = set(raw) - {"type", "default", "ends", "choices", "min", "max"}
        if unknown:
            raise SlotError(f"slots.{name} has {', '.join(sorted(unknown))}, which nothing reads")
        choices = tuple(_choice(one) for one in raw.get("choices", ()))
        kind = raw.get("type", name.rstrip("0123456789"))
        return cls(
            kind, raw.get("default"), tuple(raw.get("ends", ())), choices, raw.get("min", 1), raw.get("max", 1000)
        )

    def unnamed(self) -> Value:
        """What stands in the command of a question that does not name the slot."""
        if self.default is not None:
            return read_value(self, self.default, quote=False) if self.default else Value("", _Constant(""))
        if self.choices:
            return self.choices[0]
        placeholder = WORDS["placeholders"].get(self.type, self.type)
        if self.type in ("file", "archive") and self.ends:
            placeholder = self.type + self.ends[0]
        return read_value(self, placeholder)


class _Constant(dict[str, str]):
    """Every form of a value that is typed in one way only."""

    def __init__(self, text: str) -> None:
        super().__init__({"": text})

    def __missing__(self, form: str) -> str:
        return self[""]


def constant(said: str, typed: str) -> Value:
    """A value that is typed in one way only."""
    return Value(said, _Constant(typed))


def plain(text: str) -> Value:
    """A value that is typed as it is said, quoted if it must be."""
    return Value(text, {"": quoted(text), "raw": text, "quoted": always_quoted(text)})


def _choice(raw: Any) -> Value:
    if isinstance(raw, Mapping):
        forms = {name: str(text) for name, text in raw.items() if name not in ("said", "typed")}
        if "said" not in raw or ("typed" not in raw and not forms):
            raise SlotError(f"a choice needs said and typed: {dict(raw)}")
        return Value(str(raw["said"]), {"": str(raw.get("typed", "")), **forms})
    if isinstance(raw, str):
        return Value(raw, _Constant(raw))
    if not isinstance(raw, Sequence) or len(raw) != 2:
        raise SlotError(f"a choice is [said, typed]: {raw}")
    return Value(str(raw[0]), _Constant(str(raw[1])))


# ---- quoting ---------------------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Quote a word for bash as people do: not at all if it needs none, else in single quotes."""
    if _BARE.fullmatch(text):
        return text
    if text.startswith("~/"):
        return "~/" + quoted(text[2:])
    return always_quoted(text)


def always_quoted(text: str) -> str:
    """Quote a text for bash, in double quotes if it holds a single one and nothing that they would change."""
    if "'" not in text:
        return f"'{text}'"
    return f'"{text}"' if not re.search(r'["$`\\!]', text) else shlex.quote(text)


def path_forms(path: str) -> dict[str, str]:
    """The forms of a path: as a word of a command, as it is, and its parts."""
    name = path.rstrip("/").rpartition("/")[2]
    base, _, ending = name.partition(".")
    if not base:  # .bashrc
        base, ending = name, ""
    if ending.count("."):  # notes.v2.txt, but backup.tar.gz
        known = ending if ending.startswith("tar.") else ending.rpartition(".")[2]
        base, ending = name[: -len(known) - 1], known
    return {
        "": quoted(path), "raw": path, "stem": quoted(base), "ext": ending, "name": quoted(name),
        "rawstem": base, "folder": quoted(path.rpartition("/")[0] or "."),
    }  # fmt: skip


# ---- values with units -----------------------------------------------------------------------------------------------


def size_value(number: int, unit: int, said: str) -> Value:
    """A size of so many kibi-, mebi- or gibibytes (`unit` 0, 1, 2)."""
    short, _, _, factor = UNITS[unit]
    find = f"{number}{'k' if unit == 0 else short}"
    return Value(said, {"": f"{number}{short}", "find": find, "bytes": str(number * factor), "number": str(number)})


def age_value(number: int, unit: str, said: str) -> Value:
    """A time span in minutes, hours, days, weeks, months of 30 or years of 365 days."""
    seconds = number * SPANS[unit]
    days, minutes = -(-seconds // 86400), -(-seconds // 60)
    test = f"-mtime {{}}{days}" if unit not in ("minute", "hour") or seconds % 86400 == 0 else f"-mmin {{}}{minutes}"
    plural = unit if number == 1 else unit + "s"
    return Value(said, {
        "": str(days), "newer": test.format("-"), "older": test.format("+"), "days": str(days), "minutes": str(minutes),
        "seconds": str(seconds), "date": f"{number} {plural} ago", "span": f"{number} {plural}",
    })  # fmt: skip


def date_value(year: int, month: int, date: int, said: str) -> Value:
    """A day of the calendar."""
    iso = f"{year}-{month:02}-{date:02}"
    return Value(said, {"": iso, "raw": iso, "compact": f"{year}{month:02}{date:02}", "year": str(year)})


def clock_value(hour: int, minute: int, said: str) -> Value:
    """A time of the day."""
    return Value(said, {"": f"{hour:02}:{minute:02}", "hour": str(hour), "minute": str(minute)})


# ---- values that a proof or a default gives as text ------------------------------------------------------------------

_SIZE = re.compile(r"(\d+) ?(k|m|g)b?", re.IGNORECASE)
_AGE = re.compile(r"(\d+) (minute|hour|day|week|month|year)s?")
_SECONDS = re.compile(r"(\d+) (second|minute)s?")
_CLOCK = re.compile(r"(\d+):(\d\d)")
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_LAST_NUMBER = re.compile(r"(\d+)\D*$")


def read_value(slot: Slot, text: str, *, quote: bool = True) -> Value:
    """The value that a text stands for: `"7 days"` of an age, `"1 MB"` of a size. `quote`: as a value of a question is.

    Raises `SlotError` if the text is no value of the type.
    """
    for choice in slot.choices:
        if text in (choice.said, choice.forms[""]):
            return choice
    kind = slot.type
    if kind == "size" and (found := _SIZE.fullmatch(text)):
        return size_value(int(found[1]), "kmg".index(found[2].lower()), text)
    if kind == "age" and (found := _AGE.fullmatch(text)):
        return age_value(int(found[1]), found[2], text)
    if kind == "seconds" and (found := _SECONDS.fullmatch(text)):
        number = int(found[1]) * (60 if found[2] == "minute" else 1)
        return Value(text, {"": str(number), "minutes": str(-(-number // 60))})
    if kind == "clock" and (found := _CLOCK.fullmatch(text)):
        return clock_value(int(found[1]), int(found[2]), text)
    if kind == "date" and (found := _ISO.fullmatch(text)):
        return date_value(int(found[1]), int(found[2]), int(found[3]), text)
    if kind in ("column", "line") and (found := _LAST_NUMBER.search(text)):
        return Value(text, _Constant(found[1]))
    if kind == "count" and text in SPOKEN:
        return Value(text, _Constant(str(SPOKEN.index(text))))
    if kind in ("size", "age", "seconds", "clock", "date", "column", "line") and quote:
        raise SlotError(f"{text!r} is no {kind}; write it as {WORDS['placeholders'][kind]!r}")
    if kind in ("file", "folder", "path", "archive"):
        return Value(text, path_forms(text) if quote else {**path_forms(text), "": text})
    if kind == "glob":
        return Value(text, {"": f"'{text}'", "raw": text, "ext": text.rpartition(".")[2]})
    if kind in ("text", "message"):
        return Value(text, {"": always_quoted(text), "raw": text})
    return Value(text, {"": quoted(text) if quote else text, "raw": text, "quoted": always_quoted(text)})
