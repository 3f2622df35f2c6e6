"""Runs `tests/support/mcp_server.py` over HTTP, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVER = ["-m", "tests.support.mcp_server"]
TOKEN = "open sesame"


@contextmanager
def over_http(folder: Path, door: str = "--http", port: int = 0) -> Iterator[int]:
    """The server's port. `door`: `--http` for a token, `--login` for a sign-in."""
    process = subprocess.Popen(
        [sys.executable, *SERVER, str(folder), door, str(port)],
        env=os.environ | {"MCP_TOKEN": TOKEN},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()
