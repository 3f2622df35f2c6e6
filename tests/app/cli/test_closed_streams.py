"""A command without stdin, stdout or stderr never writes into a file that got their number."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from storage import Store
from tests.support.serving import REPOSITORY


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_an_answer(tiny_pair: Path, tmp_path: Path, closed: str) -> None:
    home = {"OUTRIDER_HOME": str(tmp_path), "OUTRIDER_DRAFTER": str(tiny_pair / "drafter"), "OUTRIDER_MODE": "offline"}
    command = f'exec "{sys.executable}" -m app.cli ask "list files" --max-tokens 4 {closed}'
    ran = subprocess.run(
        ["/bin/sh", "-c", command], cwd=REPOSITORY, env={**os.environ, **home}, capture_output=True, text=True
    )
    assert ran.returncode == 0 and "Traceback" not in ran.stderr, ran.stderr
    assert bool(ran.stdout) == (">&-" not in closed.split())
    with closing(sqlite3.connect(tmp_path / "data" / "outrider.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with Store.open(tmp_path / "data" / "outrider.db") as store:
        (conversation,) = store.conversations.all()
        assert [message.status for message in store.branches.thread(conversation.id)] == ["done", "done"]
