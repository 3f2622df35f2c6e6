"""Options that several commands share."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from app.cli import completion
from app.files import NotText, expanded, read_text
from remote.credentials import bearer_token

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
Remote = Annotated[
    str | None,
    typer.Option(
        "--remote",
        metavar="NAME|URL",
        help="Server to use: a name from `outrider remote list`, or an address.",
        autocompletion=completion.remotes,
    ),
]


Model = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="NAME", help="Model to use, as `outrider models` lists it. Default: the server's first."
    ),
]


Local = Annotated[
    str | None,
    typer.Option(
        "--local",
        metavar="NAME",
        help="Model on this device that answers while the server is away: a name from `outrider local list`.",
        autocompletion=completion.local_models,
    ),
]


def _token_in(file: str) -> str:
    """The token in a file. It is never an argument itself, because every program on this device can read arguments."""
    try:
        return bearer_token(read_text(expanded(file)))
    except NotText as error:
        raise typer.BadParameter(f"{file} {error}") from None
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise typer.BadParameter(f"{file}: {error}") from None


Token = Annotated[
    str | None,
    typer.Option(
        "--token-file", metavar="FILE", parser=_token_in, help="File with the token for the address in --remote."
    ),
]

AllowOrigin = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-origin",
        metavar="ORIGIN",
        help="Origin of web pages to answer, such as https://chat.example or app://obsidian.md. May be repeated. "
        "Default: every origin with --token-file, otherwise none.",
    ),
]

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def _byte_count(size: str) -> int:
    """The bytes of a size such as `300MB` or `1.5 GB`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMG]?B)", size.strip(), re.IGNORECASE)
    if found is None:
        raise typer.BadParameter(f"{size} is not a size: give one such as 300MB or 1.5GB")
    return round(float(found[1]) * _UNITS[found[2].upper()])


Budget = Annotated[
    int,
    typer.Option(
        "--budget", metavar="SIZE", parser=_byte_count, help="Maximum size of a new drafter on a device, such as 300MB."
    ),
]
BUDGET = "300MB"

TemplateName = Annotated[
    str | None,
    typer.Option(
        "--template",
        "-t",
        metavar="NAME",
        help="Template for the question: templates/NAME.md in the settings folder, where $input is the question.",
        autocompletion=completion.templates,
    ),
]
System = Annotated[
    str | None,
    typer.Option(
        "--system",
        "-s",
        metavar="NAME|TEXT",
        help="System prompt: a name from `outrider system list`, or else the text itself. The conversation keeps it. "
        "none: no system prompt.",
        autocompletion=completion.system_prompts,
    ),
]
