"""How the program ends: its exit codes, and one sentence for each expected error.

Exit codes are an interface: 0 ok, 1 failed, 2 usage, 3 could not connect, 130 interrupted. This module imports as
little as possible, because `outrider --version` uses it too.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

OK, FAILED, USAGE, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 130
GO_ON = 'press g on the answer in the chat, or run outrider ask -c "go on"'
"""Advice on how to continue an incomplete answer."""
ANEW = "start a new conversation"
"""Advice for a conversation that is too long to be continued."""
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""System errors for an output that accepts no more data."""


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run a command's coroutine in its own event loop; returns its exit code, or 130 after Ctrl+C."""
    import asyncio

    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        return INTERRUPTED


def complain(sentence: str) -> None:
    """Print one sentence on stderr, without control characters."""
    from app.sanitise import sanitise

    print(f"outrider: {sanitise(sentence)}", file=sys.stderr, flush=True)


def fail(sentence: str, code: int) -> NoReturn:
    """Print one sentence on stderr and end the command with this exit code."""
    complain(sentence)
    sys.exit(code)


def guarded(command: Callable[[], object]) -> None:
    """Run a command. An expected error becomes one sentence and an exit code; any other is a bug and is raised."""
    _open_streams()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # What is not in their encoding becomes a question mark, no traceback.
            stream.reconfigure(errors="replace")
    try:
        try:
            command()
        finally:  # Flush here, where a closed pipe is handled; at exit Python would print a warning.
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # The reader of stdout has gone.
        _give_up_stdout()
        sys.exit(FAILED)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NOT_WRITTEN and error.filename is None:
            _give_up_stdout()
            complain(f"The output could not be written completely: {error.strerror}.")
            sys.exit(FAILED)
        if (code := code_of(error)) is None:
            import logging

            logging.getLogger("outrider").critical("a bug", exc_info=error)
            raise
        complain(str(error))
        sys.exit(code)


def _open_streams() -> None:
    """Open the null device for each closed stream. Otherwise the database would get its descriptor, and the output."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # Takes the lowest free descriptor, which is this one.
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def _give_up_stdout() -> None:
    """Point stdout at the null device, so that Python's flush at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def code_of(error: Exception) -> int | None:
    """The exit code of an error that a person can fix, and whose text says how, or None for a bug."""
    from app.archive.errors import ArchiveError
    from app.config import ConfigError
    from app.prompts import PromptsError
    from models.config import DrafterError
    from remote import Misconfigured
    from storage import StorageError

    if isinstance(error, (ConfigError, PromptsError, Misconfigured)):
        return USAGE
    return FAILED if isinstance(error, (ArchiveError, DrafterError, StorageError)) else None
