"""`outrider export` and `outrider import`: conversations out of the database and into it.

Data goes to stdout, messages to stderr. Output and exit codes are an interface.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.archive.formats import ENDINGS, Format
from app.cli import completion
from app.cli.settings import settings_with
from app.exits import FAILED, OK, USAGE, complain, fail

if TYPE_CHECKING:
    from app.archive.importer import ImportReport, ImportResult
    from app.config import Folders, Settings

ChosenFormat = Annotated[
    Format | None,
    typer.Option(
        "--format", help="json is lossless and can be imported again. Default: by the name of FILE, or else md."
    ),
]


def export(
    conversations: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Id, as `outrider history` lists it. Default: the last one.",
            autocompletion=completion.conversations,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Export all conversations.")] = False,
    format: ChosenFormat = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="File to write, or folder for a new file. Default: stdout."
        ),
    ] = None,
    branches: Annotated[
        bool,
        typer.Option("--branches", help="Export all branches, not only the one shown. json always has all of them."),
    ] = False,
) -> None:
    """Export conversations as Markdown, JSON or HTML."""
    out = None if out == Path("-") else out
    if everything and conversations:
        fail("Name conversations or give --all, not both.", USAGE)
    format = _format_for(out, format)
    settings, folders = settings_with()
    code = _export(out, conversations or [], settings, folders, format=format, everything=everything, branches=branches)
    raise typer.Exit(code)


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="File, or folder of an unpacked export. The format is detected from the content."
        ),
    ],
    again: Annotated[
        bool, typer.Option("--again", help="Also import copies of conversations that are already here.")
    ] = False,
) -> None:
    """Import conversations: exports from Outrider, ChatGPT or Claude, or databases of Outrider, llm or oterm."""
    _, folders = settings_with()
    raise typer.Exit(_import(files, folders, again=again))


def _format_for(path: Path | None, chosen: Format | None) -> Format:
    """The format to write to `path`. A file's name must not suggest another format than the file has."""
    ending = "" if path is None or os.path.isdir(path) else path.suffix.lower()
    if ending in ("", "."):  # Python 3.14 returns "." for a name that ends in a dot.
        return chosen or "md"
    known = ENDINGS.get(ending)
    if known is None and chosen is None:
        can = "an export ends in .md, .json or .html"
        fail(f"{path} cannot be written as {ending}: {can}. Or name the format with --format.", USAGE)
    if chosen is not None and known not in (None, chosen):
        fail(f"--format {chosen} contradicts the name {path}: leave out --format, or choose another name.", USAGE)
    return chosen or known or "md"


def print_conversation(beginning: str | None, format: Format) -> int:
    """Write one conversation to stdout, by default the last. Returns the exit code. Raises `StorageError`."""
    settings, folders = settings_with()
    ids = [] if beginning is None else [beginning]
    return _export(None, ids, settings, folders, format=format, everything=False, branches=False)


def _export(
    path: Path | None,
    ids: Sequence[str],
    settings: Settings,
    folders: Folders,
    *,
    format: Format,
    everything: bool,
    branches: bool,
) -> int:
    """Export to a file, a folder or stdout (None); without ids, the most recently written conversation.

    Returns the exit code. Raises `ArchiveError`, `StorageError`.
    """
    from app.archive.exporter import every_conversation, export_conversations, write_to
    from storage import Store

    with Store.read(folders.database) as store:
        chosen = list(dict.fromkeys(store.conversations.find(beginning).id for beginning in ids))
        if everything:
            chosen = every_conversation(store)
        elif not chosen:
            chosen = [newest.id for newest in store.conversations.recent(1)]
            if not chosen:
                complain("there is no conversation to export")
                return FAILED
        if path is None:
            sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # Whatever the terminal's is.
            write_to(sys.stdout, store, chosen, format, settings=settings, branches=branches)
        else:
            written = export_conversations(store, chosen, format, path, settings=settings, branches=branches)
            complain(f"{_count(len(chosen), 'conversation')} in {written}")
    return OK


def _import(paths: Sequence[Path], folders: Folders, *, again: bool) -> int:
    """Import files; print the id of each conversation and its result.

    Returns the exit code. Raises `StorageError`.
    """
    from app.archive.errors import ArchiveError
    from app.archive.importer import import_file
    from storage import Store

    code = OK
    with Store.open(folders.database) as store:
        for path in paths:
            read: list[ImportResult] = []

            def heard(result: ImportResult, read: list[ImportResult] = read) -> None:
                _print(result)
                read.append(result)

            try:
                report = import_file(store, path, again=again, heard=heard)
            except ArchiveError as error:
                complain(str(error))
                if read:
                    complain(f"what comes before in {path} was read: {_count(len(read), 'conversation')}")
                code = FAILED
                continue
            for sentence in summary(report, path):
                complain(sentence)
            if any(result.outcome == "failed" for result in report.results):
                code = FAILED
    return code


def summary(report: ImportReport, path: Path) -> Iterator[str]:
    """Sentences that say what a file held and what became of it."""
    from app.sanitise import sanitise

    outcomes = Counter(result.outcome for result in report.results)
    added = sum(result.messages for result in report.results)
    parts = [f"{outcomes['new']} imported"]
    if outcomes["added"]:
        parts.append(f"{outcomes['added']} continued")
    if outcomes["same"]:
        parts.append(f"{outcomes['same']} already here")
    if outcomes["failed"]:
        parts.append(f"{outcomes['failed']} not imported")
    yield (
        f"{path}: {report.kind}, {_count(len(report.results), 'conversation')}: "
        f"{', '.join(parts)}; {_count(added, 'message')}"
    )
    if queued := sum(result.queued for result in report.results):
        yield f"{_count(queued, 'entry', 'entries')} added to the queue: `outrider queue` lists them"
    if report.left_out:
        parts = [f"{number} {what}" for what, number in sorted(report.left_out.items())]
        yield f"left out: {', '.join(parts)}"
    for result in report.results:
        if result.outcome == "failed":
            yield f"not imported: {_title(result)}: {sanitise(result.problem)}"


def _print(result: ImportResult) -> None:
    if result.conversation_id is not None:
        print(result.conversation_id, result.outcome, _title(result), sep="  ")


def _title(result: ImportResult) -> str:
    from app.sanitise import one_line

    return one_line(result.title) or "(untitled)"


def _count(number: int, thing: str, things: str = "") -> str:
    return f"{number} {thing if number == 1 else things or thing + 's'}"
