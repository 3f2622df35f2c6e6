"""The form of a rule: the programs that it covers, a test of a parsed command, and a sentence about its effect.

Most rules are lines of `table.txt`: a program with its subcommands and options. The others are functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.commands.arguments import Arguments
from app.commands.risk import Kind, Severity
from app.commands.script import SimpleCommand, Word
from app.commands.targets import disk
from app.commands.wrappers import after_options

FILE = Path(__file__).with_name("table.txt")
MOST_NAMES = 3
"""Most names in one sentence; the others are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says about one command."""

    severity: Severity
    sentence: str
    words: tuple[Word, ...] = ()


Test = Callable[[SimpleCommand], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `programs`: those that it is for; without any, it reads every command."""

    kind: Kind
    programs: tuple[str, ...]
    test: Test


VALUED = {
    "git": "-m --message",
    "docker": "-H --host -c --context --config -l --log-level -p --project-name --filter -t --time",
    "podman": "-c --connection --filter -t --time",
    "kubectl": "-n --namespace --context --kubeconfig -l --selector -f --filename --grace-period",
    "gh": "-R --repo",
    "aws": "--profile --region --output --endpoint-url",
    "helm": "-n --namespace --kube-context",
}
"""Options of a program, before or after its subcommand, that take the next word."""
_OF_GIT = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path")
"""Options of git itself that take the next word. After the subcommand, `-C` means another thing."""
SINGLE_DASH = {"terraform"}
"""Programs, the first of their line, whose long options begin with one dash."""


def table() -> Iterator[Rule]:
    """The rules of `table.txt`, whose head explains the format."""
    kind = Kind.UNKNOWN
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            kind = Kind(line[1:-1])
        elif line and not line.startswith("#"):
            severity, command, sentence = re.split(r"\s{2,}", line, maxsplit=2)
            yield _rule(kind, Severity(severity), command.split(), sentence)


def _rule(kind: Kind, severity: Severity, pattern: Sequence[str], sentence: str) -> Rule:
    programs, *rest = (part.split("|") for part in pattern)
    needs_name = ["NAME"] in rest
    subcommands = [names for names in rest if names[0][0] not in "-!" and names != ["NAME"]]
    excluded = [name.lstrip("!") for names in rest if names[0].startswith("!") for name in names]
    given = [name for names in rest if names[0].startswith("-") for name in names]
    options = [name for name in given if not name.endswith("=")]
    valued = {*VALUED.get(programs[0], "").split(), *(name[:-1] for name in given if name.endswith("="))}
    unnamed = found[1] if (found := re.search(r"\{what\|([^}]+)\}", sentence)) else ""
    template = sentence.replace(f"|{unnamed}}}", "}") if unnamed else sentence

    def test(command: SimpleCommand) -> Iterator[Finding]:
        arguments = Arguments(own_words(command), valued, single_dash=programs[0] in SINGLE_DASH)
        operands = arguments.operands
        if len(operands) < len(subcommands):
            return
        if any(word.value not in names for word, names in zip(operands, subcommands)):
            return
        if (options and not arguments.has(*options)) or arguments.has("--help", *excluded):
            return
        objects = operands[len(subcommands) :]
        if needs_name and not objects and not fed(command):
            return
        what = named(objects, command) if objects or fed(command) else unnamed
        worse = kind is Kind.DELETES and severity is Severity.WARNING and any(map(disk, objects))
        yield Finding(Severity.DANGER if worse else severity, template.format(what=what).rstrip(" :"), objects)

    return Rule(kind, tuple(programs), test)


def own_words(command: SimpleCommand) -> Sequence[Word]:
    """The words after the program; for git, those from its subcommand on."""
    return command.words[after_options(command.words, 1, _OF_GIT) if command.program == "git" else 1 :]


def fed(command: SimpleCommand) -> bool:
    """Whether more operands come from elsewhere: xargs and parallel add them, find substitutes them for `{}`."""
    return command.runs_under("xargs", "parallel", "fd", "fdfind")


def named(words: Sequence[Word], command: SimpleCommand | None = None) -> str:
    """The words as part of a sentence: `a`, `b` and 3 more."""
    if command is not None and fed(command) and all(word.value in ("{}", "%", "@") for word in words):
        return (
            "everything that comes through the pipe" if command.runs_under("xargs", "parallel") else "what `fd` finds"
        )
    if command is not None and words and all(word.value == "{}" for word in words):
        return "what `find` finds"
    names = [_name(word) for word in words[:MOST_NAMES]]
    if len(words) > MOST_NAMES:
        return f"{', '.join(names)} and {len(words) - MOST_NAMES} more"
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)


def _name(word: Word) -> str:
    if word.value in (".", "./"):
        return "this folder"
    text = " ".join(word.value.split())
    quoted = f"`{text[:60]}…`" if len(text) > 60 else f"`{text}`"
    return f"everything that matches {quoted}" if word.pattern else quoted
