"""Fixes for commands that failed, found without a model: each is based on what exists on this device.

A fix is proposed, never run. Nothing here runs the command again; `git` is asked for the names of its commands.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from app.commands.blocks import PROMPT
from app.commands.risk import Kind, Severity
from app.commands.risks import risks
from app.shell.near_names import COMMON, nearest
from app.shell.words import Word, calls, commands, quoted, replaced

BUILTINS = {
    "alias", "bg", "cd", "command", "echo", "eval", "exec", "exit", "export", "fg", "hash", "help", "history", "jobs",
    "kill", "let", "popd", "printf", "pushd", "pwd", "read", "return", "set", "shift", "source", "test", "times",
    "trap", "type", "ulimit", "umask", "unalias", "unset", "wait",
}  # fmt: skip
"""Names built into shells."""
READERS = {
    "bat", "cat", "diff", "file", "grep", "head", "jq", "less", "ls", "md5sum", "more", "nl", "sha256sum", "sort",
    "source", "stat", "tac", "tail", "uniq", "wc",
}  # fmt: skip
"""Programs that only read the files they are given, so that a missing name is a mistake."""
FILES = {"grep": slice(1, None), "jq": slice(1, None), "source": slice(1), "uniq": slice(1)}
"""The operands that are such files, if not all are: `uniq` writes its second one."""
OUTPUT = {"sort": re.compile(r"-\w*o|--output"), "less": re.compile(r"-\w*o|--log-file", re.I)}
"""The option of a reader that takes the name of a file to write."""
REMOVERS = {"rm", "rmdir", "shred", "unlink"}
"""Programs for which a wrong fix would delete."""
MANAGERS = {"apk", "apt", "apt-get", "brew", "dnf", "flatpak", "nix", "pacman", "pkg", "port", "snap", "yum", "zypper"}
"""Package managers. Each system has only some of them, so a missing one is not misspelt."""
NOT_FOUND = re.compile(r"command not found|: not found|unknown command", re.I)
NO_FILE = re.compile("no such file or directory", re.I)
DENIED = re.compile(r"[Pp]ermission denied|[Oo]peration not permitted|are you root|must be (?:run as )?root|superuser")
MEANT = re.compile(r"(?:[Dd]id you mean|similar command is)\b\W*(?:this\b|one of these\b)?\W*([\w.:-]+)")
UPSTREAM = re.compile(r"^\s*(git push --set-upstream \S+ \S+)\s*$", re.M)
NOT_UTF8 = re.compile("[\udc80-\udcff]")
NOT_EXECUTABLE, NO_PROGRAM = 126, 127
GIT_SECONDS = 2.0
MOST_ENTRIES = 5000
"""Most entries of a folder that are compared."""


class Mend(NamedTuple):
    """A command to run instead of the one that failed, and the reason as a phrase."""

    command: str
    why: str


@dataclass(frozen=True)
class Failure:
    """A command that failed. `status`: its exit code, if known. `error`: what it printed, if known."""

    command: str
    status: int | None
    error: str = ""
    cwd: str = ""
    path: str = ""
    """The shell's search path for programs."""

    def there(self, name: str) -> str:
        """The path of a file that the command names."""
        return os.path.join(self.cwd or os.getcwd(), os.path.expanduser(name))

    def runs(self, name: str) -> bool:
        """Whether a shell would find a program of this name."""
        if "/" in name:
            return os.path.exists(self.there(name))
        return name in BUILTINS or shutil.which(name, path=self.path or None) is not None


def mend(failure: Failure) -> Mend | None:
    """The first known fix for this failure, if any. A name that is not UTF-8 is in none."""
    if failure.status == 0 and not failure.error:
        return None
    for rule in RULES:
        found = rule(failure)
        if found is not None and found.command != failure.command and not NOT_UTF8.search(found.command):
            return found._replace(why="; ".join([found.why, *_new_risks(failure.command, found.command)]))
    return None


def _new_risks(failed: str, mended: str) -> list[str]:
    """The effects of the fix that the failed command would not have had, and each warning. The person can see that it
    runs as root, and which program it runs.
    """
    before = {risk.sentence for risk in risks(failed)}
    told = [
        f"{risk.severity}: it {risk.sentence}"
        for risk in risks(mended)
        if risk.kind not in (Kind.ROOT, Kind.UNKNOWN)
        and (risk.sentence not in before or risk.severity.rank >= Severity.WARNING.rank)
    ]
    return list(dict.fromkeys(told))


# ---- rules -----------------------------------------------------------------------------------------------------------


