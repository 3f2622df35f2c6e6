"""Options that people type without thinking."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY


def ran(*arguments: str) -> str:
    command = [sys.executable, "-m", "app.start", *arguments]
    return subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    ).stdout


@pytest.mark.parametrize("command", [[], ["ask"], ["history"], ["history", "list"], ["remote", "rm"]], ids=" ".join)
def test_h_is_help(command: list[str]) -> None:
    assert ran(*command, "-h") == ran(*command, "--help") and "-h, --help" in ran(*command, "-h")


def test_v_is_the_version() -> None:
    assert ran("-V") == ran("--version") and ran("-V").startswith("outrider ")
