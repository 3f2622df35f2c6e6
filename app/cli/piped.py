"""Reads piped input. An open but empty pipe blocks a command, so after a moment a message says so."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.exits import complain

PIPE_SECONDS = 1.0
"""Wait for the first byte after which a message says that stdin is read."""
WAITING = "waiting for input on stdin"


def read_piped(most: int) -> bytes:
    """Read stdin to its end, at most `most` bytes."""
    if sys.stdin is None:
        return b""
    pipe = sys.stdin.buffer
    how = "end with Ctrl+D" if sys.stdin.isatty() else "to read nothing, add: < /dev/null"
    with told_after(PIPE_SECONDS, f"{WAITING}; {how}"):
        begun = pipe.read(1)
    return begun + pipe.read(most - 1) if begun else b""


@contextmanager
def told_after(seconds: float, sentence: str) -> Iterator[None]:
    """Print this sentence if the block takes longer."""
    timer = threading.Timer(seconds, complain, [sentence])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
