"""Follow-ups that fit any command of a shape: one more condition, the other order, "delete them", "why -print0".

A rule changes the command of the turn before, so whatever the conversation has settled so far stays in it. The rules
are in following.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from models.guide.values import Value
from recipes.shell_guide import phrasing
from recipes.shell_guide.grammar.intents import Proof, read_proof
from recipes.shell_guide.grammar.phrases import Phrase
from recipes.shell_guide.grammar.slot_types import draw
from recipes.shell_guide.grammar.values import Slot
from recipes.shell_guide.grammar.wording import one_of

EXPLAINED = 0.35
"""How often a question about a command is about all its flags."""
FILE = Path(__file__).with_name("following.toml")

_TYPED = re.compile(r"\{([a-z_]+\d*)(?:\.([a-z]+))?\}")
_SEVERAL = re.compile(r"\n|&&|\|\||<<|(?<!\\);|\b(?:do|then)\b|<\(")
"""What makes several commands of one. Where an option belongs is then unclear."""
_KEYS = {"on", "match", "unless", "ask", "task", "put", "to", "say", "program", "slots"}
_KEYS |= {"anywhere", "ends", "fresh", "share", "proof"}


@dataclass(frozen=True)
class Rule:
    """One thing that may be asked after a command of a certain shape, and what becomes of the command."""

    asks: tuple[Phrase, ...]
    match: re.Pattern[str]
    unless: re.Pattern[str] | None
    """Commands that hold this already, or for which the rule is wrong."""
    to: str | None
    """The new command, with `\\g<name>` for what `match` found, or None if the rule only says something."""
    task: Phrase
    """What is added to the sentence above the command. A condition begins with a comma, an action with "and"."""
    say: str
    """What is said before the usual answer, or in its place."""
    programs: tuple[str, ...]
    """What heads the answer, if it is not what headed the one before."""
    slots: Mapping[str, Slot]
    anywhere: bool = False
    """Whether it fits several commands in one, too."""
    ends: bool = False
    """Whether nothing follows it that builds on the command."""
    fresh: bool = False
    """Whether the task replaces the one before."""
    share: float = 1.0
    """How often it is drawn, beside others that fit."""
    proofs: tuple[tuple[str, Proof], ...] = ()
    """Commands, and what they do once the rule has changed them."""

    def applied(self, command: str, values: Mapping[str, Value]) -> tuple[str, str, str] | None:
        """The new command, the words for the task and what is said; None if the rule does not fit this command."""
        found = self._found(command)
        if found is None:
            return None
        new = command if self.to is None else self._replaced(found, values)
        task = found.expand(_said(self.task.told(frozenset(values)), values))
        return new, task, found.expand(_said(self.say, values))

    def _replaced(self, found: re.Match[str], values: Mapping[str, Value]) -> str:
        new = found.expand(_filled(self.to or "", values)).strip()
        return _CLUSTERS.sub(_merged, new, count=1)

    def fits(self, command: str) -> bool:
        """Whether it can follow this command."""
        return self._found(command) is not None

    def _found(self, command: str) -> re.Match[str] | None:
        found = self.match.search(command)
        if found is None or (self.unless and self.unless.search(command)):
            return None
        return found if self.anywhere or not _SEVERAL.search(command) else None

    def asked(self, rng: np.random.Generator) -> tuple[str, dict[str, Value]]:
        """A question, and the values that it names."""
        pattern, named = self.asks[int(rng.integers(len(self.asks)))].draw(rng)
        values = {name: draw(self.slots[name], rng) for name in sorted(named)}
        return _TYPED.sub(lambda found: values[found[1]].said, pattern), values


_CLUSTERS = re.compile(
    r"^(?P<program>(?:sudo )?(?:(?P<ls>ls|ln)|(?P<grep>grep)|rm|cp|du|df|sort|rsync|chmod|chown|unzip|diff|docker ps))"
    r" -(?P<new>[A-Za-z1]{1,3})"
    r" -(?P<old>(?(ls)[alhtrSRF1insdfv]|(?(grep)[rRnilcwvoEFPHhsxaL]|[arRpvniuhzPcqwMV]))+)(?= |$)"
)
"""Two groups of short options that take no argument."""


def _merged(found: re.Match[str]) -> str:
    """The options in one group, as people type them: `ls -a -l` -> `ls -la`."""
    added = "".join(letter for letter in found["new"] if letter not in found["old"])
    return f"{found['program']} -{found['old']}{added}"


def _filled(template: str, values: Mapping[str, Value]) -> str:
    def put(found: re.Match[str]) -> str:
        value = values.get(found[1])
        return found[0] if value is None else value.forms[found[2] or ""].replace("\\", r"\\")

    return _TYPED.sub(put, template)


def _said(template: str, values: Mapping[str, Value]) -> str:
    return _TYPED.sub(lambda found: values[found[1]].said.replace("\\", r"\\"), template)


@dataclass(frozen=True)
class Edit:
    """A rule with its values, as a conversation has applied it."""

    rule: Rule
    values: Mapping[str, Value]


@dataclass(frozen=True)
class Thread:
    """What a conversation has settled so far about one command: where it began, and what was changed since."""

    programs: tuple[str, ...]
    task: str
    command: str
    edits: tuple[Edit, ...] = ()

    def outcome(self) -> tuple[tuple[str, ...], str, str, str] | None:
        """Programs, task and command after all edits, and what the last one says. None if one no longer fits."""
        programs, task, command, say = self.programs, self.task, self.command, ""
        conditions, actions = "", ""
        for edit in self.edits:
            applied = edit.rule.applied(command, edit.values)
            if applied is None:
                return None
            command, added, say = applied
            if edit.rule.fresh:
                task, conditions, actions = added, "", ""
            elif added.startswith(","):
                conditions += added
            elif added:
                actions += f" {added}"
            programs = _heads(edit.rule, programs)
        return programs, f"{task}{conditions}{actions}", command, say


def _heads(rule: Rule, programs: tuple[str, ...]) -> tuple[str, ...]:
    """What heads the answer after a rule. `|` before a program adds it to the ones before."""
    if not rule.programs:
        return programs
    added = rule.programs[0]
    if added.startswith("|"):
        name = added[1:].strip()
        return programs if name in programs else (programs[0], name)
    return rule.programs


def read_rules(file: Path = FILE) -> list[Rule]:
    """Read the rules."""
    raw = tomllib.loads(file.read_text(encoding="utf-8"))
    rules = [_rule(one, raw["shapes"]) for one in raw["rule"]]
    return rules + [_missing(program, package, raw["missing"]) for program, package in raw["packages"].items()]


def _missing(program: str, package: str, said: Mapping[str, Any]) -> Rule:
    """The rule for a program that is not installed."""

    def filled(text: str) -> str:
        return text.replace("{program}", program).replace("{package}", package)

    task = filled(said["task"] if program != package else said["same"])

    raw = {
        "match": rf"(?:^|\| |^sudo ){re.escape(program)}(?: |$)",
        "ask": [filled(text) for text in said["ask"]],
        "task": task,
        "to": f"sudo apt install {package}",
        "program": "apt",
        "anywhere": True,
        "fresh": True,
        "ends": True,
        "share": 0.25,
    }
    return _rule(raw, {})


def _rule(raw: Mapping[str, Any], shapes: Mapping[str, str]) -> Rule:
    if unknown := set(raw) - _KEYS:
        raise ValueError(f"a rule has {', '.join(sorted(unknown))}, which nothing reads: {raw['ask'][0]}")
    asks = tuple(Phrase.read(text) for text in raw["ask"])
    task = Phrase.read(raw.get("task", ""))
    declared = raw.get("slots", {})
    names = {*task.slots(), *(name for ask in asks for name in ask.slots()), *declared}
    slots = {name: replace(Slot.read(name, declared.get(name, {})), own=True) for name in sorted(names)}
    to = rf"\g<before> {raw['put']}\g<after>" if "put" in raw else raw.get("to")
    program = raw.get("program", ())
    return Rule(
        asks,
        re.compile(raw["match"] if "match" in raw else _shape(raw["on"], shapes)),
        re.compile(raw["unless"]) if "unless" in raw else None,
        to,
        task,
        raw.get("say", ""),
        (program,) if isinstance(program, str) else tuple(program),
        slots,
        raw.get("anywhere", False),
        raw.get("ends", False),
        raw.get("fresh", False),
        raw.get("share", 1.0),
        tuple((one["command"], read_proof("following.toml", _without(one, "command"))) for one in raw.get("proof", ())),
    )


def _without(raw: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in raw.items() if name != key}


def _shape(on: str | list[str], shapes: Mapping[str, str]) -> str:
    """A named shape, or the options of these programs: whatever follows their names."""
    if isinstance(on, str) and on in shapes:
        return shapes[on]
    names = "|".join(re.escape(name) for name in ([on] if isinstance(on, str) else on))
    return rf"^(?P<before>(?:sudo )?(?:{names}))(?P<after>(?: .*)?)$"


# ---- what a part of the command means --------------------------------------------------------------------------------


class Parts:
    """Questions about one part of a command: "what does the -z do", "why 2>&1"."""

    def __init__(self) -> None:
        raw = tomllib.loads(FILE.read_text(encoding="utf-8"))
        self._signs: Mapping[str, str] = raw["signs"]

    def question(
        self, programs: tuple[str, ...], task: str, command: str, rng: np.random.Generator
    ) -> tuple[str, str] | None:
        """A question and its answer; None if nothing is known about a part of the command."""
        flags = phrasing.known_flags(command)
        if len(flags) > 1 and rng.random() < EXPLAINED:
            return one_of("explain_after", rng), phrasing.explanation(programs, task, command)
        known = [(one.flag, f"`{one.flag}` of `{one.program}`: {one.meaning}.") for one in flags]
        known += [
            (sign.strip(), f"`{sign.strip()}`: {meaning}.")
            for sign, meaning in self._signs.items()
            if f" {sign}" in f" {command} "
        ]
        if not known:
            return None
        part, answer = known[int(rng.integers(len(known)))]
        bare = re.fullmatch(r"-[A-Za-z]", part) and rng.random() < 0.25
        return one_of("part", rng).replace("{}", part[1:] if bare else part), answer
