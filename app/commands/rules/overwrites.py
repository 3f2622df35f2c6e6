"""Rules about what is overwritten: files after `>`, targets of copies, files that are edited in place, disks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.commands.arguments import Arguments
from app.commands.risk import Kind, Severity
from app.commands.rules.table import Finding, Rule, named, own_words
from app.commands.script import SimpleCommand, Word, name_set
from app.commands.targets import disk, sink, system_folder

NOTICE, WARNING, DANGER = Severity.NOTICE, Severity.WARNING, Severity.DANGER
_KERNEL = re.compile(r"^/(?:proc|sys)/")
_INPUTS = name_set("sort cat grep sed awk uniq cut tr head tail jq tac rev paste iconv nl")
_SAVING = ("-b", "--backup", "--no-clobber", "-i", "--interactive", "--update")
_STARTUP = re.compile(r"(?:^|/)\.(?:bashrc|zshrc|profile|bash_profile|zprofile|zshenv|gitconfig|vimrc|ssh/config)$")


def redirected(command: SimpleCommand) -> Iterator[Finding]:
    """`> file` empties the file first; `>> file` adds to it."""
    read = [one.target.value for one in command.redirections if one.operator == "<" and one.target is not None]
    for origin in (command, *command.feeders):
        if origin.program in _INPUTS:
            read += [word.value for word in origin.words[1:] if not word.value.startswith("-")]
    for one in command.redirections:
        target = one.target
        if target is None or sink(target) or target.value.startswith((">(", "/dev/tcp/", "/dev/udp/")):
            continue
        if disk(target) and one.appends or one.replaces and (disk(target) or _KERNEL.match(target.value)):
            yield _written_over(target)
        elif one.replaces and target.value in read:
            yield Finding(WARNING, f"empties {named([target])} before it is read", (target,))
        elif one.replaces and (
            not (command.words or command.feeders) or command.program in (":", "true") or _nothing(command)
        ):
            yield Finding(WARNING, f"empties {named([target])}", (target,))
        elif one.replaces:
            yield _written_over(target)
        elif one.appends and system_folder(target) and not _KERNEL.match(target.value):
            yield Finding(NOTICE, f"appends to {named([target])}, a system file", (target,))


def _written_over(target: Word) -> Finding:
    """The loss if a program overwrites a file from its beginning."""
    if disk(target):
        return Finding(DANGER, f"overwrites the disk {named([target])}", (target,))
    if _KERNEL.match(target.value):
        return Finding(WARNING, f"changes a setting of the running system: {named([target])}", (target,))
    if system_folder(target) or _STARTUP.search(target.value):
        return Finding(WARNING, f"replaces the whole of {named([target])}", (target,))
    return Finding(NOTICE, f"overwrites {named([target])}; its previous content is lost", (target,))


def _nothing(command: SimpleCommand) -> bool:
    words = [word.value for word in command.words]
    return words in (["cat", "/dev/null"], ["echo", "-n"], ["printf", ""])


def copied(command: SimpleCommand) -> Iterator[Finding]:
    """cp, mv, ln and install replace an existing target without asking."""
    arguments = Arguments(command.words[1:], ("-t", "--target-directory", "-S", "--suffix", "-m", "--mode", "-o", "-g"))
    operands = arguments.operands
    program = command.program
    if (
        arguments.has(*_SAVING, *(() if program == "ln" else ("-n",)))
        or (program == "ln" and not arguments.has("-f", "--force"))
        or len(operands) < 2
    ):
        return
    target = operands[-1]
    if disk(target):
        yield _written_over(target)
    elif operands[0].value == "/dev/null" and program == "cp":
        yield Finding(WARNING, f"empties {named([target])}", (target,))
    elif target.value == "/dev/null":
        return
    elif system_folder(target) and not target.value.endswith("/"):
        yield Finding(WARNING, f"replaces {named([target])}, a system file, if it exists", (target,))
    elif not (target.value.endswith(("/", "/.")) or target.value in (".", "..", "~", "$HOME") or len(operands) > 2):
        yield Finding(NOTICE, f"replaces {named([target], command)} if it exists", (target,))


def renamed(command: SimpleCommand) -> Iterator[Finding]:
    arguments = Arguments(command.words[1:])
    if arguments.has("-f", "--force"):
        yield Finding(WARNING, "renames files, replacing any that already have the new names")


def written(command: SimpleCommand) -> Iterator[Finding]:
    """Files that tee (without -a) or sponge writes."""
    arguments = Arguments(command.words[1:])
    if arguments.has("-a", "--append"):
        system = tuple(word for word in arguments.operands if system_folder(word))
        if system:
            yield Finding(NOTICE, f"appends to {named(system)}, a system file", system)
        return
    for word in arguments.operands:
        if not sink(word):
            yield _written_over(word)


def edited(command: SimpleCommand) -> Iterator[Finding]:
    """`sed -i`, `perl -i`, `awk -i inplace`: the file itself is changed."""
    program = command.program
    words = [word.value for word in command.words[1:]]
    if program in ("awk", "gawk"):
        if not any(first in ("-i", "--include") and second == "inplace" for first, second in zip(words, words[1:])):
            return
        arguments = Arguments(command.words[1:], ("-i", "-F", "-v", "-f", "--include"))
        files = arguments.operands if arguments.has("-f", "--file") else arguments.operands[1:]
        saved = False
    elif program in ("perl", "ruby"):
        option = next(
            (word for word in words if re.match(r"-[a-hj-zA-Z0]*i", word) and not word.startswith("--")), None
        )
        if option is None or not any(re.match(r"-\w*[eE]", word) for word in words):
            return
        others = [word for word in command.words[1:] if word.value != option or re.fullmatch(r"-\w*[eE]", word.value)]
        arguments = Arguments(others, ("-e", "-E", "-M", "-F", "-I"))
        files, saved = arguments.operands, re.search(r"i\.\w+", option) is not None
    else:
        option = next((word for word in words if re.match(r"-[nErsuz]*i|--in-place", word)), None)
        if option is None:
            return
        suffix = re.match(r"-[nErsuz]*i(.+)|--in-place=(.+)", option)
        arguments = Arguments(command.words[1:], ("-e", "-f", "--expression", "--file", "-l"))
        scripts = arguments.has("-e", "-f", "--expression", "--file")
        files = arguments.operands if scripts else arguments.operands[1:]
        # On macOS `sed -i ''` has its (empty) suffix in the next word.
        mac = option == "-i" and bool(arguments.operands) and re.fullmatch(r"(?:\.\w+)?", arguments.operands[0].value)
        if mac and not scripts:
            files = arguments.operands[2:]
        saved = suffix is not None or bool(mac and arguments.operands[0].value)
    what = named(files, command) or "the files"
    if saved:
        yield Finding(NOTICE, f"changes {what} in place, with a backup", files)
    else:
        yield Finding(WARNING, f"changes {what} in place, without a backup", files)


def raw(command: SimpleCommand) -> Iterator[Finding]:
    """`dd of=…`."""
    for word in command.words[1:]:
        if not word.value.startswith("of="):
            continue
        target = Word(word.value[3:], word.span, word.plain, word.pattern)
        if target.value.startswith("/dev/") and not sink(target):
            yield Finding(DANGER, f"overwrites the disk {named([target])}", (target,))
        elif not sink(target):
            yield _written_over(target)


def rescued(command: SimpleCommand) -> Iterator[Finding]:
    """`ddrescue --force FROM DISK`."""
    arguments = Arguments(command.words[1:], _OF_DDRESCUE)
    if arguments.has("-f", "--force"):
        yield from (_written_over(word) for word in arguments.operands[1:2] if disk(word))


_OF_DDRESCUE = name_set(
    "-a -b -c -e -E -F -H -i -K -m -o -r -s -T -Z --sector-size --cluster-size --domain-mapfile --fill-mode"
    " --input-position --output-position --retry-passes --size --skip-size --timeout --max-read-rate --min-read-rate"
)
_OUTPUTS = {
    "sort": ("-o --output", "-k -t -S -T --key --field-separator --parallel"),
    "shuf": ("-o --output", "-n -i"),
    "curl": ("-o --output", "-X -H -d -u -F -A -e -b -c -T -m -x --data --header --request --user --form -w -K -r -E"),
    "wget": ("-O --output-document", "-P -o -a -U -t -T -e -i -Q --header --user --password -A -R -D -l --limit-rate"),
    "pandoc": ("-o --output", "-f -t -s"),
}
"""The option of each program that names the file to write, and other options that take a value."""


def output(command: SimpleCommand) -> Iterator[Finding]:
    """Programs that write the file after `-o`."""
    names, others = (options.split() for options in _OUTPUTS[command.program])
    target = Arguments(command.words[1:], (*names, *others)).value(*names)
    if target is not None and not sink(target):
        yield _written_over(target)


def checkout(command: SimpleCommand) -> Iterator[Finding]:
    """`git checkout` and `git restore` of files: changes that are in no commit are lost."""
    arguments = Arguments(own_words(command), ("-b", "-B", "-s", "--source", "--orphan"))
    operands = arguments.operands
    if not operands or operands[0].value not in ("checkout", "restore", "switch"):
        return
    name, files = operands[0].value, operands[1:]
    if name == "restore" and (not arguments.has("-S", "--staged") or arguments.has("-W", "--worktree")):
        yield Finding(WARNING, f"discards uncommitted changes in {named(files) or 'files'}", files)
    elif name == "checkout" and any(word.value == "--" for word in command.words):
        after = next(number for number, word in enumerate(command.words) if word.value == "--")
        files = command.words[after + 1 :]
        yield Finding(WARNING, f"discards uncommitted changes in {named(files)}", files)
    elif name == "checkout" and files and all(word.value in (".", "*", ":/") for word in files[1:] or files):
        yield Finding(WARNING, "discards all uncommitted changes", files)
    elif name in ("checkout", "switch") and arguments.has("-f", "--force", "--discard-changes"):
        yield Finding(WARNING, "discards all uncommitted changes", ())


_O = Kind.OVERWRITES
OVERWRITES: tuple[Rule, ...] = (
    Rule(_O, (), redirected),
    Rule(_O, ("cp", "mv", "ln", "install", "gcp", "gmv"), copied),
    Rule(_O, ("rename", "prename", "mmv", "file-rename"), renamed),
    Rule(_O, ("tee", "sponge"), written),
    Rule(_O, ("sed", "gsed", "perl", "ruby", "awk", "gawk"), edited),
    Rule(_O, ("dd", "dcfldd"), raw),
    Rule(_O, ("ddrescue",), rescued),
    Rule(_O, tuple(_OUTPUTS), output),
    Rule(_O, ("git",), checkout),
)
