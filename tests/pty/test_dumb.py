"""Terminals that can show no screen: the chat says so, names `outrider ask`, and starts nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.serving import REPOSITORY
from tests.support.terminal import Terminal

COMMAND = [sys.executable, "-m", "app.start"]


@pytest.mark.parametrize(("kind", "arguments"), [("dumb", []), ("unknown", ["chat", "--mode", "offline"])])
def test_a_terminal_that_only_prints(tmp_path: Path, kind: str, arguments: list[str]) -> None:
    environment = {**os.environ, "OUTRIDER_HOME": str(tmp_path)}
    with Terminal([*COMMAND, *arguments], environment=environment, folder=REPOSITORY, kind={"TERM": kind}) as terminal:
        assert terminal.end() == 2
    assert b"\x1b" not in terminal.raw
    assert "TERM is" in terminal.text and kind in terminal.text and "outrider ask" in terminal.text


@pytest.mark.parametrize("piped", ["stdin", "stdout"])
def test_no_terminal_at_one_end(tmp_path: Path, piped: str) -> None:
    """One end is piped, the other is a real terminal."""
    redirect = "< /dev/null" if piped == "stdin" else "| cat; exit ${PIPESTATUS[0]}"
    line = f"{sys.executable} -m app.start {redirect}"
    environment = {**os.environ, "OUTRIDER_HOME": str(tmp_path)}
    with Terminal(["bash", "-c", line], environment=environment, folder=REPOSITORY) as terminal:
        assert terminal.end() == 2
    assert b"\x1b" not in terminal.raw and "needs a terminal" in terminal.text and "outrider ask" in terminal.text
