"""`outrider fix`: a fix for the last command, in the next line of the shell or on stdout."""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from itertools import chain
from typing import Annotated

import typer

from app.cli.handover import hand_over
from app.cli.piped import PIPE_SECONDS, WAITING, told_after
from app.exits import FAILED, USAGE, complain, fail
from app.files import current_folder

LAST_COMMAND, LAST_CODE = "OUTRIDER_LAST_COMMAND", "OUTRIDER_LAST_CODE"
"""Variables in which the shell integration passes the last command."""
MOST_READ = 1 << 16
"""Number of last characters of piped text that are read: a failing command says at its end what is wrong."""
TO_FIX = re.compile(r"\s*(?:\d?>&?\d?\s*)*\|&?\s*(?:\S*/)?outrider\s+fix\b.*\Z", re.S)
SAME_ERRORS = re.compile(r"\s*2>&1\s*\Z")


def fix(
    command: Annotated[
        str | None,
        typer.Argument(metavar="[COMMAND]", help="The command that failed. Default: the last one in this shell."),
    ] = None,
    code: Annotated[int | None, typer.Option(metavar="N", help="Exit code of that command.")] = None,
) -> None:
    """Propose a fix for the last command that failed. It appears in the next command line or on stdout, and is not run.

    The shell integration (outrider shell) knows the command and its exit code, but not its output. To provide the
    output, pipe it in:

    \b
    make 2>&1 | outrider fix
    """
    error = _piped()
    given = command if command is not None else os.environ.get(LAST_COMMAND, "")
    failed = TO_FIX.sub("", given) if command is None else given
    failed = SAME_ERRORS.sub("", failed).strip()
    status = code if code is not None or command is not None else _last_code()
    if not failed:
        known = LAST_COMMAND in os.environ
        advice = "" if known else ' The shell integration knows the last command: eval "$(outrider shell bash)"'
        fail(f'No failed command is known. Name it: outrider fix "gti status".{advice}', USAGE)
    if status == 0 and not error:
        fail(f"The last command succeeded: {failed}", FAILED)

    from app.shell.mends import Failure, mend

    cwd, path = str(current_folder()), os.environ.get("PATH", "")
    found = mend(Failure(failed, status, error, cwd, path))
    if found is not None:
        _propose(found.command, found.why)
    else:
        _propose(*_of_the_model(failed, status, error))


def _of_the_model(failed: str, status: int | None, error: str) -> tuple[str, str]:
    """A fix by the model, and a note about it."""
    from app.shell.connection import NoHelper, ask, request
    from app.shell.place import NoPlace

    shell = os.path.basename(os.environ.get("SHELL", ""))
    fields = {"status": status, "error": error, "shell": shell if shell in ("bash", "zsh", "fish") else ""}
    try:
        conversation = ask(request("fix", failed, **fields))
        reply = conversation.reply(None) or {}
    except (NoHelper, NoPlace) as problem:
        fail(str(problem), FAILED)
    except ConnectionError:
        fail("The shell helper ended. Try again.", FAILED)
    if "error" in reply:
        fail(str(reply["error"]), FAILED)
    return str(reply["text"]), str(reply["note"])


def _propose(mended: str, why: str) -> None:
    complain(why)
    hand_over(mended, os.environ)


def _last_code() -> int | None:
    text = os.environ.get(LAST_CODE, "")
    return int(text) if text.isdecimal() else None


def _piped() -> str:
    """The end of the piped text. A person at a terminal sees all of it as it arrives."""
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    lines = iter(partial(sys.stdin.readline, MOST_READ), "")  # A line may be endless.
    with told_after(PIPE_SECONDS, WAITING):
        first = next(lines, "")
    kept = ""
    for line in chain([first], lines):
        if sys.stderr.isatty():
            sys.stderr.write(line)
        kept = (kept + line)[-MOST_READ:]
    return kept
