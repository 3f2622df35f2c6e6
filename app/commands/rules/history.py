"""Rules about changes to recorded history: commits, branches, the shell's own history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from app.commands.arguments import Arguments
from app.commands.risk import Kind, Severity
from app.commands.rules.table import Finding, Rule, named, own_words
from app.commands.script import SimpleCommand

NOTICE, WARNING = Severity.NOTICE, Severity.WARNING
_R = Kind.REWRITES


def push(command: SimpleCommand) -> Iterator[Finding]:
    """`git push` that replaces or deletes what the server has."""
    arguments = Arguments(own_words(command), ("-o", "--push-option", "--receive-pack", "--repo"))
    operands = arguments.operands
    if not operands or operands[0].value != "push" or arguments.has("-n", "--dry-run"):
        return
    remote, branches = (operands[1:2], operands[2:])
    where = f" on {named(remote)}" if remote else " on the server"
    what = named([replace(word, value=word.value.lstrip("+:")) for word in branches]) or "the branch"
    if arguments.has("--mirror"):
        yield Finding(WARNING, f"makes the branches{where} mirror those here, and deletes all others", remote)
    elif arguments.has("-d", "--delete"):
        yield Finding(WARNING, f"deletes {what}{where}", branches)
    elif gone := tuple(word for word in branches if word.value.startswith(":")):
        yield Finding(WARNING, f"deletes {what}{where}", gone)
    elif "--force-with-lease" in arguments.names or "--force-if-includes" in arguments.names:
        yield Finding(WARNING, f"overwrites the history of {what}{where}, unless others have pushed to it", branches)
    elif arguments.has("-f", "--force") or any(word.value.startswith("+") for word in branches):
        yield Finding(
            WARNING, f"overwrites the history of {what}{where}, including commits that others pushed", branches
        )


def reset(command: SimpleCommand) -> Iterator[Finding]:
    """`git reset`."""
    arguments = Arguments(own_words(command))
    operands = arguments.operands
    if not operands or operands[0].value != "reset":
        return
    to = operands[1:]
    if arguments.has("--hard", "--merge", "--keep"):
        where = f", and commits after {named(to[:1])}" if to and to[0].value not in ("HEAD", "@") else ""
        yield Finding(WARNING, f"discards all uncommitted changes{where}", to)
    elif to and ("~" in to[0].value or "^" in to[0].value or "@{" in to[0].value):
        yield Finding(NOTICE, f"resets the branch to {named(to[:1])}, and leaves the files unchanged", to)


def branch(command: SimpleCommand) -> Iterator[Finding]:
    """`git branch` that deletes or moves."""
    arguments = Arguments(own_words(command), ("-u", "--set-upstream-to"))
    operands = arguments.operands
    if len(operands) < 2 or operands[0].value != "branch":
        return
    names = operands[1:]
    forced = arguments.has("-f", "--force")
    if arguments.has("-D") or (forced and arguments.has("-d", "--delete")):
        yield Finding(
            WARNING, f"deletes the branch {named(names)}, even if it has commits that no other branch has", names
        )
    elif arguments.has("-d", "--delete"):
        yield Finding(NOTICE, f"deletes the branch {named(names)}", names)
    elif forced and not arguments.has("-m", "--move"):
        yield Finding(WARNING, f"moves the branch {named(names[:1])} to another commit", names)


HISTORY: tuple[Rule, ...] = (Rule(_R, ("git",), push), Rule(_R, ("git",), reset), Rule(_R, ("git",), branch))
