"""What every command does: read the settings, run its work, and end in one sentence and an exit code.

Imports as little as the command line itself.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from app.config import Folders, Settings

FAILED, USAGE, INTERRUPTED = 1, 2, 130

Remote = Annotated[
    str | None, typer.Option("--remote", metavar="NAME|URL", help="A verifier, or OpenAI-compatible server.")
]
Token = Annotated[str | None, typer.Option("--token", help="Bearer token for a --remote URL; better: OUTRIDER_TOKEN.")]


def settings_with(**options: object) -> tuple[Settings, Folders]:
    """Settings with the command line's own on top. Raises `ConfigError`."""
    from app.config import ConfigError, Folders, is_address, load_settings

    folders = Folders.locate()
    given = {name: value for name, value in options.items() if value is not None}
    settings = load_settings(folders).replaced(given, "the command line")
    if "token" in given and not is_address(settings.remote or ""):
        raise ConfigError("--token goes with the address of a server; a remote that has a name keeps one of its own")
    return settings, folders


def run(work: Coroutine[Any, Any, int]) -> int:
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        return INTERRUPTED


def complain(sentence: str) -> None:
    print(f"outrider: {sentence}", file=sys.stderr)


def fail(sentence: str, code: int) -> NoReturn:
    complain(sentence)
    raise typer.Exit(code)