def copied_prompt(failure: Failure) -> Mend | None:
    line = failure.command.lstrip()
    found = PROMPT.match(line)
    return Mend(line[found.end() :], "without the copied prompt") if found else None


def missing_space(failure: Failure) -> Mend | None:
    found = re.fullmatch(r"\s*cd(\.\.(?:/\S*)?|/\S*)\s*", failure.command)
    return Mend(f"cd {found[1]}", "with the space") if found else None


def missing_sudo(failure: Failure) -> Mend | None:
    """Leave out a `sudo` that is not there, where root needs none."""
    found = re.match(r"\s*(sudo|doas)\s+(?![-\s])", failure.command)
    if found is None or failure.runs(found[1]) or os.geteuid() != 0:
        return None
    return Mend(failure.command[found.end() :], f"{found[1]} is not installed, and you are root")


def misspelt_program(failure: Failure) -> Mend | None:
    """Correct the name of a program that is not there."""
    if failure.status not in (None, NO_PROGRAM) and not NOT_FOUND.search(failure.error):
        return None
    for name, _ in calls(failure.command):
        if "/" in name.value or "$" in name.value or failure.runs(name.value):
            continue
        if name.value in COMMON or name.value in MANAGERS:  # It is not misspelt, but not installed.
            return None
        if (meant := nearest(name.value, _programs(failure.path))) is not None:
            return Mend(replaced(failure.command, name, meant), f"there is no {name.value}; did you mean {meant}?")
        return None
    return None


def misspelt_git_command(failure: Failure) -> Mend | None:
    """Correct the name of a git command."""
    for name, rest in calls(failure.command):
        if name.value != "git" or not failure.runs("git"):
            continue
        given = next((word for word in rest if not word.value.startswith("-")), None)
        if given is None or [name, *rest][rest.index(given)].value in ("-C", "-c"):
            return None
        if (meant := nearest(given.value, _git_commands(failure))) is not None:
            return Mend(replaced(failure.command, given, meant), f"git has no {given.value}; did you mean {meant}?")
    return None


def suggested_word(failure: Failure) -> Mend | None:
    """Take the word that the program itself suggests for one that it does not know."""
    found = MEANT.search(failure.error)
    if found is None:
        return None
    for words in commands(failure.command):
        for word in words[1:]:
            if word.value != found[1] and nearest(word.value, [found[1]]) is not None:
                return Mend(replaced(failure.command, word, found[1]), f"the program suggests {found[1]}")
    return None


def upstream(failure: Failure) -> Mend | None:
    """Take the push that git itself suggests for a branch without an upstream."""
    found = UPSTREAM.search(failure.error)
    return Mend(found[1], "git suggests it") if found and failure.command.startswith("git push") else None


def near_folder(failure: Failure) -> Mend | None:
    """Go to the folder whose name is near."""
    for words in commands(failure.command):
        if words[0].value not in ("cd", "pushd") or len(words) != 2:
            continue
        target = words[1]
        if os.path.isfile(failure.there(target.value)):
            folder = os.path.dirname(target.value) or "."
            return Mend(replaced(failure.command, target, folder), f"{target.value} is a file")
        if not os.path.exists(failure.there(target.value)):
            near = _near_path(failure, target.value, os.path.isdir)
            return Mend(replaced(failure.command, target, near), f"there is {near}") if near else None
    return None


def missing_parents(failure: Failure) -> Mend | None:
    """Make the folders above a new one, too."""
    for name, rest in calls(failure.command):
        if name.value != "mkdir" or any(word.value in ("-p", "--parents") for word in rest):
            continue
        folders = [word.value for word in rest if not word.value.startswith("-")]
        if any(not os.path.exists(os.path.dirname(failure.there(one.rstrip("/")))) for one in folders):
            return Mend(_with_option(failure.command, name, "-p"), "creates the parent folders, too")
    return None


def near_file(failure: Failure) -> Mend | None:
    """Read the file whose name is near."""
    for name, rest in calls(failure.command):
        for word in (one for one in rest if _is_missing(failure, one.value)):
            read = word in _files(name.value, rest)
            told = NO_FILE.search(failure.error) is not None
            if not (_not_found(failure, name.value, word.value) if told else read):
                continue
            near = _near_path(failure, word.value, os.path.exists)
            if near is not None and (read or not _may_be_written(failure, word.value, near)):
                return Mend(replaced(failure.command, word, near), f"there is {near}")
    return None


