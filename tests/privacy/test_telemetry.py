"""Libraries report nothing: it is switched off before they are imported, and what older versions left is named."""

from __future__ import annotations

import ast
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
from models.telemetry import OFF
from tests.support.commands import runner
from tests.support.permissions import as_somebody
from tests.support.serving import REPOSITORY

STARTED = {
    "outrider": "import sys; sys.argv = ['outrider']; from app.start import main; main()",
    "python -m app.cli": "import sys; sys.argv = ['outrider', 'keys']; from app.cli.__main__ import main; main()",
    "python -m benchmarks": "import benchmarks",
    "python -m recipes": "import recipes",
    "python -m pytest": "import tests",
    "a program that uses the drafter": "import models.ort",
}
TOLD = "\nfinally:\n import os, sys; print(*sorted(os.environ.items()), sep='\\n', file=sys.stderr)"


@pytest.mark.parametrize("program", STARTED.values(), ids=STARTED.keys())
def test_every_way_in_switches_it_off(program: str, tmp_path: Path) -> None:
    """Reports are off whatever the environment says. ONNX Runtime reads it when it is imported; later is too late."""
    environment = {**os.environ, **dict.fromkeys(OFF, "wrong"), "OUTRIDER_HOME": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-c", f"try:\n {program}{TOLD}"],
        cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert {str(item) for item in OFF.items()} <= set(told.stderr.splitlines()), told.stderr


def test_it_is_off_before_the_import_and_after_it() -> None:
    """The order of the file: the call, the import, and the library's own switch."""
    body = [ast.unparse(node) for node in ast.parse((REPOSITORY / "models/ort.py").read_text(encoding="utf-8")).body]
    lines = ["switch_off()", "import onnxruntime", "onnxruntime.disable_telemetry_events()"]
    assert [line for line in body if line in lines] == lines


# ---- what an older version has left ---------------------------------------------------------------------------------


def queue(cache: Path, *payloads: bytes) -> Path:
    """A folder as ONNX Runtime 1.32 leaves it, with these reports in its queue."""
    folder = cache / REPORTS
    folder.mkdir(parents=True)
    (folder / "deviceid").write_text("5b4f0b7c-8a0e-4a55-9d0b-0c9d8f1f4a11")
    with contextlib.closing(sqlite3.connect(folder / REPORT_QUEUE)) as database, database:
        database.execute("CREATE TABLE events (record_id TEXT, tenant_token TEXT NOT NULL, payload BLOB)")
        database.executemany("INSERT INTO events VALUES ('id', 'token', ?)", [(one,) for one in payloads])
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


def test_doctor_tells(
    tmp_path: Path, tiny_pair: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = queue(tmp_path / ".cache", b"drafter.onnx")
    monkeypatch.setenv("OUTRIDER_MODE", "offline")
    told = runner(monkeypatch, capsys, tmp_path, tiny_pair / "drafter")("doctor")
    assert f"! reports     {folder} has a device id and 1 unsent reports" in told.out, told
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
