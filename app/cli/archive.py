"""`outrider export` and `outrider import`: conversations out of the database and into it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli import completion as completing
from app.cli.options import USAGE, fail, settings_with

Format = Literal["md", "json", "html"]
ENDINGS: dict[str, Format] = {
    ".md": "md",
    ".markdown": "md",
    ".json": "json",
    ".html": "html",
    ".htm": "html",
}
ChosenFormat = Annotated[
    Format | None,
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
    format: ChosenFormat = None,
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
    format = _format_for(out, format)
    settings, folders = settings_with()
    from app.cli.archive_files import export_to

    raise typer.Exit(
        export_to(
            out,
            conversations or [],
            settings,
            folders,
            format=format,
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
    from app.cli.archive_files import import_from

    raise typer.Exit(import_from(files, folders, again=again))


def _format_for(path: Path | None, chosen: Format | None) -> Format:
    """What is written to `path`. A name must not promise another format than the one that is in the file."""
    ending = "" if path is None or path.is_dir() else path.suffix.lower()
    if ending in ("", "."):  # Python 3.14 has "." for a name that ends in a dot.
        return chosen or "md"
    known = ENDINGS.get(ending)
    if known is None and chosen is None:
        can = "an export ends in .md, .json or .html"
        fail(f"Nothing can be written as {ending}: {can}. Or say with --format what {path} is to hold.", USAGE)
    if chosen is not None and known not in (None, chosen):
        fail(f"--format {chosen} does not go into {path}: leave out --format, or choose another name.", USAGE)
    return chosen or known or "md"
