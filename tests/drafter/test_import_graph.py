"""The modules of `drafter` and `remote` import one way, and what runs a drafter needs nothing of what trains one."""

from __future__ import annotations

import pytest

from tests.support.import_graph import circles, imports
from tests.support.serving import REPOSITORY


@pytest.mark.parametrize("package", ["drafter", "remote", "benchmarks", "recipes"])
def test_no_two_modules_need_each_other(package: str) -> None:
    edges: dict[str, set[str]] = {}
    for found in imports(REPOSITORY, package):
        edges.setdefault(found.module, set()).add(found.needs)
    assert edges
    assert circles(edges) == []


def test_the_runtime_needs_no_training() -> None:
    training = "drafter.training"
    upward = [
        f"{found.module}:{found.line} imports {found.needs}"
        for found in imports(REPOSITORY, "drafter")
        if found.needs.startswith(training) and not found.module.startswith(training)
    ]
    assert upward == []
