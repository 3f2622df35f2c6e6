"""Draws questions about a command that the person gives: what it does, whether it is safe, what a flag in it means.

The commands are those of the intents, whose task is known, and those of given.toml. What a command deletes, overwrites
or runs as root, the rules know that also warn about answers (`app/commands/rules/`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.commands.risk import Kind, Risk, Severity
from app.commands.risks import risks
from app.commands.script import SimpleCommand
from app.commands.syntax import parse
from recipes.shell_guide import phrasing
from recipes.shell_guide.grammar.drawing import Drawer
from recipes.shell_guide.grammar.intents import Intent
from recipes.shell_guide.grammar.names import pick
from recipes.shell_guide.grammar.phrases import Phrase
from recipes.shell_guide.grammar.slot_types import draw as draw_value
from recipes.shell_guide.grammar.values import Slot
from recipes.shell_guide.grammar.wording import typed

_DATA = tomllib.loads(Path(__file__).with_name("given.toml").read_text(encoding="utf-8"))
_FORMS = tomllib.loads(Path(__file__).with_name("given_forms.toml").read_text(encoding="utf-8"))
FORMS = {kind: tuple(map(Phrase.read, phrases)) for kind, phrases in _FORMS.items()}
"""Questions; `{command}`, `{flag}`, `{one}` and `{other}` stand for what they are about."""
DIFFERENCE, OWN = 0.22, 0.25
"""Shares of the questions about two things, and of the commands of given.toml."""
AFTER = 0.15
"""Share of the commands about which "is it safe" is asked after the answer that gave it."""
READS_ONLY = frozenset(_DATA["reads_only"].split())
"""Programs that change nothing, if no risk is known of the command and it writes no file."""
_WRITES = re.compile(r"-exec|-ok|-fprint|-delete|\bsystem\(|\bw /|>")
_NO_FILE = re.compile(r"\d?>>? ?/dev/null|\d>&\d|&>/dev/null")
_RISKS = (
    Kind.DELETES,
    Kind.OVERWRITES,
    Kind.REWRITES,
    Kind.SHUTS_DOWN,
    Kind.RIGHTS,
    Kind.ROOT,
    Kind.UNSEEN,
    Kind.LEAKS,
)
_SEVERE = {
    Severity.NOTICE: "Mind one thing.",
    Severity.WARNING: "Be careful.",
    Severity.DANGER: "It is dangerous.",
}
_SLOT = re.compile(r"\{([a-z]+\d?)\}")


@dataclass(frozen=True)
class Given:
    """A command, and what is known of it."""

    command: str
    does: str
    """What it does, in whole sentences."""
    risks: tuple[Risk, ...]
    note: str | None = None
    """What else should be known before it is run, where `does` already says what the risks say."""

    @property
    def warning(self) -> str:
        """What it deletes, overwrites or runs as root, in sentences; empty if nothing is known."""
        return " ".join(_careful(self.risks))

    @property
    def reads_only(self) -> bool:
        """Whether it certainly changes nothing."""
        known = bool(commands := parse(self.command).commands) and all(map(_reads, commands))
        return known and not self.risks and not _WRITES.search(_NO_FILE.sub("", self.command))


def _reads(command: SimpleCommand) -> bool:
    return command.program in READS_ONLY and not any(
        one.replaces or one.appends for one in command.redirections if one.target and one.target.value != "/dev/null"
    )


def _careful(found: Sequence[Risk]) -> list[str]:
    return [f"It {sentence}." for sentence in dict.fromkeys(risk.sentence for risk in found)]


def known_risks(command: str) -> tuple[Risk, ...]:
    """The risks of a command that do not depend on which programs this device has."""
    return tuple(risk for risk in risks(command) if risk.kind in _RISKS)


class GivenSource:
    """A source of questions about given commands. `intents`: with the weights of their programs."""

    def __init__(self, intents: Sequence[Intent], shares: np.ndarray) -> None:
        self._intents = intents
        self._shares = shares
        self._drawer = Drawer()

    def draw(self, rng: np.random.Generator) -> list[tuple[str, str]]:
        """Questions and answers about one command, or about two things."""
        if rng.random() < DIFFERENCE or not self._intents:
            return [difference(rng)]
        if rng.random() < OWN:
            return [asked(own_command(rng), rng)]
        at = np.searchsorted(self._shares, rng.random() * self._shares[-1], side="right")
        spoken = self._drawer.conversation(self._intents[int(at)], rng, follow=0.0)[0]
        explained = phrasing.explanation(spoken.programs, spoken.task, spoken.command)
        given = Given(spoken.command, explained, known_risks(spoken.command))
        if (given.risks or given.reads_only) and rng.random() < AFTER:
            return [(spoken.question, spoken.answer), (_question("after", rng), safe(given))]
        return [asked(given, rng)]


def difference(rng: np.random.Generator) -> tuple[str, str]:
    """How two things differ."""
    row = _DATA["difference"][int(rng.integers(len(_DATA["difference"])))]
    one, other = row["of"] if rng.random() < 0.7 else row["of"][::-1]
    if rng.random() < 0.25:
        one, other = f"`{one}`", f"`{other}`"
    return _question("difference", rng, one=one, other=other), row["is"]


def own_command(rng: np.random.Generator) -> Given:
    """One of the commands of given.toml, with names."""
    row = _DATA["command"][int(rng.integers(len(_DATA["command"])))]
    values: dict[str, str] = {}
    for name in _SLOT.findall(row["command"]):
        ends = [".tar.gz", ".tgz"] if name == "archive" else None
        slot = Slot.read(name.rstrip("2"), {"ends": ends} if ends else {})
        value = draw_value(slot, rng).forms[""]
        while value in values.values() or " " in value:
            value = draw_value(slot, rng).forms[""]
        values[name] = value
    does, command, note = (
        _SLOT.sub(lambda found: values.get(found[1], found[0]), row.get(key, "")) for key in ("does", "command", "note")
    )
    return Given(command, f"It {does}.", known_risks(command), note)


def asked(given: Given, rng: np.random.Generator) -> tuple[str, str]:
    """One question about a command, and its answer."""
    ways = ["does"] * 5
    kinds = {risk.kind for risk in given.risks}
    if given.risks or given.reads_only or given.note:
        ways += ["safe"] * 3
    if Kind.DELETES in kinds or given.reads_only:
        ways.append("deletes")
    if Kind.OVERWRITES in kinds or given.reads_only:
        ways.append("overwrites")
    if Kind.ROOT in kinds:
        ways.append("root")
    flags = phrasing.known_flags(given.command)
    ways += ["flag"] * (2 * bool(flags))
    way = pick(rng, ways)
    if way == "flag":
        flag = flags[int(rng.integers(len(flags)))]
        return _about("flag", given, rng, flag=flag.flag), f"In this command, `{flag.flag}` means: {flag.meaning}."
    question = _about(way, given, rng)
    if way == "does":
        first, *rest = given.does.split("\n\n", 1)
        told = " ".join(one for one in (first, given.warning if given.note is None else given.note) if one)
        return question, "\n\n".join([told, *rest])
    return question, _answer(way, given)


def safe(given: Given) -> str:
    """Whether a command can be run without a worry."""
    if given.reads_only:
        return "It is safe: it only reads, and changes nothing."
    first = ""
    if given.risks:
        first = _SEVERE[max((risk.severity for risk in given.risks), key=lambda one: one.rank)]
    told = given.warning if given.note is None else given.does
    return " ".join(one for one in (first, told, given.note) if one)


def _answer(way: str, given: Given) -> str:
    if way == "safe":
        return safe(given)
    if given.reads_only:
        return "No: it only reads."
    kind = {"deletes": Kind.DELETES, "overwrites": Kind.OVERWRITES, "root": Kind.ROOT}[way]
    return f"Yes. {' '.join(_careful([risk for risk in given.risks if risk.kind is kind]))}"


def _about(kind: str, given: Given, rng: np.random.Generator, flag: str = "") -> str:
    """A question with the command: in the sentence, in backquotes, or in a line or block of its own."""
    draw = rng.random()
    if "\n" not in given.command and draw < 0.7:
        shown = f"`{given.command}`" if rng.random() < 0.4 else given.command
        return _question(kind, rng, command=shown, flag=flag)
    shown = f"```sh\n{given.command}\n```" if draw > 0.9 else given.command
    question = _question(f"{kind}_this", rng, flag=flag)
    if rng.random() < 0.25:
        return f"{shown}\n{question}"
    return f"{question.rstrip('?.')}:\n{shown}" if rng.random() < 0.5 else f"{question}\n{shown}"


def _question(kind: str, rng: np.random.Generator, **said: str) -> str:
    phrase = FORMS[kind][int(rng.integers(len(FORMS[kind])))]
    text = typed(phrase.draw(rng)[0], rng)
    if re.search(r"\{command\}\W*$", text):
        text = text.rstrip("?.")
    return _SLOT.sub(lambda found: said.get(found[1], found[0]), text)
