"""Test the newest releases of all dependencies, and name the one that breaks something.

    make test-latest     # installs them into .venv-latest, and runs every check there
    make constraints     # and then writes constraints.txt, without the releases that broke something

The file has the releases that everything was tested with. `make` installs those, so that a new release of a
library stops nobody. What breaks is bisected: the checks that failed run again with fewer of the new releases.
"""

from __future__ import annotations

import argparse
import graphlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
HEADER = """\
# The releases that all tests passed with. `make` installs these; `make constraints` writes this file.
"""
OWN = {"outrider", "pip"}
CHECKS = (["ruff", "check", "."], ["mypy"], ["pytest"])


def read_constraints(text: str) -> dict[str, str]:
    """The version of each package."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def write_constraints(versions: Mapping[str, str]) -> str:
    """The text of constraints.txt. The build of a release, as `+cpu`, is left to the machine."""
    return HEADER + "".join(f"{name}=={versions[name].partition('+')[0]}\n" for name in sorted(versions))


def installed() -> dict[str, str]:
    """The version of each package of this environment, packages before those that need them."""
    found = {canonicalize_name(one.name): one for one in metadata.distributions()}
    needs = {name: set(_required(one)) & found.keys() - {name} for name, one in found.items()}
    while True:
        try:
            order = graphlib.TopologicalSorter(needs).static_order()
            return {name: found[name].version for name in order if name not in OWN}
        except graphlib.CycleError as error:
            needs[error.args[1][1]].discard(error.args[1][0])


def _required(one: metadata.Distribution) -> Iterable[str]:
    for line in one.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def culprit(newer: Sequence[str], fails: Callable[[Sequence[str]], bool]) -> str:
    """The package whose new release breaks something.

    `fails` says whether something is broken with the new releases of these packages alone, and the tested ones of all
    others. It must be true of `newer`, and false of none.
    """
    good, bad = 0, len(newer)
    while bad - good > 1:
        middle = (good + bad) // 2
        if fails(newer[:middle]):
            bad = middle
        else:
            good = middle
    return newer[bad - 1]


class Trial:
    """This environment, with any mixture of the tested releases and the newest ones."""

    def __init__(self, tested: Mapping[str, str], newest: Mapping[str, str]) -> None:
        self._tested = tested
        self._newest = newest
        self.newer = [n for n, v in newest.items() if n in tested and v.partition("+")[0] != tested[n]]
        self.held: dict[str, list[str]] = {}
        """The releases that break something, and what they break."""

    def versions(self) -> dict[str, str]:
        """The newest release of each package, and the tested one of those that are held back."""
        return {name: self._tested[name] if name in self.held else v for name, v in self._newest.items()}

    def check(self, check: Sequence[str], tests: Sequence[str]) -> None:
        """Run a check with the newest releases, and hold back what breaks it. Raises `SystemExit`: nothing did."""
        if _passes(check, tests):
            return
        failed = _last_failed() if check[0] == "pytest" else []
        newer = [name for name in self.newer if name not in self.held]

        def fails(names: Sequence[str]) -> bool:
            self._install(names)
            return not _passes(check, failed)

        while newer and fails(newer):
            if fails([]):
                self._install(newer)
                sys.exit(f"{' '.join(check)} fails with the tested releases as well, so no new release broke it.")
            name = culprit(newer, fails)
            self.held[name] = failed or [" ".join(check)]
            newer.remove(name)

    def _install(self, newer: Sequence[str]) -> None:
        pins = [f"{name}=={self._newest[name] if name in newer else self._tested[name]}" for name in self.newer]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, *pins], cwd=ROOT, check=True)


def _cache() -> Path:
    return Path(sys.prefix) / "pytest-cache"


def _passes(check: Sequence[str], tests: Sequence[str]) -> bool:
    options = ["--numprocesses=auto", "-q", f"--override-ini=cache_dir={_cache()}"] if check[0] == "pytest" else []
    return subprocess.run([sys.executable, "-m", *check, *options, *tests], cwd=ROOT).returncode == 0


def _last_failed() -> list[str]:
    return list(json.loads((_cache() / "v" / "cache" / "lastfailed").read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write constraints.txt at the end")
    parser.add_argument("tests", nargs="*", help="run these tests alone")
    options = parser.parse_args()
    trial = Trial(tested := read_constraints(CONSTRAINTS.read_text()), newest := installed())
    for name in trial.newer:
        print(f"new: {name} {tested[name]} -> {newest[name]}")
    for check in CHECKS:
        trial.check(check, options.tests if check[0] == "pytest" else ())
    for name, broken in trial.held.items():
        print(f"{name} {newest[name]} breaks what passed with {tested[name]}:", *broken, sep="\n  ")
    if options.write:
        CONSTRAINTS.write_text(write_constraints(tested | trial.versions()))  # Of extras that are not installed here.
    sys.exit(bool(trial.held))


if __name__ == "__main__":
    main()
