"""Intents: read from TOML, and drawn as questions and answers."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from models.guide import outline
from models.guide.values import Value
from recipes.shell_guide.grammar.phrases import Phrase, PhraseError, without_one
from recipes.shell_guide.grammar.slot_types import DRAW, draw
from recipes.shell_guide.grammar.values import Slot, SlotError, read_value

FOLDER = Path(__file__).parents[1] / "intents"
OUTPUTS = ("", "lines", "paths")

_HARMFUL = frozenset(
    {"rm", "rmdir", "mv", "chmod", "chown", "chgrp", "shred", "truncate", "trash-put", "find", "rsync"}
)
"""Programs that are asked only about the person's own folders, never about `/etc`."""
_SAID = re.compile(r"\{([a-z_]+\d*)\}")
_TYPED = re.compile(r"\{([a-z_]+\d*)(?:\.([a-z]+))?\}")
_CONDITION = re.compile(r"⟨([^⟨⟩]*)⟩")
"""A part of a command that is typed only if the question named each slot in it."""
_UNFRAMED = re.compile(
    r"=|(?:what\w*|which|how|where|who|when|why|is|are|was|do|does|did|can|could|will|would|should|my|i|i'm|i've|it|the"
    r"|any|am|there|need|want|pls|please|a|an|all|no|only|and|in|on|of|for|from|with|without|as|to|one|every|each|this"
    r"|that)\b",
    re.IGNORECASE,
)


class IntentError(ValueError):
    """An intent cannot be read. The message says which one, and what to change."""


@dataclass(frozen=True)
class Asked:
    """A phrase of `ask`, and whether "how do I ..." may precede it."""

    phrase: Phrase
    framed: bool


@dataclass(frozen=True)
class Proof:
    """A run that proves that the command does what the sentence says."""

    values: Mapping[str, str]
    files: Mapping[str, Any]
    before: str
    prints: tuple[str, ...] | None
    """Lines of standard output, in any order."""
    prints_exactly: str | None
    makes: Mapping[str, str | bool]


@dataclass(frozen=True)
class Intent:
    """One thing that people want, the ways to ask for it, and its command as a function of what they name."""

    place: str
    """The file and the number of the intent in it, for messages."""
    programs: tuple[str, ...]
    task: Phrase
    command: str
    macos: str | None
    asks: tuple[Asked, ...]
    slots: Mapping[str, Slot]
    output: str
    increasing: tuple[str, ...]
    thens: tuple[Intent, ...]
    """Follow-up questions. Their slots hold the values of this intent."""
    proofs: tuple[Proof, ...]

    def used(self, command: str) -> list[str]:
        """The slots in a command."""
        return [name for name, _ in _TYPED.findall(command) if name in self.slots]

    def typed(self, command: str, values: Mapping[str, Value]) -> str:
        """The command with its values. A slot without a value holds its default or its placeholder.

        Conditions between ⟨ and ⟩ are typed only if each of their slots has a value.
        """
        command = self._conditions(command, lambda condition, named: condition if named <= set(values) else "")

        def put(found: re.Match[str]) -> str:
            name, form = found[1], found[2] or ""
            if name not in self.slots:
                return found[0]
            value = values.get(name) or self.slots[name].unnamed()
            try:
                return value.forms[form]
            except KeyError:
                raise IntentError(f"{self.place}: {{{name}.{form}}} is no form of {self.slots[name].type}") from None

        return (
            re.sub(r" {2,}(?=\S)", " ", _TYPED.sub(put, command)).strip()
            if "\n" not in command
            else _TYPED.sub(put, command).strip()
        )

    def told(self, values: Mapping[str, Value]) -> str:
        """The task, with the values that the question named."""
        text = self.task.told(frozenset(values))

        def say(found: re.Match[str]) -> str:
            value = values.get(found[1]) or self.slots[found[1]].unnamed()
            return value.said

        return without_one(_SAID.sub(say, text))

    def outlined(self, command: str) -> tuple[str, str]:
        """The task and a command as the index keeps them, with slots (`models/guide/outline.py`)."""

        always = set(self.used(_CONDITION.sub("", command)))

        def place(name: str, form: str, text: str) -> str:
            slot = self.slots[name]
            if slot.choices:
                return text
            optional = slot.default is not None or name not in always
            return str(outline.Slot(name, slot.type, form, optional, text))

        def condition(text: str, named: set[str]) -> str:
            return "" if any(self.slots[name].choices for name in named) else outline.perhaps(text)

        def say(found: re.Match[str]) -> str:
            return place(found[1], "", self.slots[found[1]].unnamed().said)

        def put(found: re.Match[str]) -> str:
            name, form = found[1], found[2] or ""
            return place(name, form, self.slots[name].unnamed().forms[form]) if name in self.slots else found[0]

        def aside(part: str) -> str:
            return condition(_SAID.sub(say, part), set(_SAID.findall(part)))

        task = self.task.outlined(aside)
        return _SAID.sub(say, task), _TYPED.sub(put, self._conditions(command, condition))

    def _conditions(self, command: str, choose: Callable[[str, set[str]], str]) -> str:
        """The command with what `choose` makes of each condition and the slots in it."""
        return _CONDITION.sub(lambda found: choose(found[1], set(self.used(found[1]))), command)

    def values(self, names: Sequence[str], rng: np.random.Generator, old: Mapping[str, Value]) -> dict[str, Value]:
        """Values for these slots. Values of `old` are kept; no two slots of one type have the same."""
        values = dict(old)
        for name in names:
            if name in values:
                continue
            for _ in range(20):
                value = draw(self.slots[name], rng)
                if all(
                    value.forms != values[o].forms
                    for o in values
                    if self.slots.get(o, self.slots[name]).type == self.slots[name].type
                ):
                    break
            values[name] = value
        rising = [name for name in self.increasing if name in values]
        in_order = sorted((values[name] for name in rising), key=_amount)
        return {**values, **dict(zip(rising, in_order))}


