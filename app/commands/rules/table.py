"""The form of a rule: for which programs, a test on a parsed command, and a sentence about what the command would do.

Most rules are rows: a program with its subcommands and options. Others are functions that read the words themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.commands.arguments import Arguments
from app.commands.risk import Kind, Severity
from app.commands.script import SimpleCommand, Word

MOST_NAMES = 3
"""Names in one sentence; the others are counted."""


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


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: it fits a command by program, subcommands and options.

    `command`: the program and its subcommands, `git stash drop|clear`. `options`: one of them must be there. `without`:
    none of them may. `operands`: something must be named, or come through a pipe. In `sentence`, `{what}` is what the
    command names. `unnamed` stands for it where the command names nothing.
    """

    kind: Kind
    severity: Severity
    command: str
    sentence: str
    options: str = ""
    without: str = ""
    operands: bool = False
    unnamed: str = ""
    valued: str = ""

    def rule(self) -> Rule:
        programs, *subcommands = (part.split("|") for part in self.command.split())
        options, without = tuple(self.options.split()), tuple(self.without.split())
        valued = frozenset((*VALUED.get(programs[0], "").split(), *self.valued.split()))

        def test(command: SimpleCommand) -> Iterator[Finding]:
            arguments = Arguments(command.words[1:], valued, single_dash=programs[0] in SINGLE_DASH)
            operands = arguments.operands
            if len(operands) < len(subcommands):
                return
            if any(word.value not in names for word, names in zip(operands, subcommands)):
                return
            if (options and not arguments.has(*options)) or (without and arguments.has(*without)):
                return
            rest = operands[len(subcommands) :]
            if self.operands and not rest and not fed(command):
                return
            what = named(rest, command) if rest or fed(command) else self.unnamed
            yield Finding(self.severity, self.sentence.format(what=what).rstrip(" :"), rest)

        return Rule(self.kind, tuple(programs), test)


VALUED = {
    "git": "-C -c --git-dir --work-tree --namespace --exec-path -m --message",
    "docker": "-H --host -c --context --config -l --log-level -p --project-name --filter -t --time",
    "podman": "-c --connection --filter -t --time",
    "kubectl": "-n --namespace --context --kubeconfig -l --selector -f --filename --grace-period",
    "systemctl": "-H --host -M --machine -t --type -s --signal -n -o",
    "gh": "-R --repo",
    "aws": "--profile --region --output --endpoint-url",
    "helm": "-n --namespace --kube-context",
}
"""Options of a program, before its subcommand or after it, that take the next word."""
SINGLE_DASH = {"terraform", "tofu", "find", "gcloud"}
"""Programs whose long options begin with one dash."""


def rules(*rows: Row) -> tuple[Rule, ...]:
    return tuple(row.rule() for row in rows)


def fed(command: SimpleCommand) -> bool:
    """More operands come from elsewhere: xargs and parallel add them, find puts them in place of `{}`."""
    return command.runs_under("xargs", "parallel", "fd", "fdfind")


def named(words: Sequence[Word], command: SimpleCommand | None = None) -> str:
    """The words in a sentence: `a`, `b` and 3 more."""
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
