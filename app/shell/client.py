"""The client that a shell key runs: one request to the helper, with the answer on stdout. It starts in some 30 ms.

    python -I -S app/shell/__main__.py KIND SHELL [--status N] [--announce] < TEXT

stdout: a line with a note for the person, which may be empty, then the text. Exit codes: 0 there is an answer, 1 there
is none and the note says why, 130 cancelled. The text comes over stdin, because arguments can be read by every
account.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

from app.shell.connection import NoHelper, ask, request
from app.shell.place import NoPlace

OK, FAILED, INTERRUPTED = 0, 1, 130
MOST_BYTES = 1 << 16
"""Longest line. A longer one is not a command that a person typed."""
HINT_SECONDS = 0.4
"""Wait before a slow answer is announced on the terminal."""
SLOW = "outrider: asking. Ctrl+C stops it."
ERASE = "\r\x1b[K"


def main() -> NoReturn:
    """Run one request; ends the process."""
    # Shells ignore the signal while this runs, to keep their line, and a child inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kind, shell, *options = sys.argv[1:]
    status = int(options[options.index("--status") + 1]) if "--status" in options else None
    text = sys.stdin.buffer.read(MOST_BYTES + 1)
    try:
        if len(text) > MOST_BYTES:
            _end(FAILED, "outrider: the line is too long.")
        given = text.decode("utf-8", "replace")
        fields: dict[str, object] = {"shell": shell, "status": status, "columns": _columns()}
        reply = _wait(request(kind, given, **fields), announce="--announce" in options)
    except (NoHelper, NoPlace) as error:
        _end(FAILED, f"outrider: {error}")
    except ConnectionError:
        _end(FAILED, "outrider: the shell helper ended. Press the key again.")
    except KeyboardInterrupt:
        _end(INTERRUPTED, "")
    if "error" in reply:
        _end(FAILED, f"outrider: {reply['error']}")
    note = reply.get("note")
    _end(OK, f"outrider: {note}" if note else "", reply.get("text", ""))


def _wait(wanted: dict[str, Any], *, announce: bool) -> dict[str, Any]:
    """The reply. If it is slow and `announce` is on, a line on the terminal says so until it arrives."""
    conversation = ask(wanted)
    try:
        reply = conversation.reply(HINT_SECONDS if announce else None)
        if reply is not None:
            return reply
        sys.stderr.write(SLOW)
        sys.stderr.flush()
        try:
            late = conversation.reply(None)
        finally:
            sys.stderr.write(ERASE)
            sys.stderr.flush()
        assert late is not None
        return late
    finally:
        conversation.close()


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80  # 0: nobody has told the terminal its size.
    except OSError:
        return 80


def _end(code: int, note: str, text: str = "") -> NoReturn:
    """Print and exit at once: Python's normal exit takes some milliseconds."""
    sys.stdout.buffer.write(f"{' '.join(note.split())}\n{text}".encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    os._exit(code)
