"""Runs the program's commands in the process of the test."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.start import main


class CommandResult(NamedTuple):
    """Exit code, stdout and stderr of a command."""

    code: int
    out: str
    err: str

    def says(self, code: int, words: str) -> bool:
        """It ended with this code, and these words are on stderr."""
        return self.code == code and words in self.err

    @property
    def rows(self) -> list[Any]:
        """stdout as lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def json(self) -> Any:
        """stdout as one JSON value."""
        return json.loads(self.out)


Outrider = Callable[..., CommandResult]


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path, drafter: Path) -> Outrider:
    """A function that runs `outrider ARGUMENTS` on its own home with the drafter in `drafter`."""
    monkeypatch.setenv("OUTRIDER_HOME", str(home))
    monkeypatch.setenv("HOME", str(home))  # Nothing in the tester's own home may matter.
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("OUTRIDER_DRAFTER", str(drafter))
    if "OUTRIDER_MAX_TOKENS" not in os.environ:  # Random weights seldom end an answer.
        monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "512")

    def run(*arguments: str, stdin: str | bytes = "") -> CommandResult:
        given = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "argv", ["outrider", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        printed = capsys.readouterr()
        return CommandResult(code if isinstance(code, int) else 0, printed.out, printed.err)

    return run


def answer_many(outrider: Outrider, url: str, count: int, folder: Path) -> None:
    """Have a server check this many answers; the questions are in a file in `folder`."""
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(f'{{"prompt": "what is {number}"}}\n' for number in range(count)))
    assert outrider("ask", "--prompts", str(prompts), "--remote", url).code == 0
