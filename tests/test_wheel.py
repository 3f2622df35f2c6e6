"""What is installed: the packages of the wheel, which hold no benchmark, no baseline and no recipe."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.support.import_graph import imported_names, modules
from tests.support.serving import REPOSITORY

SOURCE_ONLY = ("benchmarks", "recipes", "tests", "docs", "tools")


def test_the_wheel_holds_the_packages_alone() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    target = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert target["packages"] == ["app", "drafter", "models", "remote", "storage"]
    assert not {"include", "force-include", "only-include"} & target.keys()
    found = modules(REPOSITORY, *target["packages"])
    assert len(found) > 100
    assert not [name for name in found if "baseline" in name or "eagle" in name]


def test_the_pages_that_shell_guide_reads_are_in_the_wheel(tmp_path: Path) -> None:
    """Hatchling chooses the files, and leaves out what git ignores."""
    from hatchling.builders.wheel import WheelBuilder

    chosen = {one.distribution_path for one in WheelBuilder(str(REPOSITORY)).recurse_included_files()}
    assert "drafter/pretrained/shell-guide/pages.db" in chosen and "models/guide/search.py" in chosen
    assert not [path for path in chosen if path.startswith(SOURCE_ONLY)]


def test_what_is_installed_needs_nothing_that_is_not() -> None:
    wrong = [
        f"{module}:{line} imports {name}"
        for module, path in modules(REPOSITORY, "app", "drafter", "remote", "storage").items()
        for name, line in imported_names(path)
        if name.partition(".")[0] in SOURCE_ONLY
    ]
    assert wrong == []
