"""The releases in constraints.txt, and how the one that breaks something is found."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.serving import REPOSITORY
from tools.newest import CONSTRAINTS, culprit, installed, read_constraints, write_constraints

PACKAGES = ("anyio", "httpx", "tokenizers", "torch", "transformers")


@pytest.mark.parametrize(("breaks", "first", "end"), [(0, 0, 1), (0, 0, 5), (2, 0, 5), (4, 0, 5), (3, 2, 4)])
def test_the_release_that_breaks_something_is_found(breaks: int, first: int, end: int) -> None:
    asked: list[Sequence[str]] = []

    def fails(names: Sequence[str]) -> bool:
        asked.append(names)
        return PACKAGES[breaks] in names

    assert culprit(PACKAGES[first:end], fails) == PACKAGES[breaks]
    assert len(asked) <= 3


def test_packages_come_before_those_that_need_them() -> None:
    found = list(installed())
    assert found.index("httpcore") < found.index("httpx") < found.index("openai")
    assert "outrider" not in found


def test_constraints_fit_the_project() -> None:
    tested = read_constraints(CONSTRAINTS.read_text())
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = [line for name, lines in project["optional-dependencies"].items() if name != "ray" for line in lines]
    for requirement in map(Requirement, project["dependencies"] + extras):
        name = canonicalize_name(requirement.name)
        assert name == "outrider" or requirement.specifier.contains(tested[name]), name


def test_a_build_for_one_machine_is_not_written_down() -> None:
    text = write_constraints({"torch": "2.13.0+cpu", "anyio": "4.16.0"})
    assert read_constraints(text) == {"anyio": "4.16.0", "torch": "2.13.0"}
    assert text.startswith("#")
