"""Draws questions about error messages, answered by their cause and what finds out more or mends them (errors.toml)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recipes.shell_guide.grammar.names import pick
from recipes.shell_guide.grammar.phrases import Phrase
from recipes.shell_guide.grammar.slot_types import DRAW
from recipes.shell_guide.grammar.slot_types import draw as draw_value
from recipes.shell_guide.grammar.talk import invented_program
from recipes.shell_guide.grammar.values import Slot
from recipes.shell_guide.grammar.wording import typed

_DATA = tomllib.loads(Path(__file__).with_name("errors.toml").read_text(encoding="utf-8"))
ERRORS: Sequence[Mapping[str, Any]] = _DATA["error"]
BARE, BELOW = 0.35, 0.2
"""Shares of messages that are pasted without a word, and of those in a line below the question."""
_FORMS, _ABOVE = (tuple(map(Phrase.read, _DATA[key])) for key in ("with", "above"))
_PROGRAMS = (
    "htop", "jq", "tree", "ncdu", "ffmpeg", "nmap", "rg", "fd", "bat", "tmux", "docker", "node", "go", "cargo", "pip3",
    "convert", "ifconfig", "netstat", "dig", "zip", "make", "gcc", "rsync", "curl", "nvim", "kubectl", "terraform",
)  # fmt: skip
_SLOT = re.compile(r"\{([a-z]+\d?)\}")


def draw(rng: np.random.Generator) -> tuple[str, str]:
    """A question about an error message, and the answer."""
    return asked(ERRORS[int(rng.integers(len(ERRORS)))], rng)


def asked(error: Mapping[str, Any], rng: np.random.Generator) -> tuple[str, str]:
    """A question about this error, and the answer."""
    says = pick(rng, error["says"])
    values: dict[str, str] = {}
    for name in _SLOT.findall(says):
        while name not in values or list(values.values()).count(values[name]) > 1:
            values[name] = _value(name, rng)
    message = _filled(says, values)
    parts = [_filled(error["why"], values)]
    if "do" in error:
        parts[0] += f" {_filled(error['do'], values)}"
        parts.append(f"```sh\n{_filled(error['run'], values)}\n```")
    return _question(message, rng), "\n\n".join(parts)


def _question(message: str, rng: np.random.Generator) -> str:
    way = rng.random()
    if way < BARE:
        return message
    if way < BARE + BELOW:
        return f"{typed(_ABOVE[int(rng.integers(len(_ABOVE)))].draw(rng)[0], rng)}\n{message}"
    form, _ = _FORMS[int(rng.integers(len(_FORMS)))].draw(rng)
    sign = pick(rng, ("", "", '"', "`"))
    if sign in message or form.startswith("error:"):
        sign = ""
    return typed(form, rng).replace("{error}", f"{sign}{message}{sign}")


def _value(name: str, rng: np.random.Generator) -> str:
    """A name without spaces and signs of the shell, so that message and command write it in the same way."""
    if name == "program":
        return pick(rng, _PROGRAMS) if rng.random() < 0.7 else invented_program(rng)
    while True:
        value = draw_value(_slot(name), rng).forms[""]
        if re.fullmatch(r"[\w./:@~+-]+", value) and len(value) > 1:
            return value.rstrip("/") if name.startswith(("folder", "mount")) and len(value) > 2 else value


def _slot(name: str) -> Slot:
    """The slot of this name; its type is the name without a digit."""
    slot = Slot.read(name, {})
    if slot.type not in DRAW:
        raise ValueError(f"errors.toml: no type {slot.type}")
    return slot


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _SLOT.sub(lambda found: values.get(found[1]) or _placeholder(found[1]), text)


def _placeholder(name: str) -> str:
    return "PROGRAM" if name == "program" else _slot(name).unnamed().forms[""]
