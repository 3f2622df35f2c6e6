"""Draws conversations from intents: a question, its answer, and the follow-ups that build on each other."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from models.guide.values import Value
from recipes.shell_guide import phrasing
from recipes.shell_guide.grammar.following import Edit, Parts, Rule, Thread, read_rules
from recipes.shell_guide.grammar.intents import Asked, Intent
from recipes.shell_guide.grammar.phrases import Phrase, without_one
from recipes.shell_guide.grammar.slot_types import draw
from recipes.shell_guide.grammar.values import Slot
from recipes.shell_guide.grammar.wording import WORDINGS, framed, one_of, typed

ENDINGS = Path(__file__).with_name("endings.toml")
ENDING_SHARE = 0.15
"""Share of questions that also ask for an ending, if one fits."""
FOLLOW_SHARE = 0.5
"""Share of conversations with a follow-up question."""
AGAIN_SHARE = 0.4
"""How often another follow-up comes after one."""
MOST_TURNS = 5
LEADS = 0.1
"""Share of follow-ups that begin with "ok" or "that works, but"."""

_SAID = re.compile(r"\{([a-z_]+\d*)\}")
_COMPOUND = re.compile(r">|<<|\n|&&|;|\bdone\b")
_LINKED = re.compile(r"(?:and|but|ok|oops|no|not|now|then|it says|i|can|does|will|is|how|what|why)\b")
_CLOSED = (
    r"(?<!2)>|\bdone\b|&$|^(?:watch|time|nohup) |\| (?:wc|less|tee|xclip|pbcopy)\b|-exec (?:rm|mv|cp|sed|chmod)|-delete"
)
"""What no ending follows."""
_NOT_TWICE = {
    **dict.fromkeys(("head", "tail"), r"|\| (?:head|tail)\b"),
    **{program: rf"|(?:^|\| ){program}\b" for program in ("sort", "shuf", "tac", "nl")},
}
"""Programs of endings -> what else such an ending does not follow, because it is there already."""
_OUTPUT = {"ends": [".txt", ".txt", ".log", ".out", ".list", ".csv", ".md"]}
"""The slot of a file that holds what a command prints."""
_PRINTS = re.compile(r"(?:ls|find|grep|rg|ps|du|df|git (?:log|branch|diff)|cat|history|lsof|ss|docker ps|dpkg -l)\b")
"""Commands of a page that print lines."""
_KINDS = {
    **dict.fromkeys(("count", "number"), "count"),
    "folder": "folder",
    **dict.fromkeys(("size", "age", "seconds", "date", "clock", "column", "line"), "quantity"),
    **dict.fromkeys(("ext", "glob"), "kind"),
    **dict.fromkeys(("host", "ip", "user", "service", "container"), "machine"),
}
"""Types of slots -> how another value is asked for (`others` in wordings.toml)."""


@dataclass(frozen=True)
class Spoken:
    """A question and its answer."""

    question: str
    programs: tuple[str, ...]
    task: str
    command: str
    asked: Asked | None = None
    """The phrase that the question was drawn from, or None if it belongs to no intent, such as "and on a mac?"."""
    say: str = ""
    """What stands before the command, such as the answer to "does it ask?"."""
    only_said: bool = False
    """Whether that is the whole answer."""

    @property
    def answer(self) -> str:
        """The answer in the one form that all answers have, after what there is to say."""
        if self.only_said:
            return self.say
        answer = phrasing.answer("` and `".join(self.programs[:2]), self.task, self.command)
        return f"{self.say} {answer}" if self.say else answer


@dataclass(frozen=True)
class Ending:
    """A continuation for any command that prints."""

    outputs: tuple[str, ...]
    also: tuple[Phrase, ...]
    """How it is asked in the same question."""
    slots: Mapping[str, Slot]

    rule: Rule
    """The same as a rule of the follow-ups."""

    def draw(self, rng: np.random.Generator) -> tuple[str, Edit]:
        """A question for it at the end of another one, and what it does to the command."""
        pattern, named = self.also[int(rng.integers(len(self.also)))].draw(rng)
        values = {name: draw(self.slots[name], rng) for name in sorted(named)}
        return _said(pattern, values), Edit(self.rule, values)


def read_endings() -> list[Ending]:
    """Read the endings."""
    endings = []
    for raw in tomllib.loads(ENDINGS.read_text(encoding="utf-8"))["ending"]:
        task = Phrase.read(raw["task"])
        also, after = (tuple(map(Phrase.read, raw[key])) for key in ("also", "after"))
        slots = {name: Slot.read(name, _OUTPUT if name == "file" else {}) for name in task.slots()}
        program = raw["add"].split()[1]
        rule = Rule(
            after,
            re.compile("^(?P<before>.+)$"),
            re.compile(_CLOSED + _NOT_TWICE.get(program, "")),
            rf"\g<before> {raw['add']}",
            Phrase.read(f"and {raw['task']}"),
            "",
            (f"| {program}",) if raw["add"].startswith("|") else (),
            slots,
            share=raw.get("share", 1.0),
        )
        endings.append(Ending(tuple(raw["on"]), also, slots, rule))
    return endings


@dataclass(frozen=True)
class _State:
    """Where a conversation is: what the last command was made from."""

    intent: Intent | None
    """None for a command of a page."""
    values: Mapping[str, Value]
    thread: Thread
    output: str
    asked: frozenset[int] = frozenset()
    """Rules, and other ways to go on, that have been asked for, by their ids."""

    def edited(self, edits: tuple[Edit, ...]) -> _State:
        return replace(self, thread=replace(self.thread, edits=edits))

    def based(self, intent: Intent, values: Mapping[str, Value], command: str) -> _State:
        """The same changes on another command of an intent."""
        typed = intent.typed(command, values)
        base = replace(self.thread, programs=intent.programs, task=intent.told(values), command=typed)
        return replace(self, intent=intent, values=values, thread=base)

    def spoken(self, question: str, asked: Asked | None = None) -> Spoken | None:
        """The question, and the command that it leads to; None if a change no longer fits."""
        outcome = self.thread.outcome()
        if outcome is None:
            return None
        programs, task, command, say = outcome
        return Spoken(question, programs, task, command, asked, say)


@dataclass(frozen=True)
class _Step:
    """A follow-up, and where the conversation is after it. None: nothing builds on it."""

    spoken: Spoken | None
    state: _State | None


class Drawer:
    """Turns intents into conversations. A conversation depends on the intent and the random generator alone."""

    def __init__(self) -> None:
        self._endings = read_endings()
        self._rules = read_rules()
        self._parts = Parts()

    def conversation(self, intent: Intent, rng: np.random.Generator, *, follow: float = FOLLOW_SHARE) -> list[Spoken]:
        """One question, perhaps with an ending, and follow-ups, each of which keeps what was settled before."""
        first, values = self._first(intent, rng)
        state = _State(intent, values, Thread(first.programs, first.task, first.command), intent.output)
        fitting = [] if _COMPOUND.search(first.command) else self._fitting_endings(state, first.command)
        if fitting and rng.random() < ENDING_SHARE:
            said, edit = fitting[int(rng.integers(len(fitting)))].draw(rng)
            question = f"{first.question}{', ' if rng.random() < 0.4 else ' '}{said}"
            ended = state.edited((edit,)).spoken(question, first.asked)
            if ended is not None:
                first, state = ended, replace(state.edited((edit,)), asked=frozenset({id(edit.rule)}))
        return self._go_on(first, state, rng, follow)

    def after(self, first: Spoken, rng: np.random.Generator, *, follow: float = FOLLOW_SHARE) -> list[Spoken]:
        """The follow-ups of a question that comes from a page."""
        output = "lines" if _PRINTS.match(first.command) else ""
        state = _State(None, {}, Thread(first.programs, first.task, first.command), output)
        return self._go_on(first, state, rng, follow)[1:]

    def _go_on(self, first: Spoken, state: _State, rng: np.random.Generator, follow: float) -> list[Spoken]:
        turns = [first]
        while len(turns) < MOST_TURNS and rng.random() < (follow if len(turns) == 1 else AGAIN_SHARE):
            step = self._step(state, turns[-1].command, rng)
            if step is None or step.spoken is None:
                break
            turns.append(step.spoken)
            if step.state is None:
                break
            state = step.state
        return [replace(turn, question=typed(turn.question, rng)) for turn in turns]

    def _first(self, intent: Intent, rng: np.random.Generator) -> tuple[Spoken, Mapping[str, Value]]:
        asked = intent.asks[int(rng.integers(len(intent.asks)))]
        pattern, named = asked.phrase.draw(rng)
        values = intent.values(sorted(named), rng, {})
        question = _said(framed(pattern, rng) if asked.framed else pattern, values)
        command = intent.typed(intent.command, values)
        return Spoken(question, intent.programs, intent.told(values), command, asked), values

    def _fitting_endings(self, state: _State, command: str) -> list[Ending]:
        return [
            ending
            for ending in self._endings
            if state.output in ending.outputs and id(ending.rule) not in state.asked and ending.rule.fits(command)
        ]

    def _step(self, state: _State, command: str, rng: np.random.Generator) -> _Step | None:
        intent, edits = state.intent, state.thread.edits
        rules = [rule for rule in self._rules if id(rule) not in state.asked and rule.fits(command)]
        endings = self._fitting_endings(state, command)
        others = _others(state)
        weights = {
            "rule": 3.0 * min(1.0, sum(rule.share for rule in rules)),
            "then": 2.5 * bool(intent and intent.thens and not edits),
            "ending": 1.2 * bool(endings),
            "other": (0.3 if id(_other) in state.asked else 1.2) * bool(others),
            "mac": 0.6 * bool(intent and intent.macos and intent.macos != intent.command),
            "part": 0.4 * (id(self._parts) not in state.asked),
        }
        shares = np.cumsum(list(weights.values()))
        if not shares[-1]:
            return None
        way = list(weights)[int(np.searchsorted(shares, rng.random() * shares[-1], side="right").clip(0, 5))]
        if way == "rule":
            return _by_rule(state, _pick(rules, rng), command, rng)
        if way == "ending":
            return _by_rule(state, _pick([ending.rule for ending in endings], rng), command, rng)
        if way == "other":
            return _other(state, others[int(rng.integers(len(others)))], rng)
        if way == "part":
            outcome = state.thread.outcome()
            if outcome is None:
                return None
            programs, task = outcome[:2]
            part = self._parts.question(programs, task, command, rng)
            if part is None:
                return None
            said = Spoken(part[0], programs, task, command, None, part[1], only_said=True)
            return _Step(said, replace(state, asked=state.asked | {id(self._parts)}))
        if intent is None:
            return None
        if way == "then":
            return _then(state, intent.thens[int(rng.integers(len(intent.thens)))], rng)
        return _mac(state, intent, rng)


def _pick(rules: list[Rule], rng: np.random.Generator) -> Rule:
    shares = np.cumsum([rule.share for rule in rules])
    return rules[int(np.searchsorted(shares, rng.random() * shares[-1]))]


def _led(question: str, kind: str, rng: np.random.Generator) -> str:
    """The question, sometimes after "ok" or "that works, but"."""
    if rng.random() > LEADS or _LINKED.match(question):
        return question
    return one_of(kind, rng) + question


def _by_rule(state: _State, rule: Rule, command: str, rng: np.random.Generator) -> _Step | None:
    question, values = rule.asked(rng)
    asked = state.asked | {id(rule)}
    after = replace(state.edited((*state.thread.edits, Edit(rule, values))), asked=asked)
    adds = rule.task.told(frozenset(values)).startswith(",") and rng.random() < 0.6
    spoken = after.spoken(_led(question, "conditions" if adds else "leads", rng))
    if spoken is None:
        return None
    if rule.to is None:
        return _Step(
            replace(spoken, command=command, only_said=True), None if rule.ends else replace(state, asked=asked)
        )
    return _Step(spoken, None if rule.ends else after)


def _then(state: _State, then: Intent, rng: np.random.Generator) -> _Step:
    asked: Asked = then.asks[int(rng.integers(len(then.asks)))]
    pattern, named = asked.phrase.draw(rng)
    both = then.values(sorted(named), rng, state.values)
    after = replace(state.based(then, both, then.command), output=then.output)
    return _Step(after.spoken(_led(_said(pattern, both), "leads", rng), asked), after)


def _mac(state: _State, intent: Intent, rng: np.random.Generator) -> _Step:
    after = state.based(intent, state.values, intent.macos or intent.command)
    program = after.thread.command.removeprefix("sudo ").split()[0]
    same = intent.programs[0].split()[0] == program
    programs = intent.programs if same else (program,)
    after = replace(after, thread=replace(after.thread, programs=programs, task=f"{after.thread.task} on macOS"))
    return _Step(after.spoken(one_of("mac", rng)), None)


@dataclass(frozen=True)
class _Other:
    """A slot that may get another value: of the intent, or of an edit."""

    name: str
    slot: Slot
    edit: int | None = None


def _others(state: _State) -> list[_Other]:
    """What "make it 20" or "the same in ~/x" may mean. Of two slots of one kind, only the one named last."""
    found: dict[str, _Other | None] = {}
    intent = state.intent
    if intent is not None:
        used = set(intent.used(intent.command))
        for name, slot in intent.slots.items():
            unnamed = slot.type == "folder" and slot.default is not None
            if slot.choices or name in intent.increasing or name not in used or not (name in state.values or unnamed):
                continue
            found[_kind(slot)] = None if _kind(slot) in found else _Other(name, slot)
    for at, edit in enumerate(state.thread.edits):
        for name in edit.values:
            if not (slot := edit.rule.slots[name]).choices:
                found[_kind(slot)] = _Other(name, slot, at)
    return [other for other in found.values() if other is not None]


def _kind(slot: Slot) -> str:
    return _KINDS.get(slot.type, slot.type)


def _other(state: _State, other: _Other, rng: np.random.Generator) -> _Step:
    value = draw(other.slot, rng)
    edits = state.thread.edits
    if other.edit is not None:
        edit = replace(edits[other.edit], values={**edits[other.edit].values, other.name: value})
        after = state.edited((*edits[: other.edit], edit, *edits[other.edit + 1 :]))
    elif state.intent is not None:
        after = state.based(state.intent, {**state.values, other.name: value}, state.intent.command)
    kind = _kind(other.slot)
    sentences = WORDINGS["others"].get(kind, WORDINGS["other"])
    question = str(sentences[int(rng.integers(len(sentences)))]).replace("{}", value.said)
    spoken = after.spoken(question)
    after = replace(after, asked=after.asked | {id(_other)})
    return _Step(None if spoken is None else replace(spoken, say=""), after)


def _said(pattern: str, values: Mapping[str, Value]) -> str:
    return without_one(_SAID.sub(lambda found: values[found[1]].said, pattern))
