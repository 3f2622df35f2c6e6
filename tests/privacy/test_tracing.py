"""The tracers see connections and files: else a test that finds none would prove nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.privacy.tracing import Strace, Tracer, tracers

PROGRAM = """
import os, socket, subprocess, sys
def reach(family, kind, address):
    with socket.socket(family, kind) as one:
        one.setblocking(False)
        one.connect_ex(address)
open(sys.argv[1] + "/written", "w").close()
os.rename(sys.argv[1] + "/written", sys.argv[1] + "/renamed")
if sys.argv[2] == "loopback":
    reach(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 9))
else:
    subprocess.run([sys.executable, "-c", sys.argv[3]], check=True)
"""
ELSEWHERE = {
    "tcp": "import socket; s = socket.socket(); s.setblocking(False); s.connect_ex(('192.0.2.1', 443))",
    "udp": "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.connect_ex(('192.0.2.1', 53))",
    "a name server on loopback": (
        "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.connect(('127.0.0.1', 53)); s.send(b'?')"
    ),
    "tcp, version 6": (
        "import socket; s = socket.socket(socket.AF_INET6); s.setblocking(False); s.connect_ex(('2001:db8::1', 443))"
    ),
}


def test_there_is_a_tracer() -> None:
    """This is no skip: without a tracer nothing is proved. macOS and Windows have none."""
    assert tracers() or sys.platform != "linux", "install strace, or allow user namespaces"


@pytest.mark.parametrize("tracer", tracers())
@pytest.mark.parametrize("where", [*ELSEWHERE, "loopback"])
def test_a_connection_of_a_child_process_is_seen(tracer: Tracer, where: str, tmp_path: Path) -> None:
    trace = tracer(tmp_path / "trace")
    program = [sys.executable, "-c", PROGRAM, str(tmp_path), where, ELSEWHERE.get(where, "")]
    subprocess.run([*trace.prefix, *program], check=True)
    seen = trace.seen()
    assert bool(seen.connections) == (where != "loopback"), seen.connections
    if tracer is Strace:
        assert {tmp_path / "written", tmp_path / "renamed"} <= seen.files
