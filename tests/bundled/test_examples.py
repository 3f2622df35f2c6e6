"""The bundled pair gives right answers to the examples of the documents and the welcome screen, on- and offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.examples import EXAMPLES, Example, read_examples

BUNDLED = {"OUTRIDER_TEMPERATURE": "0", "OUTRIDER_REMOTE": "bundled"}


def answers(mode: str, home: Path) -> dict[str, str]:
    """The last answer to each example, as `outrider ask` gives it to somebody who has changed no setting."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    command = [sys.executable, "-m", "app.cli", "ask", "--mode", mode, "--prompts", str(EXAMPLES)]
    done = subprocess.run(
        command,
        env={**environment, **BUNDLED, "OUTRIDER_HOME": str(home)},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    # The answer of the last turn stays.
    return {row["id"]: row["text"] for row in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return answers("edge", tmp_path_factory.mktemp("verified"))


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return answers("offline", tmp_path_factory.mktemp("drafted"))


@pytest.mark.parametrize("example", read_examples(), ids=lambda example: example.id)
def test_with_the_verifier(example: Example, verified: dict[str, str]) -> None:
    assert example.problem(verified[example.id]) is None


@pytest.mark.parametrize("example", [one for one in read_examples() if one.offline], ids=lambda example: example.id)
def test_by_the_drafter_alone(example: Example, drafted: dict[str, str]) -> None:
    assert example.problem(drafted[example.id]) is None
