"""The console script: short ways to the version and to the chat's first frame, and the command line for all else.

Reading a command line takes typer, which takes 60 to 150 ms to import; neither short way has anything to read.
"""

from __future__ import annotations

import os
import sys

COMPLETION = "_OUTRIDER_COMPLETE"
"""Set by a shell that asks what could come next; it passes no arguments."""


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from app.exits import guarded
        from app.version import version_line

        guarded(lambda: print(version_line()))
    elif arguments in ([], ["chat"]) and COMPLETION not in os.environ:
        from app.cli.chat import chat
        from app.exits import guarded
        from drafter.telemetry import switch_off

        switch_off()
        guarded(lambda: sys.exit(chat()))
    else:
        from app.exits import guarded

        guarded(_command_line)  # Also while it is imported: an interrupt may come at any time.


def _command_line() -> None:
    from app.cli.__main__ import main as commands

    commands()


if __name__ == "__main__":
    main()
