"""What the commands share: options that several take, and how they end."""

from __future__ import annotations

from typing import Annotated, NoReturn

import typer

from app import completing
from app.ending import FAILED, INTERRUPTED, OK, UNREACHABLE, USAGE, complain, run, settings_with

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
Token = Annotated[str | None, typer.Option("--token", help="Bearer token for a --remote URL; better: OUTRIDER_TOKEN.")]


def fail(sentence: str, code: int) -> NoReturn:
    complain(sentence)
    raise typer.Exit(code)