def recursive_copy(failure: Failure) -> Mend | None:
    """Copy a folder with what is in it."""
    for name, _ in calls(failure.command):
        if name.value == "cp" and "omitting directory" in failure.error:
            return Mend(_with_option(failure.command, name, "-r"), "copies folders, too")
    return None


def not_executable(failure: Failure) -> Mend | None:
    """Make a script executable, and run it."""
    if failure.status not in (None, NOT_EXECUTABLE):
        return None
    for name, _ in calls(failure.command):
        if "/" in name.value:
            file = failure.there(name.value)
            if os.path.isfile(file) and not os.access(file, os.X_OK):
                return Mend(f"chmod +x {quoted(name.value)} && {failure.command}", f"{name.value} is not executable")
    return None


def as_root(failure: Failure) -> Mend | None:
    """Run it as root, where the error says that rights are missing."""
    words = commands(failure.command)
    refused = DENIED.search(failure.error)
    if refused and len(words) == 1 and words[0][0].value not in ("sudo", "doas", "cd", "ssh") and failure.runs("sudo"):
        if ">" in failure.command:  # The shell opens the file, and sudo would not help.
            return None
        return Mend(f"sudo {failure.command.lstrip()}", "runs as root: make sure that you want that")
    return None


Rule = Callable[[Failure], Mend | None]
RULES: tuple[Rule, ...] = (
    copied_prompt,
    missing_space,
    missing_sudo,
    misspelt_program,
    upstream,
    misspelt_git_command,
    suggested_word,
    near_folder,
    missing_parents,
    near_file,
    recursive_copy,
    not_executable,
    as_root,
)


# ---- what exists here ------------------------------------------------------------------------------------------------


def _programs(path: str) -> Iterator[str]:
    """Names of programs that a shell finds."""
    yield from BUILTINS
    for folder in (path or os.environ.get("PATH", os.defpath)).split(os.pathsep):
        try:
            with os.scandir(folder or ".") as entries:
                yield from (entry.name for entry in entries)
        except OSError:  # Folders that are missing are usual.
            continue


def _git_commands(failure: Failure) -> list[str]:
    """The commands that git knows here: its own and the person's."""
    git = shutil.which("git", path=failure.path or None)
    if git is None:
        return []
    try:
        ran = subprocess.run(
            [git, "--list-cmds=main,others,alias,nohelpers"],
            cwd=failure.cwd or None, capture_output=True, text=True, timeout=GIT_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return []
    return ran.stdout.split()


def _with_option(command: str, name: Word, option: str) -> str:
    return f"{command[: name.end]} {option}{command[name.end :]}"


def _is_missing(failure: Failure, value: str) -> bool:
    """Whether a word may be the name of a file, and there is none."""
    if value.startswith("-") or not value or any(letter in value for letter in "*?[$`") or "://" in value:
        return False
    return not os.path.lexists(failure.there(value))


def _files(name: str, rest: list[Word]) -> list[Word]:
    """The words after a program that are files which it only reads."""
    output = OUTPUT.get(name)
    preceding = ["", *(word.value for word in rest)]
    files = [
        word
        for before, word in zip(preceding, rest)
        if not word.value.startswith("-") and not (output and output.fullmatch(before))
    ]
    return files[FILES.get(name, slice(None))] if name in READERS else []


def _not_found(failure: Failure, name: str, value: str) -> bool:
    """Whether the program said that there is no such file."""
    named = re.compile(rf"(?<![\w.-]){re.escape(value)}(?![\w.-])")
    lines = (line for line in failure.error.splitlines() if NO_FILE.search(line))
    return name not in REMOVERS and any(named.search(line) for line in lines)


def _may_be_written(failure: Failure, value: str, near: str) -> bool:
    """Whether a file that was not found may be one that the program would have made in a folder that is not there."""
    folder, name = os.path.split(value)
    return name != os.path.basename(near) and not os.path.isdir(failure.there(folder))


def _near_path(failure: Failure, path: str, there: Callable[[str], bool]) -> str | None:
    """The path with each missing part replaced by a similar one, or None if some part has none."""
    done = "/" if path.startswith("/") else ""
    parts = [part for part in path.split("/") if part]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        exists = there if last else os.path.isdir
        if not exists(failure.there(done + part)):
            near = nearest(part, _entries(failure.there(done or "."), exists))
            if near is None:
                return None
            part = near
        done += part + ("" if last else "/")
    return done + ("/" if path.endswith("/") and len(path) > 1 else "")


def _entries(folder: str, there: Callable[[str], bool]) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [one.name for one, _ in zip(entries, range(MOST_ENTRIES)) if there(one.path)]
    except OSError:
        return []
