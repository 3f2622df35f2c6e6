"""The shell's keys send nothing unasked: ghost text goes nowhere, and what is asked offline neither."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.shell.place import ROOT
from tests.privacy.tracing import tracers
from tests.support.patience import PATIENCE_SECONDS
from tests.support.shells import environment_of

WORDS = "unpack a tar.gz file in this folder"
ELSEWHERE = "http://192.0.2.7:8000"
"""An address of no machine (RFC 5737). To connect to it is to leave this device."""


@pytest.mark.parametrize("kind, mode", [("ghost", "auto"), ("command", "offline"), ("explain", "offline")])
def test_what_is_asked_on_this_device_stays_here(kind: str, mode: str, tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("what a program connects to is seen on Linux only")
    home, runtime = tmp_path / "home", tmp_path / "run"
    home.mkdir()
    runtime.mkdir()
    settings = {"OUTRIDER_REMOTE": ELSEWHERE, "OUTRIDER_MODE": mode, "OUTRIDER_SHELL_IDLE_MINUTES": "0.001"}
    settings["OUTRIDER_OFFLINE"] = "drafter"  # Else no other model answers in that server's place.
    tracer, *_ = tracers()
    traced = tracer(tmp_path / "traced")
    client = [sys.executable, "-I", "-S", str(Path(ROOT, "app", "shell", "__main__.py")), kind, "zsh"]
    # The tracer ends when the helper does, a moment after its answer.
    ran = subprocess.run(
        [*traced.prefix, *client],
        input=(WORDS if kind != "explain" else "ls -la").encode(),
        env=environment_of(home, runtime, **settings),
        capture_output=True,
        timeout=PATIENCE_SECONDS * 2,
    )
    said = ran.stdout.decode()
    assert ("tar " if kind != "explain" else "") in said and "Traceback" not in said + ran.stderr.decode()
    assert traced.seen().connections == []
    assert not (home / "data" / "outrider.db").exists()