def _amount(value: Value) -> float:
    """What `increasing` compares: bytes of a size, seconds of an age, and otherwise the digits."""
    typed = value.typed("bytes") or value.typed("seconds") or value.forms[""]
    return float(re.sub(r"\D", "", typed) or 0)


def read_intents(folder: Path = FOLDER) -> list[Intent]:
    """All intents of `folder/*.toml`. Raises `IntentError`."""
    return [intent for path in sorted(folder.glob("*.toml")) for intent in read_file(path)]


def read_file(path: Path) -> Iterator[Intent]:
    """The intents of one file. Raises `IntentError`."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise IntentError(f"{path.name}: {error}") from None
    if set(raw) - {"intent"}:
        raise IntentError(f"{path.name}: has {', '.join(set(raw) - {'intent'})}; a file holds [[intent]] only")
    for number, one in enumerate(raw.get("intent", ()), 1):
        yield _intent(f"{path.name} [{number}]", one, {}, ())


_KEYS = {"program", "task", "command", "ask", "slots", "output", "macos", "then", "proof", "increasing"}


def _intent(place: str, raw: Mapping[str, Any], slots: Mapping[str, Slot], programs: tuple[str, ...]) -> Intent:
    if unknown := set(raw) - _KEYS:
        raise IntentError(f"{place}: has {', '.join(sorted(unknown))}, which nothing reads")
    try:
        named = raw.get("program", programs)
        programs = (named,) if isinstance(named, str) else tuple(named)
        place = f"{place} {raw['task']}"
        asks = tuple(_asked(text) for text in raw["ask"])
        task = Phrase.read(raw["task"].rstrip("."))
        known = dict(slots)
        for name, declared in raw.get("slots", {}).items():
            known[name] = Slot.read(name, declared)
        for name in (*task.slots(), *(name for one in asks for name in one.phrase.slots())):
            if name not in known:
                known[name] = Slot.read(name, {})
        if _HARMFUL & set(programs):
            known = {name: replace(slot, own=True) for name, slot in known.items()}
        for name, slot in known.items():
            if not slot.choices and slot.type not in DRAW:
                raise SlotError(f"slots.{name}: no type {slot.type}; the types are {' '.join(sorted(DRAW))}")
        output = raw.get("output", "")
        if not programs or not asks or output not in OUTPUTS:
            raise IntentError(f"{place}: needs program and ask, and an output of {', '.join(OUTPUTS[1:])} or none")
        increasing = tuple(raw.get("increasing", ()))
        thens = tuple(_intent(place, one, known, programs) for one in raw.get("then", ()))
        proofs = tuple(read_proof(place, one) for one in raw.get("proof", ()))
        command, macos = raw["command"], raw.get("macos")
        intent = Intent(place, programs, task, command, macos, asks, known, output, increasing, thens, proofs)
    except (PhraseError, SlotError) as error:
        raise IntentError(f"{place}: {error}") from None
    except (KeyError, AttributeError, TypeError) as error:
        raise IntentError(f"{place}: {error!r} is missing or has the wrong form; see intents/README.md") from None
    named = {name for one in asks for name in one.phrase.slots()}
    lost = named - set(intent.used(command)) | (named - set(intent.used(macos)) if macos else set())
    for text in (command, macos or ""):
        if re.search("[⟨⟩]", _CONDITION.sub("", text)) or not all(map(intent.used, _CONDITION.findall(text))):
            raise IntentError(f"{place}: a condition is ⟨...⟩ with a slot in it, and does not nest")
    if lost and not slots:  # A follow-up may forget what an earlier question named.
        raise IntentError(f"{place}: a question names {', '.join(sorted(lost))}, and the command does not hold it")
    return intent


def _asked(text: str) -> Asked:
    framed = not _UNFRAMED.match(text.lstrip("[( "))
    return Asked(Phrase.read(text.removeprefix("=").strip().rstrip("?.")), framed)


def read_proof(place: str, raw: Mapping[str, Any]) -> Proof:
    """Read one proof of `place`. Raises `IntentError`."""
    if unknown := set(raw) - {"with", "files", "before", "prints", "prints_exactly", "makes"}:
        raise IntentError(f"{place}: a proof has {', '.join(sorted(unknown))}, which nothing reads")
    if not {"prints", "prints_exactly", "makes"} & set(raw):
        raise IntentError(f"{place}: a proof needs prints, prints_exactly or makes")
    prints = raw.get("prints")
    return Proof(
        {k: str(v) for k, v in raw.get("with", {}).items()}, raw.get("files", {}), raw.get("before", ""),
        None if prints is None else tuple(prints), raw.get("prints_exactly"), raw.get("makes", {}),
    )  # fmt: skip


def proof_values(intent: Intent, proof: Proof) -> dict[str, Value]:
    """The values of a proof. Raises `IntentError`."""
    try:
        return {name: read_value(intent.slots[name], text) for name, text in proof.values.items()}
    except (KeyError, SlotError) as error:
        raise IntentError(f"{intent.place}: proof: {error}") from None
