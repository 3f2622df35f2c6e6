"""The files in deploy/: their commands exist, systemd takes the unit, and a server has the time to drain.

What nginx makes of its file is tried in tests/faults/test_nginx.py.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from app.cli.__main__ import cli
from remote.verifier.options import ServeOptions
from tests.support.serving import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
UNIT = DEPLOY / "outrider.service"
CONTAINER = DEPLOY / "Containerfile"


def checked(words: list[str]) -> None:
    """Check that `outrider` takes these words: a command and its options with values."""
    command = typer.main.get_command(cli).commands[words[0]]  # type: ignore[attr-defined]
    context = command.make_context(words[0], words[1:], resilient_parsing=True)
    assert not context.args, context.args
    known = {option for one in command.params for option in one.opts}
    assert {word for word in words if word.startswith("--")} <= known


def found(pattern: str, file: Path) -> str:
    """The first group of a pattern at the beginning of a line."""
    match = re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)
    assert match is not None
    return match[1]


def test_the_commands_are_ours() -> None:
    program, *words = shlex.split(found(r"^ExecStart=((?:.*\\\n)*.*)$", UNIT).replace("\\\n", " "))
    assert program.endswith("/outrider")
    checked(words)
    parts = [json.loads(found(rf"^{name} (\[.*\])$", CONTAINER)) for name in ("ENTRYPOINT", "CMD")]
    program, *words = itertools.chain(*parts)
    assert program == "outrider"
    checked(words)


def test_what_the_container_copies_is_there_and_a_server_has_the_time_to_drain() -> None:
    lines = re.findall(r"^COPY ([^-].*) \S+$", CONTAINER.read_text(encoding="utf-8"), re.MULTILINE)
    copied = {name for line in lines for name in line.split()}
    assert {"app", "drafter", "remote", "storage", "pyproject.toml"} <= copied
    assert all((REPOSITORY / name).exists() for name in copied)
    for pattern, file in ((r"^TimeoutStopSec=(\d+)", UNIT), (r"--stop-timeout (\d+)", CONTAINER)):
        assert int(found(pattern, file)) > ServeOptions.drain_seconds
    connections = found(r"limit_conn outrider_addresses (\d+);", DEPLOY / "nginx.conf")
    assert int(connections) <= ServeOptions.max_per_address


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    there = sys.executable  # As any program that exists.
    changed = UNIT.read_text(encoding="utf-8").replace("/opt/outrider/bin/outrider", there)
    unit.write_text(re.sub(r"^Documentation=.*\n", "", changed, flags=re.MULTILINE))  # The manual is not installed.
    ran = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr


LOADS = """
import time
from remote.verifier.serve import ends_while_loading

with ends_while_loading():
    print("loading", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run(["unshare", "--pid", "--fork", "true"]).returncode != 0,
    reason="this user may make no namespace",
)
def test_a_container_that_still_loads_ends_at_sigterm() -> None:
    command = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", LOADS]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "loading\n"
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGTERM)
        try:
            assert process.wait(20) == 128 + signal.SIGTERM
        finally:
            process.kill()
