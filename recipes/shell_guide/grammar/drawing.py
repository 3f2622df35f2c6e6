"""Draws conversations from intents: question, answer and follow-up."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from models.guide.values import Value
from recipes.shell_guide import phrasing
from recipes.shell_guide.grammar.intents import Asked, Intent
from recipes.shell_guide.grammar.phrases import Phrase, without_one
from recipes.shell_guide.grammar.slot_types import draw
from recipes.shell_guide.grammar.values import Slot
from recipes.shell_guide.grammar.wording import framed, one_of, typed

ENDINGS = Path(__file__).with_name("endings.toml")
ENDING_SHARE = 0.15
"""Share of questions that also ask for an ending, if one fits."""
FOLLOW_SHARE = 0.3
"""Share of conversations with a follow-up question."""

_SAID = re.compile(r"\{([a-z_]+\d*)\}")
_COMPOUND = re.compile(r">|<<|\n|&&|;|\bdone\b")


@dataclass(frozen=True)
class Spoken:
    """A question and its answer."""

    question: str
    programs: tuple[str, ...]
    task: str
    command: str
    asked: Asked | None = None
    """The phrase that the question was drawn from, or None if it belongs to no intent, such as "and on a mac?"."""

    @property
    def answer(self) -> str:
        """The answer in the one form that all answers have."""
        return phrasing.answer("` and `".join(self.programs[:2]), self.task, self.command)


@dataclass(frozen=True)
class Ending:
    """A continuation for any command that prints."""

    outputs: tuple[str, ...]
    also: tuple[Phrase, ...]
    """How it is asked in the same question."""
    after: tuple[Phrase, ...]
    """How it is asked later."""
    task: Phrase
    add: str
    slots: Mapping[str, Slot]

    def draw(self, phrases: tuple[Phrase, ...], first: Spoken, rng: np.random.Generator) -> Spoken:
        """A question by one of the phrases, and the first answer with the ending."""
        pattern, named = phrases[int(rng.integers(len(phrases)))].draw(rng)
        values = {name: draw(self.slots[name], rng) for name in sorted(named)}
        add = _SAID.sub(lambda found: values[found[1]].forms[""], self.add)
        task = f"{first.task} and {_said(self.task.told(named), values)}"
        return Spoken(_said(pattern, values), self._programs(first.programs), task, f"{first.command} {add}")

    def _programs(self, programs: tuple[str, ...]) -> tuple[str, ...]:
        added = self.add.split()[1]
        piped = self.add.startswith("|") and added not in programs
        return (programs[0], added) if piped else programs


def read_endings() -> list[Ending]:
    """Read the endings."""
    endings = []
    for raw in tomllib.loads(ENDINGS.read_text(encoding="utf-8"))["ending"]:
        task = Phrase.read(raw["task"])
        also, after = (tuple(map(Phrase.read, raw[key])) for key in ("also", "after"))
        slots = {name: Slot.read(name, {}) for name in task.slots()}
        endings.append(Ending(tuple(raw["on"]), also, after, task, raw["add"], slots))
    return endings


class Drawer:
    """Turns intents into conversations. A conversation depends on the intent and the random generator alone."""

    def __init__(self) -> None:
        self._endings = read_endings()

    def conversation(self, intent: Intent, rng: np.random.Generator, *, follow: float = FOLLOW_SHARE) -> list[Spoken]:
        """One question, and perhaps a follow-up: the intent's own, an ending, for a Mac, or with another value."""
        first, values = self._first(intent, rng)
        fitting = [ending for ending in self._endings if intent.output in ending.outputs]
        if _COMPOUND.search(first.command):
            fitting = []
        if fitting and rng.random() < ENDING_SHARE:
            ending = fitting[int(rng.integers(len(fitting)))]
            ended = ending.draw(ending.also, first, rng)
            question = f"{first.question}{', ' if rng.random() < 0.4 else ' '}{ended.question}"
            return [Spoken(typed(question, rng), ended.programs, ended.task, ended.command, first.asked)]
        turns = [first]
        if rng.random() < follow and (after := self._follow_up(intent, values, first, fitting, rng)):
            turns.append(after)
        return [replace(turn, question=typed(turn.question, rng)) for turn in turns]

    def _first(self, intent: Intent, rng: np.random.Generator) -> tuple[Spoken, Mapping[str, Value]]:
        asked = intent.asks[int(rng.integers(len(intent.asks)))]
        pattern, named = asked.phrase.draw(rng)
        values = intent.values(sorted(named), rng, {})
        question = _said(framed(pattern, rng) if asked.framed else pattern, values)
        command = intent.typed(intent.command, values)
        return Spoken(question, intent.programs, intent.told(values), command, asked), values

    def _follow_up(
        self,
        intent: Intent,
        values: Mapping[str, Value],
        first: Spoken,
        fitting: list[Ending],
        rng: np.random.Generator,
    ) -> Spoken | None:
        other = [n for n in sorted(values) if n not in intent.increasing and not intent.slots[n].choices]
        ways = ["then"] * (2 * bool(intent.thens)) + ["ending"] * bool(fitting) + ["other"] * bool(other)
        ways += ["mac"] * bool(intent.macos and intent.macos != intent.command)
        way = ways[int(rng.integers(len(ways)))] if ways else ""
        if way == "then":
            return self._then(intent.thens[int(rng.integers(len(intent.thens)))], values, rng)
        if way == "ending":
            ending = fitting[int(rng.integers(len(fitting)))]
            return ending.draw(ending.after, first, rng)
        if way == "mac":
            command = intent.typed(intent.macos or intent.command, values)
            program = command.removeprefix("sudo ").split()[0]
            programs = intent.programs if intent.programs[0].split()[0] == program else (program,)
            return Spoken(one_of("mac", rng), programs, f"{first.task} on macOS", command)
        if way == "other":
            name = other[int(rng.integers(len(other)))]
            both = {**values, name: draw(intent.slots[name], rng)}
            said = one_of("other", rng).replace("{}", both[name].said)
            return Spoken(said, intent.programs, intent.told(both), intent.typed(intent.command, both))
        return None

    def _then(self, then: Intent, values: Mapping[str, Value], rng: np.random.Generator) -> Spoken:
        asked: Asked = then.asks[int(rng.integers(len(then.asks)))]
        pattern, named = asked.phrase.draw(rng)
        both = then.values(sorted(named), rng, values)
        return Spoken(_said(pattern, both), then.programs, then.told(both), then.typed(then.command, both), asked)


def _said(pattern: str, values: Mapping[str, Value]) -> str:
    return without_one(_SAID.sub(lambda found: values[found[1]].said, pattern))
