"""Rules about what is deleted: files, disks, packages, containers, databases, clouds."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from app.commands.arguments import Arguments
from app.commands.inputs import texts
from app.commands.risk import Kind, Severity
from app.commands.rules.table import Finding, Rule, fed, named
from app.commands.script import SimpleCommand, Word, name_set
from app.commands.targets import disk, empty_variable, system_folder, whole_system

NOTICE, WARNING, DANGER = Severity.NOTICE, Severity.WARNING, Severity.DANGER
_FIND_TESTS = re.compile(
    r"-(?:i?name|i?path|i?wholename|i?regex|size|empty|[acm]time|[acm]min|newer\w*|user|group|perm|uid|gid|inum|samefile|links"
    r"|nouser|nogroup|executable|readable|writable|used|fstype|i?lname|xtype|context)"
)
_FOUND = {"f": "files", "d": "folders", "l": "symbolic links", "s": "sockets", "p": "named pipes"}
"""The argument of `find -type` -> what it means."""
_SHALLOW = {("-maxdepth", "0"), ("-maxdepth", "1")}
_INLINE = re.compile(
    r"\b(?:rmtree|os\.(?:remove|unlink|rmdir)|unlink|rm_rf|FileUtils\.rm\w*|rmSync|rmdirSync|unlinkSync)\b"
)
_SQL = re.compile(
    r"\b(?:drop\s+(?:table|database|schema|index|view|user|role|collection|column)|truncate\s+(?:table\s+)?\w+"
    r"|delete\s+from\s+[\w.\"`]+\s*(?:;|$)|dropDatabase|flushall|flushdb|alter\s+table\s+\S+\s+drop)",
    re.IGNORECASE,
)

_LOOKS = {
    **dict.fromkeys(("mke2fs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4"), name_set("-n")),
    "mkfs.xfs": name_set("-N"),
    "mkfs.ntfs": name_set("-n --no-action"),
    "wipefs": name_set("-n --no-act"),
    "fdisk": name_set("-l --list -x --list-details -s --getsz"),
    "gdisk": name_set("-l"),
    "sgdisk": name_set(
        "-p --print -v --verify -i --info -b --backup -O --print-mbr -L --list-types -P --pretend"
        " -f --first-in-largest -F --first-aligned-in-largest -E --end-of-largest"
    ),
    "sfdisk": name_set(
        "-d --dump -J --json -l --list -F --list-free -s --show-size -g --show-geometry -V --verify -n --no-act"
    ),
    "parted": name_set("-l --list print"),
    "newfs": name_set("-N"),
    "newfs_apfs": name_set("-N"),
}
"""Words with which a program only looks; sgdisk does if it has no others."""


def _extent(words: Sequence[Word]) -> str:
    """Meaning of the most far-reaching of the words, if its name does not show it."""
    for word in words:
        if word.value in ("*", "./*"):
            return "everything in this folder"
        if word.value in ("..", "../"):
            return "everything in the folder above"
        if whole_system(word):
            homes = ("~", "$", "/home", "/Users", "/root")
            return "a whole home folder" if posixpath.normpath(word.value).startswith(homes) else "the whole system"
    return ""


def removal(command: SimpleCommand) -> Iterator[Finding]:
    """rm: the more it deletes, the stronger the words."""
    arguments = Arguments(command.words[1:])
    operands = arguments.operands
    if arguments.has("--help", "--version") or not (operands or fed(command)):
        return
    recursive = arguments.has("-r", "-R", "--recursive")
    sentence = f"deletes {named(operands, command)}"
    finder = _finder(command, operands)
    if (found := _Search(finder)).whole:
        sentence, operands = f"deletes {_found(finder, found.starts)}", found.starts
    wide = [word for word in operands if whole_system(word) or system_folder(word)]
    if recursive and not found.whole and (extent := _extent(operands)):
        sentence += f": {extent}"
    elif recursive and not found.whole:
        single = len(operands) == 1 and not operands[0].pattern
        sentence += " and everything in it" if single else ", folders with everything in them"
    empty = next((name for word in operands if recursive and (name := empty_variable(word))), None)
    severity = WARNING
    if arguments.has("-i", "-I", "--interactive") and not arguments.has("-f", "--force"):
        sentence, severity = f"asks, then {sentence}", NOTICE
    elif arguments.has("-f", "--force"):
        sentence += ", without asking"
    if empty:
        sentence += f"; if `{empty}` is empty, it deletes everything on this device"
    all_of_it = found.whole or (recursive and wide) or any(word.pattern and whole_system(word) for word in operands)
    if all_of_it or any(disk(word) for word in operands) or arguments.has("--no-preserve-root"):
        severity = DANGER
    yield Finding(severity, sentence, operands)


def search(command: SimpleCommand) -> Iterator[Finding]:
    """`find -delete`."""
    words = command.words[1:]
    if not any(word.value == "-delete" for word in words):
        return
    first = next(number for number, word in enumerate(words) if word.value == "-delete")
    searched = _Search(words[:first])
    late = not searched.tested and any(_FIND_TESTS.fullmatch(word.value) for word in words[first:])
    advice = "; the tests after `-delete` come too late" if late else ""
    severity = DANGER if searched.whole else WARNING
    yield Finding(severity, f"deletes {_found(words[:first], searched.starts)}{advice}", searched.starts)


class _Search:
    """What the words of `find` before its action say: where it starts, and whether it tests what it finds."""

    def __init__(self, words: Sequence[Word]) -> None:
        options = ("-H", "-L", "-P")
        places = takewhile(lambda word: word.value[:1] not in ("-", "(", "!") or word.value in options, words)
        self.starts = tuple(word for word in places if word.value not in options)
        self.tested = any(_FIND_TESTS.fullmatch(word.value) for word in words)

    @property
    def whole(self) -> bool:
        """Whether it finds everything in a folder that matters."""
        return not self.tested and any(whole_system(word) or system_folder(word) for word in self.starts)


def _finder(command: SimpleCommand, operands: Sequence[Word]) -> Sequence[Word]:
    """The words of the `find` whose results the command gets, up to its action."""
    if any(word.value not in ("{}", "%", "@") for word in operands):
        return ()
    feeder = command.feeders[-1] if command.feeders and command.runs_under("xargs") else None
    if feeder is not None and feeder.program in ("find", "gfind"):
        return feeder.words[1:]
    outer = next((one for one in command.outers if one.program in ("find", "gfind")), None)
    if outer is None or not operands:
        return ()
    actions = [
        number for number, word in enumerate(outer.words) if word.value in ("-exec", "-execdir", "-ok", "-okdir")
    ]
    # An action before another one is a test.
    return outer.words[1 : actions[0]] if len(actions) == 1 and outer.words[actions[0]].value[:3] == "-ex" else ()


def _found(words: Sequence[Word], starts: Sequence[Word]) -> str:
    """What `find` matches with these words before its action."""
    values = [word.value for word in words]
    pairs = set(zip(values, values[1:]))
    where = (named(starts) if starts else "this folder") + ("" if pairs & _SHALLOW else " and below")
    tests = [word for word in words[_end_of(words, starts) :] if word.value not in ("-depth", "-print", "-print0")]
    if any(word.value in ("!", "-not", "-o", "-or", "(", ",") for word in tests):
        return f"what matches `{' '.join(word.value for word in tests)[:60]}` in {where}"
    types = [after for option, after in zip(values, values[1:]) if option == "-type"]
    what = _FOUND.get(types[0], "files and folders") if types else "files and folders"
    what = f"empty {what}" if "-empty" in values else what
    rest: list[str] = []
    skip = False
    for word in tests:
        if skip or word.value in ("-empty", "-type", "-maxdepth", "-mindepth"):
            skip = not skip and word.value != "-empty"
            continue
        rest.append(word.value)
    if rest:
        return f"the {what} in {where} that match `{' '.join(rest)[:60]}`"
    return f"all {what} in {where}" if types or "-empty" in values else f"everything in {where}"


def _end_of(words: Sequence[Word], starts: Sequence[Word]) -> int:
    """The number of words up to the last starting folder of `find`."""
    return words.index(starts[-1]) + 1 if starts else 0


def inline_code(command: SimpleCommand) -> Iterator[Finding]:
    """Code of another language in the command itself, which deletes files."""
    for word in command.words[1:]:
        if _INLINE.search(word.value):
            yield Finding(WARNING, f"deletes files, in the code given to `{command.program}`")
            return


def statements(command: SimpleCommand) -> Iterator[Finding]:
    """SQL in the arguments of a database client, or in the text that it reads."""
    for word in (*command.words[1:], *texts(command)):
        if (match := _SQL.search(word.value)) is not None:
            yield Finding(WARNING, f"deletes from a database: `{' '.join(match.group().split())}`", (word,))
            return


def disks(command: SimpleCommand) -> Iterator[Finding]:
    """Programs that create a file system, or change the layout of a disk."""
    words = command.words[1:]
    arguments = Arguments(words)
    if arguments.has("--help", "--version") or _only_looks(command.program, words, arguments):
        return
    operands = [word for word in arguments.operands if not word.value.isdigit()]
    real = [word for word in words if disk(word)] or [word for word in operands if _filled_in(word)][-1:]
    if targets := tuple(real[:1] or operands[-1:]):
        yield Finding(DANGER if real else WARNING, f"erases what is on {named(targets)}", targets)


def _filled_in(word: Word) -> bool:
    """Whether something else is put in its place: a variable, or a placeholder."""
    return not word.plain or word.value.startswith(("<", "{{"))


def _only_looks(program: str, words: Sequence[Word], arguments: Arguments) -> bool:
    values, looks = {word.value.partition("=")[0] for word in words}, _LOOKS.get(program, frozenset())
    if program == "sgdisk":
        return looks.issuperset(arguments.names)
    if program == "parted" and values & {"mklabel", "mktable", "mkpart", "rm"}:
        return False
    if program == "wipefs" and not arguments.has("-a", "--all", "-o", "--offset"):
        return True
    return not values.isdisjoint(looks)


def emptied(command: SimpleCommand) -> Iterator[Finding]:
    """truncate: makes files shorter."""
    arguments = Arguments(command.words[1:], ("-s", "--size", "-r", "--reference"))
    size = arguments.value("-s", "--size")
    if arguments.operands and (size is None or not size.value.startswith(("+", ">"))):
        what = named(arguments.operands, command)
        sentence = f"empties {what}" if size is not None and size.value == "0" else f"truncates {what}"
        yield Finding(WARNING, sentence, arguments.operands)


def into_nothing(command: SimpleCommand) -> Iterator[Finding]:
    """`mv x /dev/null`, and the options of archivers and of rsync that delete."""
    arguments = Arguments(command.words[1:])
    operands = arguments.operands
    if command.program == "mv" and len(operands) > 1 and operands[-1].value == "/dev/null":
        yield Finding(
            WARNING, f"deletes {named(operands[:-1], command)}: nothing comes back from /dev/null", operands[:-1]
        )
    elif command.program in ("tar", "bsdtar") and arguments.has("--remove-files"):
        yield Finding(WARNING, "deletes the files once they are archived")
    elif command.program == "rsync" and not arguments.has("-n", "--dry-run", "--list-only"):
        if any(name.startswith("--del") for name in arguments.names):
            yield Finding(
                WARNING,
                f"deletes in {named(operands[-1:]) or 'the destination'} what is not in the source",
                operands[-1:],
            )
        if arguments.has("--remove-source-files"):
            yield Finding(WARNING, f"deletes {named(operands[:-1])} after copying", operands[:-1])


_D = Kind.DELETES
_DISK_TOOLS = (
    "mkfs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat mkfs.exfat mkfs.ntfs mkfs.f2fs"
    " mkfs.bcachefs mke2fs mkntfs mkdosfs mkswap"
    " wipefs fdisk gdisk sgdisk sfdisk cfdisk parted blkdiscard newfs newfs_apfs"
)
_DATABASES = "mysql mariadb psql sqlite3 sqlcmd mongo mongosh redis-cli clickhouse-client"
DELETIONS: tuple[Rule, ...] = (
    Rule(_D, ("rm", "grm", "srm"), removal),
    Rule(_D, ("find", "gfind"), search),
    Rule(_D, ("python", "python3", "perl", "ruby", "node", "php"), inline_code),
    Rule(_D, tuple(_DATABASES.split()), statements),
    Rule(_D, tuple(_DISK_TOOLS.split()), disks),
    Rule(_D, ("truncate",), emptied),
    Rule(_D, ("mv", "tar", "bsdtar", "rsync"), into_nothing),
)
