"""What a release is checked for before it is built, and the releases that it needs."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.serving import REPOSITORY
from tools.newest import CONSTRAINTS, installed, read_constraints, write_constraints
from tools.release import (
    LEFT_OUT,
    PACKAGES,
    WEIGHTS,
    Problem,
    check_changelog,
    check_sdist,
    check_tree,
    check_wheel,
    git,
)

CHANGELOG = """# Changelog

## [Unreleased]

## [1.2.0] - 2026-11-22

### Added

- A thing.

## [1.1.0] - 2026-10-01

- An older thing.
"""
TRACKED = ["app/start.py", "tests/app/test_start.py", "benchmarks/network.py", *WEIGHTS, LEFT_OUT]
WHEEL = [
    "app/start.py",
    *WEIGHTS,
    "outrider-1.2.0.data/data/share/man/man1/outrider.1",
    *(f"outrider-1.2.0.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")),
    "outrider-1.2.0.dist-info/licenses/LICENSE",
    "outrider-1.2.0.dist-info/licenses/NOTICE",
]


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("## [Unreleased]\n", "", "does not begin"),
        ("## [Unreleased]\n", "## [Unreleased]\n\n- More.\n", "under [Unreleased]"),
        ("[1.2.0]", "[1.2.1]", "newest entry"),
        (" - 2026-11-22", "", "no date"),
        ("### Added\n\n- A thing.\n", "", "is empty"),
    ],
)
def test_a_changelog_that_is_not_ready_is_told(old: str, new: str, said: str) -> None:
    check_changelog(CHANGELOG, "1.2.0")
    with pytest.raises(Problem, match=re.escape(said)):
        check_changelog(CHANGELOG.replace(old, new, 1), "1.2.0")


def test_the_tree_and_the_tag(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    git(tmp_path, "config", "user.email", "a@example.com")
    git(tmp_path, "config", "user.name", "a")
    (tmp_path / "a").write_text("1")
    with pytest.raises(Problem, match="not clean"):
        check_tree(tmp_path, "1.2.0")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "--message", "a")
    check_tree(tmp_path, "1.2.0")
    git(tmp_path, "tag", "v1.2.0")
    check_tree(tmp_path, "1.2.0")
    git(tmp_path, "commit", "--allow-empty", "--message", "b")
    with pytest.raises(Problem, match=r"v1\.2\.0 is at another commit"):
        check_tree(tmp_path, "1.2.0")
    check_tree(tmp_path, "1.3.0")


def test_a_wheel_and_an_sdist_hold_what_is_tracked_and_nothing_else() -> None:
    check_wheel(WHEEL, TRACKED, "1.2.0")
    for name in WHEEL:
        with pytest.raises(Problem, match="lacks"):
            check_wheel([other for other in WHEEL if other != name], TRACKED, "1.2.0")
    for name in ("tests/app/test_start.py", "benchmarks/network.py", "app/untracked.py"):
        with pytest.raises(Problem, match="does not belong"):
            check_wheel([*WHEEL, name], TRACKED, "1.2.0")
    files = [*TRACKED, "LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "pyproject.toml", "docs/outrider.1"]
    packed = [f"outrider-1.2.0/{name}" for name in (*files, "PKG-INFO")]
    check_sdist(packed, files, "1.2.0")
    with pytest.raises(Problem, match="lacks LICENSE"):
        check_sdist([name for name in packed if not name.endswith("LICENSE")], files, "1.2.0")
    with pytest.raises(Problem, match="not in the repository: secret"):
        check_sdist([*packed, "outrider-1.2.0/secret"], files, "1.2.0")


def test_the_build_would_pack_the_tracked_files_of_the_packages() -> None:
    """The file list of hatchling, which pyproject.toml decides; nothing is built."""
    packed = {each.distribution_path for each in WheelBuilder(str(REPOSITORY)).recurse_included_files()}
    files = git(REPOSITORY, "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    there = [name for name in files if (REPOSITORY / name).exists()]
    code = {name for name in there if name.startswith(tuple(f"{package}/" for package in PACKAGES))}
    assert packed == code - {LEFT_OUT} and LEFT_OUT in code


# ---- constraints.txt -------------------------------------------------------------------------------------------------


def test_packages_come_before_those_that_need_them_and_no_build_for_one_machine_is_written_down() -> None:
    found = list(installed())
    assert found.index("httpcore") < found.index("httpx") < found.index("openai")
    assert "outrider" not in found
    text = write_constraints({"torch": "2.13.0+cpu", "anyio": "4.16.0"})
    assert read_constraints(text) == {"anyio": "4.16.0", "torch": "2.13.0"}
    assert text.startswith("#")


def test_constraints_fit_the_project() -> None:
    tested = read_constraints(CONSTRAINTS.read_text())
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = [line for name, lines in project["optional-dependencies"].items() if name != "ray" for line in lines]
    for requirement in map(Requirement, project["dependencies"] + extras):
        name = canonicalize_name(requirement.name)
        assert name == "outrider" or requirement.specifier.contains(tested[name]), name
