"""The console script: shortcuts to the version, the chat and an answer, and the full command line for the rest.

The command line takes 0.3 s to import and build, with typer. The shortcuts have no options to parse.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from app.exits import guarded
        from app.version import version_line

        guarded(lambda: print(version_line()))
    elif arguments in ([], ["chat"]) and not _asked_by_a_shell():
        _prepare()
        from app.cli.chat import chat
        from app.exits import guarded

        guarded(lambda: sys.exit(chat()))
    elif arguments[:1] == ["ask"] and arguments[1:] and _only_words(arguments[1:]) and not _asked_by_a_shell():
        _prepare()
        from app.cli.question import answer
        from app.cli.settings import AskOptions
        from app.exits import guarded

        guarded(lambda: sys.exit(answer(arguments[1:], AskOptions())))
    else:
        from app.exits import guarded

        guarded(_command_line)  # The import is guarded too, because an interrupt may come at any time.


def _prepare() -> None:
    """Set what libraries read when they are imported."""
    from models.cores import keep_cores_free
    from models.telemetry import switch_off

    switch_off()
    keep_cores_free()


def _only_words(arguments: list[str]) -> bool:
    """Whether none of them is an option or `-`."""
    return not any(argument.startswith("-") for argument in arguments)


def _asked_by_a_shell() -> bool:
    from app.cli.settings import COMPLETION

    return COMPLETION in os.environ


def _command_line() -> None:
    from app.cli.__main__ import main as commands

    commands()


if __name__ == "__main__":
    main()
