"""`outrider log`: what the program did. It works with broken settings too."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from app.exits import FAILED, INTERRUPTED, fail

LOOK_SECONDS = 0.5
"""Pause before the file is read again."""


def log(
    lines: Annotated[
        int, typer.Option("--lines", "-n", metavar="N", min=0, help="Number of last lines to print.")
    ] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl+C.")] = False,
    path: Annotated[bool, typer.Option("--path", help="Print only the path of the file.")] = False,
) -> None:
    """Print the log. It contains no secrets and, unless `log` is `debug`, nothing of your conversations."""
    from app.config import Folders
    from app.log import LogFile

    where = Folders.locate().log
    if path:
        print(where)
        raise typer.Exit
    file = LogFile(where)
    try:
        for line in file.last(lines):
            print(line, flush=follow)
        while follow:
            for line in file.new():
                print(line, flush=True)
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        fail(f"{where} cannot be read: {error.strerror}.", FAILED)
