"""The program that most tests of the command line run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Outrider, runner


@pytest.fixture
def outrider(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path, tiny_pair: Path
) -> Outrider:
    """Runs commands in `home` with the drafter of the tiny pair, and through no proxy."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return runner(monkeypatch, capsys, home, tiny_pair / "drafter")
