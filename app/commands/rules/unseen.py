"""Rules about code that nobody has read before it runs: downloaded, or decoded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.commands.arguments import Arguments
from app.commands.inputs import reads_program
from app.commands.risk import Kind, Severity
from app.commands.rules.table import Finding, Rule
from app.commands.script import SimpleCommand, Word, name_set
from app.commands.wrappers import SHELLS, inner_commands

DOWNLOADERS = name_set("curl wget fetch http https xh aria2c lynx nc ncat netcat ftp lwp-request")
INTERPRETERS = {*SHELLS, "python", "python3", "python2", "perl", "ruby", "node", "php", "lua", "osascript", "pwsh"}
_DECODERS = {"base64", "base32", "xxd", "uudecode", "openssl", "gpg", "rev", "tr", "gunzip", "zcat", "basenc"}
_DECODING = {"-d", "-D", "--decode", "-r", "enc", "-di", "-rp"}
DECODED = "runs text that is decoded first, so it cannot be read here"
_RUNNERS = ("eval", "source", ".")


def piped(command: SimpleCommand) -> Iterator[Finding]:
    """`curl … | sh`, `base64 -d | sh`."""
    if not command.feeders or not _reads_input(command):
        return
    download = next((one for one in reversed(command.feeders) if one.program in DOWNLOADERS), None)
    if download is not None:
        yield _downloaded(download, command)
    elif any(_decodes(feeder) for feeder in command.feeders):
        yield Finding(Severity.WARNING, DECODED)


def substituted(command: SimpleCommand) -> Iterator[Finding]:
    r"""`bash <(curl …)`, `sh -c "$(curl …)"`, `eval "$(curl …)"`, `source <(curl …)`."""
    if command.program not in INTERPRETERS and command.program not in _RUNNERS:
        return
    for word in command.words[1:]:
        for inner in word.substitutions:
            if inner.program in DOWNLOADERS:
                yield _downloaded(inner, command)
                return
            if _decodes(inner):
                yield Finding(Severity.WARNING, DECODED)
                return


def _reads_input(command: SimpleCommand) -> bool:
    """Whether the interpreter reads its program from the pipe: it has no file and no `-c`."""
    if command.program not in INTERPRETERS:
        return False
    if any(inner.script is not None for inner in inner_commands(command.words)):
        return False
    words = [word.value for word in command.words[1:]]
    if command.program not in SHELLS and any(re.match(r"-(?:c|e|m|E|r|[nplaw]+e?)\b", word) for word in words):
        return False
    return reads_program(command.words[1:])


def _decodes(command: SimpleCommand) -> bool:
    if command.program not in _DECODERS:
        return False
    if command.program in ("rev", "tr", "gunzip", "zcat"):
        return True
    return any(word.value in _DECODING for word in command.words[1:])


def _downloaded(download: SimpleCommand, runner: SimpleCommand) -> Finding:
    address = _address(download)
    where = f" from `{address.value}`" if address is not None else ""
    clear = address is not None and address.value.startswith(("http://", "ftp://"))
    as_root = runner.runs_under("sudo", "doas", "pkexec", "run0", "su")
    sentence = f"downloads a program{where} and runs it at once{', as root' if as_root else ''}; nobody has read it"
    if clear:
        sentence += ", and anyone on the network path can change it"
    severity = Severity.DANGER if as_root or clear or download.program in ("nc", "ncat", "netcat") else Severity.WARNING
    return Finding(severity, sentence, () if address is None else (address,))


def _address(download: SimpleCommand) -> Word | None:
    words = download.words[1:]
    for pattern in (r"[a-z]+://", r"[\w-]+(?:\.[\w-]+)+(?:/|$)|<|\{\{|\$"):
        if (found := next((word for word in words if re.match(pattern, word.value)), None)) is not None:
            return found
    return None


def downloaded_before(commands: tuple[SimpleCommand, ...]) -> Iterator[tuple[SimpleCommand, Finding]]:
    """A file that one command of the text downloads and another one runs."""
    files: dict[str, SimpleCommand] = {}
    for command in commands:
        if not command.words:
            continue
        if command.program in ("curl", "wget"):
            for name in _saved(command):
                files[_bare(name)] = command
            continue
        first = _bare(command.words[0].value)
        if "/" in command.words[0].value and first in files:
            yield command, _downloaded(files[first], command)
            continue
        if command.program in INTERPRETERS or command.program in ("source", "."):
            operand = next((word for word in command.words[1:] if not word.value.startswith("-")), None)
            if operand is not None and _bare(operand.value) in files:
                yield command, _downloaded(files[_bare(operand.value)], command)


def _saved(command: SimpleCommand) -> Iterator[str]:
    """The names of the files that a download is written to."""
    for one in command.redirections:
        if one.target is not None and (one.replaces or one.appends):
            yield one.target.value
    name = ("-o", "--output") if command.program == "curl" else ("-O", "--output-document")
    valued = ("-X", "-H", "-d", "-u", "-A", "-e") if command.program == "curl" else ("-P", "-o", "-a", "-U", "-t", "-T")
    arguments = Arguments(command.words[1:], (*name, *valued))
    target = arguments.value(*name)
    if target is not None:
        yield target.value
    elif command.program == "wget" or arguments.has("-O", "--remote-name", "-J"):
        for word in arguments.operands:
            if tail := word.value.partition("?")[0].rpartition("/")[2]:
                yield tail


def _bare(path: str) -> str:
    return path.removeprefix("./")


UNSEEN: tuple[Rule, ...] = (
    Rule(Kind.UNSEEN, tuple(sorted(INTERPRETERS)), piped),
    Rule(Kind.UNSEEN, (*sorted(INTERPRETERS), *_RUNNERS), substituted),
)
