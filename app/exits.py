"""How the program ends: exit codes, and one sentence for everything that it foresees.

Exit codes are an interface: 0 ok, 1 failed, 2 usage, 3 could not connect, 130 interrupted.
Imports next to nothing: `outrider --version` comes through here too.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.config import Folders, Settings

OK, FAILED, USAGE, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 130
GO_ON = 'the key g on the answer, in the chat; or outrider ask -c "go on"'
"""How a person goes on with an answer that is not whole."""
ANEW = "start a new conversation"
"""Where no more of one can be read."""
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What the system says where output goes to a file that takes no more."""


def settings_with(**options: object) -> tuple[Settings, Folders]:
    """Settings with the command line's own on top; the log is open from here on. Raises `ConfigError`."""
    from app.config import ConfigError, Folders, is_address, load_settings
    from app.log import open_log

    folders = Folders.locate()
    given = {name: value for name, value in options.items() if value is not None}
    loaded = load_settings(folders)
    settings = loaded.replaced(given, "the command line")
    if "token" in given and not is_address(settings.remote or ""):
        raise ConfigError(
            "--token-file goes with the address of a server; a remote that has a name keeps a token of its own"
        )
    open_log(folders.log, settings.log, [loaded.token or "", settings.token or ""])
    if loaded.token and settings.token is None and is_address(settings.remote or "") and not loaded.remote:
        complain(
            "The token of OUTRIDER_TOKEN or config.toml is not sent: it belongs to an address in OUTRIDER_REMOTE or "
            "config.toml, and there is none. Set one, or give --token-file."
        )
    return settings, folders


def run(work: Coroutine[Any, Any, int]) -> int:
    import asyncio

    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        return INTERRUPTED


def complain(sentence: str) -> None:
    from app.sanitise import sanitise

    print(f"outrider: {sanitise(sentence)}", file=sys.stderr, flush=True)


def guarded(command: Callable[[], object]) -> None:
    """Run a command: what the program foresees ends in one sentence, everything else is a bug and shows itself."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # A terminal that is not UTF-8 gets a question mark, nobody a bug.
            stream.reconfigure(errors="replace")
    try:
        try:
            command()
        finally:  # Here, where a reader that has gone is understood; at exit, Python would complain of it.
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # Whoever reads our stdout has seen enough.
        _give_up_stdout()
        sys.exit(FAILED)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NOT_WRITTEN and error.filename is None:
            _give_up_stdout()
            complain(f"The output could not be written to its end: {error.strerror}.")
            sys.exit(FAILED)
        if (code := code_of(error)) is None:
            import logging

            logging.getLogger("outrider").critical("a bug", exc_info=error)
            raise
        complain(str(error))
        sys.exit(code)


def _open_streams() -> None:
    """Put nothing in the place of a stream that is closed: the database would be opened there, and written into."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The lowest number that is free.
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def _give_up_stdout() -> None:
    """Python must not flush into it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def code_of(error: Exception) -> int | None:
    """The exit code of an error that a person can mend, whose text says how; None for a bug."""
    from app.archive.errors import ArchiveError
    from app.cli.drafter_tools import DrafterFailed
    from app.config import ConfigError
    from app.prompts import PromptsError
    from drafter.config import DrafterError
    from remote import Misconfigured
    from storage import StorageError

    if isinstance(error, (ConfigError, PromptsError, Misconfigured)):
        return USAGE
    return FAILED if isinstance(error, (ArchiveError, DrafterError, StorageError, DrafterFailed)) else None
