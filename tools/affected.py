"""Tests that nothing which changed can affect, for .ci/run to leave out.

    python -m tools.affected    # prints an `--ignore` of pytest for each file, and says on stderr what it did

Tests of the benchmarks, the recipes, the bundled pair and the terminals take long, and what they test changes seldom.
A file of them runs if something differs from the last known good state that it uses: a module that it imports, or runs
as a program, directly or by way of others, or a file that one of these reads. When in doubt, it runs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cached_property
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
TOPS = ("app", "benchmarks", "docs", "drafter", "models", "recipes", "remote", "storage", "tests", "tools")
PASSED = ".ci/passed"
"""The commit on which every test passed last. `make test-all` writes it."""
FOLDERS = ("tests/benchmarks", "tests/bundled", "tests/pty", "tests/recipes")
MARKS = re.compile(r"^pytestmark = .*\bmark\.(?:benchmarks|bundled|pty)\b", re.MULTILINE)
EVERYTHING = re.compile(
    r"pyproject\.toml|constraints\.txt|requirements.*|Makefile|\.ci/run|.*\bconftest\.py|.*/affected\.py"
)
"""Files that may change what any test does."""
DOTTED = re.compile(rf"\b(?:{'|'.join(TOPS)})(?:\.\w+)+")
"""A module that is imported, or named as the program to run."""
FROM = re.compile(rf"\bfrom ((?:{'|'.join(TOPS)})(?:\.\w+)*) import (\([^)]*\)|[^\n]*)")
FROM_LINE = re.compile(r"^from [\w.]+ import (?:\([^)]*\)|[^\n]*)", re.MULTILINE)
FUNCTION = re.compile(r"^(?:async )?def (\w+)(.*\n(?:(?:[ )].*)?\n)*)", re.MULTILINE)
PROGRAM = re.compile(r"[\"'/]outrider[\"' ]")


class Repository:
    """The files of a repository, and which of them use which."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def texts(self) -> dict[str, str]:
        """The text of each Python file, by its path."""
        found = (path for top in TOPS for path in sorted((self._root / top).rglob("*.py")))
        return {path.relative_to(self._root).as_posix(): path.read_text(encoding="utf-8") for path in found}

    def slow_tests(self) -> list[str]:
        """The files of tests that are left out where nothing affects them."""
        tests = [path for path in self.texts if path.startswith("tests/") and Path(path).name.startswith("test_")]
        return [path for path in tests if path.startswith(FOLDERS) or MARKS.search(self.texts[path])]

    def unaffected(self, changed: set[str]) -> list[str]:
        """The slow tests that use none of the changed files."""
        if any(map(EVERYTHING.fullmatch, changed)):
            return []
        hit = {path for path in self.texts if path in changed or self._reads(path, changed - self.texts.keys())}
        return [test for test in self.slow_tests() if not hit & self.used_by(test)]

    def used_by(self, test: str) -> set[str]:
        """The test, and every module that it or its fixtures use, directly or by way of others."""
        waiting = [test, *self._uses(self._fixtures(test))]
        used: set[str] = set()
        while waiting:
            path = waiting.pop()
            if path not in used:
                used.add(path)
                waiting += self._used[path]
        return used

    @cached_property
    def _used(self) -> dict[str, set[str]]:
        """What each file uses directly."""
        return {path: self._uses(text) for path, text in self.texts.items()}

    def _fixtures(self, test: str) -> str:
        """The functions of the conftest files that a test or another such function names, with the imports of these."""
        conftests = [path for folder in Path(test).parents if (path := f"{folder}/conftest.py") in self.texts]
        functions: dict[str, str] = {}
        for text in (self.texts[path] for path in conftests):
            imported = {name: line for line in FROM_LINE.findall(text) for name in re.findall(r"\w+", line)}
            for name, body in FUNCTION.findall(text):
                lines = {imported[word] for word in re.findall(r"\w+", body) if word in imported}
                functions[name] = "\n".join([body, *lines])
        found, text = "", self.texts[test]
        while named := functions.keys() & set(re.findall(r"\w+", text)):
            text = "\n".join(functions.pop(name) for name in named)
            found += text
        return found

    def _uses(self, text: str) -> set[str]:
        names = set(DOTTED.findall(text))
        for module, imported in FROM.findall(text):
            names |= {f"{module}.{name}" for name in re.findall(r"\w+", imported)}
        if PROGRAM.search(text):
            names.add("app.start")
        return {path for name in names for path in self._files_of(name)}

    def _files_of(self, name: str) -> set[str]:
        """The module of a dotted name, the packages around it, and the program of a package."""
        parts = name.split(".")
        stems = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
        files = {f"{stem}{end}" for stem in stems for end in (".py", "/__init__.py")}
        return (files | {f"{stems[-1]}/__main__.py"}) & self.texts.keys()

    def _reads(self, path: str, others: set[str]) -> bool:
        """Whether a module may read one of these files: it lies above it, or names it or the folder that it is in."""
        folder = Path(path).parent.as_posix()
        text = self.texts[path]
        for other in others:
            within = Path(other).parent.as_posix()
            named = {Path(other).name, within.replace("/", '" / "'), within}
            if "/" not in within:
                named = {Path(other).name, *([f'/ "{within}")'] if within != "." else [])}  # `(ROOT / "docs").glob`
            if other.startswith(f"{folder}/") or any(name in text for name in named):
                return True
        return False


def git(root: Path, *words: str) -> str | None:
    """What git answers, or None where it fails."""
    try:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def base(root: Path) -> str | None:
    """The commit to compare with: `GATE_BASE` if that is set, or else the one in `.ci/passed`.

    None if there is none in the history of the present one.
    """
    record = root / PASSED
    named = os.environ.get("GATE_BASE") or (record.read_text().strip() if record.exists() else "")
    commit = git(root, "rev-parse", "--verify", "--quiet", f"{named}^{{commit}}") if named else None
    if commit is None or git(root, "merge-base", "--is-ancestor", commit, "HEAD") is None:
        return None
    return commit


def changed(root: Path, since: str) -> set[str] | None:
    """The files that differ from a commit, except `PASSED`, and those unknown to git. None where git fails."""
    tracked = git(root, "diff", "--name-only", "--no-renames", "-z", since)
    new = git(root, "ls-files", "--others", "--exclude-standard", "-z")
    if tracked is None or new is None:
        return None
    return {*tracked.split("\0"), *new.split("\0")} - {"", PASSED}


def main() -> None:
    since = base(REPOSITORY)
    files = None if since is None else changed(REPOSITORY, since)
    if files is None:
        print(f"{PASSED} names no earlier commit, so every test runs.", file=sys.stderr)
        return
    repository = Repository(REPOSITORY)
    left_out = repository.unaffected(files)
    print(*(f"--ignore={path}" for path in left_out))
    print(
        f"{len(files)} files differ from {since}: "
        f"{len(left_out)} of {len(repository.slow_tests())} slow files of tests use none of them, and are left out.",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
