"""What the commands share: options that several take, and how they end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from app.cli import completion as completing
from app.exits import FAILED, INTERRUPTED, OK, UNREACHABLE, USAGE, complain, run, settings_with

__all__ = [
    "FAILED",
    "INTERRUPTED",
    "OK",
    "UNREACHABLE",
    "USAGE",
    "Remote",
    "Token",
    "complain",
    "fail",
    "run",
    "settings_with",
]

Remote = Annotated[
    str | None,
    typer.Option(
        "--remote",
        metavar="NAME|URL",
        help="A verifier, or OpenAI-compatible server.",
        autocompletion=completing.remotes,
    ),
]


def _token_in(file: str) -> str:
    """The token that a file holds: what an argument says, every program on this device can read."""
    try:
        token = Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise typer.BadParameter(f"{file} cannot be read: {reason}") from None
    if not token:
        raise typer.BadParameter(f"{file} holds no token")
    return token


Token = Annotated[
    str | None,
    typer.Option("--token-file", metavar="FILE", parser=_token_in, help="Bearer token of the address that is used."),
]


def fail(sentence: str, code: int) -> NoReturn:
    complain(sentence)
    raise typer.Exit(code)
