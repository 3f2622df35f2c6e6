"""The slots that intents declare, and the values that proofs and defaults give as text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.guide.values import (
    SPOKEN,
    Constant,
    Value,
    age_value,
    always_quoted,
    clock_value,
    date_value,
    glob_value,
    path_forms,
    quoted,
    seconds_value,
    size_value,
    text_value,
)

WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
"""Values that people use often, and placeholders."""


class SlotError(ValueError):
    """A slot's declaration is invalid. The message says what is wrong."""


@dataclass(frozen=True)
class Slot:
    """An intent's declaration of a slot."""

    type: str
    default: str | None = None
    """The value in the command if the question does not name it, or None for the placeholder of the type."""
    ends: tuple[str, ...] = ()
    """Endings that a file may have."""
    choices: tuple[Value, ...] = ()
    """Words to choose from; otherwise values are drawn by the type."""
    least: int = 1
    most: int = 1000
    own: bool = False
    """Whether it is one of the person's own folders, not the system's."""

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
        """The text in the command if the question does not name the slot."""
        if self.default is not None:
            return read_value(self, self.default, quote=False) if self.default else Value("", Constant(""))
        if self.choices:
            return self.choices[0]
        placeholder = WORDS["placeholders"].get(self.type, self.type)
        if self.type in ("file", "archive") and self.ends:
            placeholder = self.type + self.ends[0]
        return read_value(self, placeholder)


def _choice(raw: Any) -> Value:
    if isinstance(raw, Mapping):
        forms = {name: str(text) for name, text in raw.items() if name not in ("said", "typed")}
        if "said" not in raw or ("typed" not in raw and not forms):
            raise SlotError(f"a choice needs said and typed: {dict(raw)}")
        return Value(str(raw["said"]), {"": str(raw.get("typed", "")), **forms})
    if isinstance(raw, str):
        return Value(raw, Constant(raw))
    if not isinstance(raw, Sequence) or len(raw) != 2:
        raise SlotError(f"a choice is [said, typed]: {raw}")
    return Value(str(raw[0]), Constant(str(raw[1])))


# ---- values that a proof or a default gives as text ------------------------------------------------------------------

_SIZE = re.compile(r"(\d+) ?(k|m|g)b?", re.IGNORECASE)
_AGE = re.compile(r"(\d+) (minute|hour|day|week|month|year)s?")
_SECONDS = re.compile(r"(\d+) (second|minute)s?")
_CLOCK = re.compile(r"(\d+):(\d\d)")
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_LAST_NUMBER = re.compile(r"(\d+)\D*$")


def read_value(slot: Slot, text: str, *, quote: bool = True) -> Value:
    """Parse a value from text: `"7 days"` for an age, `"1 MB"` for a size. `quote`: as in a question.

    Raises `SlotError` if the text is not a value of the type.
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
        return seconds_value(int(found[1]), found[2], text)
    if kind == "clock" and (found := _CLOCK.fullmatch(text)):
        return clock_value(int(found[1]), int(found[2]), text)
    if kind == "date" and (found := _ISO.fullmatch(text)):
        return date_value(int(found[1]), int(found[2]), int(found[3]), text)
    if kind in ("column", "line") and (found := _LAST_NUMBER.search(text)):
        return Value(text, Constant(found[1]))
    if kind == "count" and text in SPOKEN:
        return Value(text, Constant(str(SPOKEN.index(text))))
    if kind in ("size", "age", "seconds", "clock", "date", "column", "line") and quote:
        raise SlotError(f"{text!r} is no {kind}; write it as {WORDS['placeholders'][kind]!r}")
    if kind in ("file", "folder", "path", "archive"):
        return Value(text, path_forms(text) if quote else {**path_forms(text), "": text})
    if kind == "glob":
        return glob_value(text, text)
    if kind in ("text", "message"):
        return text_value(text, text)
    return Value(text, {"": quoted(text) if quote else text, "raw": text, "quoted": always_quoted(text)})
