"""How a command writes what a question names: quoted, without its ending, in days, in bytes.

A value has forms by name; "" is the usual one. The grammar of the training data draws values with the same forms, so a
filled example reads like a learnt answer.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Value:
    said: str
    """In a question, and in the sentence above the command."""
    forms: Mapping[str, str]
    """In a command, by the name of the form; "" is the usual one."""

    def typed(self, form: str) -> str | None:
        """The value in one form, or None."""
        try:
            return self.forms[form]  # A constant has every form, which `get` would not find.
        except KeyError:
            return None


class Constant(dict[str, str]):
    """The forms of a value that is written in only one way."""

    def __init__(self, text: str) -> None:
        super().__init__({"": text})

    def __missing__(self, form: str) -> str:
        return self[""]


def constant(said: str, typed: str) -> Value:
    """A value that is written in only one way."""
    return Value(said, Constant(typed))


def plain(text: str) -> Value:
    """A value that is written as it is said, quoted if necessary."""
    return Value(text, {"": quoted(text), "raw": text, "quoted": always_quoted(text)})


# ---- quoting ---------------------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Quote a word for bash as people do: in single quotes, and only if necessary."""
    if _BARE.fullmatch(text):
        return text
    if text.startswith("~/"):
        return "~/" + quoted(text[2:])
    return always_quoted(text)


def always_quoted(text: str) -> str:
    """Quote a text for bash.

    Double quotes are used if it contains a single quote and nothing that they would change.
    """
    if "'" not in text:
        return f"'{text}'"
    return f'"{text}"' if not re.search(r'["$`\\!]', text) else shlex.quote(text)


# ---- names -----------------------------------------------------------------------------------------------------------


def path_forms(path: str) -> dict[str, str]:
    """The forms of a path: as a shell word, as it is, and its parts."""
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


def path_value(path: str) -> Value:
    """A file or a folder."""
    return Value(path, path_forms(path))


def glob_value(pattern: str, said: str) -> Value:
    """A pattern of file names, such as `*.log`."""
    return Value(said, {"": f"'{pattern}'", "raw": pattern, "ext": pattern.rpartition(".")[2]})


def text_value(text: str, said: str) -> Value:
    """A text that is always in quotes."""
    return Value(said, {"": always_quoted(text), "raw": text})


# ---- values with units -----------------------------------------------------------------------------------------------


def size_value(number: int, unit: int, said: str) -> Value:
    """A size in kibi-, mebi- or gibibytes (`unit` 0, 1, 2)."""
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


def seconds_value(number: int, unit: str, said: str) -> Value:
    """A short time, in seconds or minutes, that a command takes in seconds."""
    typed = number * (60 if unit == "minute" else 1)
    return Value(said, {"": str(typed), "minutes": str(-(-typed // 60))})


def date_value(year: int, month: int, date: int, said: str) -> Value:
    """A day of the calendar."""
    iso = f"{year}-{month:02}-{date:02}"
    return Value(said, {"": iso, "raw": iso, "compact": f"{year}{month:02}{date:02}", "year": str(year)})


def clock_value(hour: int, minute: int, said: str) -> Value:
    """A time of the day."""
    return Value(said, {"": f"{hour:02}:{minute:02}", "hour": str(hour), "minute": str(minute)})
