"""`outrider export` and `outrider import`: conversations out of the database and into it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from app import completing
from app.command import USAGE, fail, settings_with

Format = Annotated[
    Literal["md", "json", "html"] | None,
    typer.Option("--format", help="json loses nothing and can be imported again. Default: as FILE ends, else md."),
]


def export(
    conversations: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="As `outrider history` lists it. Default: the last.",
            autocompletion=completing.conversations,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every conversation.")] = False,
    format: Format = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="In a folder: under a new name. Default: stdout."),
    ] = None,
    branches: Annotated[
        bool, typer.Option("--branches", help="All branches, not the shown one only; json always has all.")
    ] = False,
) -> None:
    """Write conversations as Markdown, JSON or HTML."""
    out = None if out == Path("-") else out
    if everything and conversations:
        fail("Name conversations or give --all, not both.", USAGE)
    settings, folders = settings_with()
    from app.archive.moving import export_to

    raise typer.Exit(
        export_to(
            out,
            conversations or [],
            settings,
            folders,
            format=format or _format_of(out),
            everything=everything,
            branches=branches,
        )
    )


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="What it is, is told by what is in it.")],
    again: Annotated[
        bool, typer.Option("--again", help="Import copies of conversations that are there already, too.")
    ] = False,
) -> None:
    """Read conversations: Outrider's JSON or database, a ChatGPT export, the files of llm and oterm."""
    _, folders = settings_with()
    from app.archive.moving import import_from

    raise typer.Exit(import_from(files, folders, again=again))


def _format_of(path: Path | None) -> Literal["md", "json", "html"]:
    match "" if path is None else path.suffix.lower():
        case ".json":
            return "json"
        case ".html" | ".htm":
            return "html"
    return "md"
