"""`outrider doctor` names what ONNX Runtime left with an older version, says how to remove it, and removes nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from app.cli.checks import REPORT_QUEUE, REPORTS, reports
from tests.support.permissions import as_somebody
from tests.support.serving import REPOSITORY


def queue(cache: Path, *payloads: bytes) -> Path:
    """A folder as ONNX Runtime 1.32 leaves it, with these reports in its queue."""
    folder = cache / REPORTS
    folder.mkdir(parents=True)
    (folder / "deviceid").write_text("5b4f0b7c-8a0e-4a55-9d0b-0c9d8f1f4a11")
    with contextlib.closing(sqlite3.connect(folder / REPORT_QUEUE)) as database, database:
        database.execute(
            "CREATE TABLE events (record_id TEXT, tenant_token TEXT NOT NULL, latency INTEGER, payload BLOB)"
        )
        database.executemany("INSERT INTO events VALUES ('id', 'token', 3, ?)", [(one,) for one in payloads])
    return folder


@pytest.mark.parametrize(
    ("payload", "state", "said"),
    [
        (b"\x03SessionCreation\x69modelFileNamei\x0cdrafter.onnxq", "warning", "left by an older Outrider;"),
        (b"\x03ProcessInfoi\x06pythonq", "ok", "perhaps an older Outrider"),
    ],
)
def test_they_are_counted_and_kept(payload: bytes, state: str, said: str, tmp_path: Path) -> None:
    folder = queue(tmp_path / "my cache", payload, b"\x03ProcessInfo")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    environment = {"XDG_CACHE_HOME": str(tmp_path / "my cache")}
    (finding,) = reports(environment, tmp_path)
    assert finding.state == state and "2 unsent reports" in finding.text and said in finding.text
    assert finding.text.endswith(f"rm -r '{folder}'"), "as a shell takes it"
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    (folder / REPORT_QUEUE).write_bytes(b"no database")
    (finding,) = reports(environment, tmp_path)
    assert finding.state == "ok" and "0 unsent reports" in finding.text


def test_doctor_tells(tmp_path: Path, tiny_pair: Path) -> None:
    folder = queue(tmp_path / ".cache", b"drafter.onnx")
    given = {"HOME": str(tmp_path), "OUTRIDER_HOME": str(tmp_path / "own"), "OUTRIDER_MODE": "offline"}
    given |= {"OUTRIDER_DRAFTER": str(tiny_pair / "drafter"), "PATH": os.environ["PATH"]}
    told = subprocess.run(
        [sys.executable, "-m", "app.cli", "doctor"], cwd=REPOSITORY, env=given, capture_output=True, text=True
    )
    assert f"! reports     {folder} has a device id and 1 unsent reports" in told.stdout, told.stdout + told.stderr
    assert folder.exists()


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_folder_that_is_not_there_or_may_not_be_read_is_no_finding(tmp_path: Path) -> None:
    assert list(reports({}, tmp_path)) == []
    with as_somebody():
        home = Path(tempfile.mkdtemp(prefix="outrider-leftovers-"))
        (home / ".cache" / REPORTS).mkdir(parents=True)
        (home / ".cache").chmod(0o000)
        found = list(reports({}, home))
        (home / ".cache").chmod(0o700)
    shutil.rmtree(home)
    assert found == []
