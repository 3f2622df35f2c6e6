"""Rules about commands that run with the rights of root, or of another user."""

from __future__ import annotations

from collections.abc import Iterator

from app.commands.arguments import Arguments
from app.commands.risk import Kind, Severity
from app.commands.rules.table import Finding, Rule
from app.commands.script import SimpleCommand, name_set
from app.commands.wrappers import SHELLS, inner_commands

_OF_SU = name_set("-c --command -s --shell -g --group -G --supp-group -w --whitelist-environment -C")
_MILD = {"-l", "--list", "-v", "--validate", "-k", "-K", "--remove-timestamp", "-V", "--version", "-h", "--help"}


def elevated(command: SimpleCommand) -> Iterator[Finding]:
    """sudo, doas, pkexec, run0: with a command, or with a shell."""
    words = [word.value for word in command.words[1:]]
    if not words and command.runs_under("alias"):  # `alias please=sudo`.
        return
    if words and words[0] in _MILD and (len(words) == 1 or words[0] in ("-l", "--list")):
        return
    user = _user(words)
    inner = next(iter(inner_commands(command.words)), None)
    run = inner.words[0].value if inner is not None and inner.words else ""
    whom = f"as the user `{user}`" if user not in ("", "root") else "as root"
    options_only = inner is not None and all(word.value.startswith("-") for word in inner.words[1:])
    alone = options_only and not (command.feeders or command.documents)
    if run in ("su", *SHELLS) and alone:
        run = ""
    if run:
        yield Finding(Severity.NOTICE, f"runs `{run.rpartition('/')[2]}` {whom}")
    elif any(word in ("-e", "--edit") for word in words):
        yield Finding(Severity.NOTICE, f"edits a file {whom}")
    else:
        yield _shell(whom)


def switched(command: SimpleCommand) -> Iterator[Finding]:
    """su: the user is its first operand, root without one."""
    words = [word.value for word in command.words[1:]]
    if command.runs_under("sudo", "doas", "pkexec", "run0") or words[:1] in (["--help"], ["-h"], ["--version"], ["-V"]):
        return
    inner = next(iter(inner_commands(command.words)), None)
    arguments = Arguments(command.words[1:], _OF_SU)
    user = next((word.value for word in arguments.operands if word.value != "-"), "")
    whom = f"as the user `{user}`" if user not in ("", "root") else "as root"
    if inner is not None:
        yield Finding(Severity.NOTICE, f"runs a command {whom}")
    else:
        yield _shell(whom)


def _shell(whom: str) -> Finding:
    if whom == "as root":
        return Finding(Severity.WARNING, "opens a shell in which everything runs as root")
    return Finding(Severity.NOTICE, f"opens a shell {whom}")


def _user(words: list[str]) -> str:
    for number, word in enumerate(words):
        if word in ("-u", "--user") and number + 1 < len(words):
            return words[number + 1]
        if word.startswith("--user="):
            return word.partition("=")[2]
        if word.startswith("-u") and len(word) > 2:
            return word[2:]
        if not word.startswith("-"):
            return ""
    return ""


ROOT: tuple[Rule, ...] = (
    Rule(Kind.ROOT, ("sudo", "doas", "pkexec", "run0", "sudo-rs", "gsudo", "sudoedit"), elevated),
    Rule(Kind.ROOT, ("su",), switched),
)
