"""What `outrider export` and `outrider import` do: data on stdout, talk on stderr.

Their output and exit codes are an interface.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.archive.errors import ArchiveError
from app.archive.exporter import Format, every_conversation, export_conversations, write_to
from app.archive.importer import Report, Result, import_file
from app.config import Folders, Settings
from app.exits import FAILED, OK, complain
from app.sanitise import sanitise
from storage import Store


def export_to(
    path: Path | None,
    ids: Sequence[str],
    settings: Settings,
    folders: Folders,
    *,
    format: Format,
    everything: bool,
    branches: bool,
) -> int:
    """Without ids the conversation that was written to last. Raises `ArchiveError`, `StorageError`."""
    with Store.open(folders.database) as store:
        chosen = list(dict.fromkeys(ids))
        if everything:
            chosen = every_conversation(store)
        elif not chosen:
            chosen = [found.id for found in store.conversations.recent(1)]
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


def import_from(paths: Sequence[Path], folders: Folders, *, again: bool) -> int:
    """The id of each conversation on stdout, with what became of it; returns the exit code. Raises `StorageError`."""
    code = OK
    with Store.open(folders.database) as store:
        for path in paths:
            try:
                report = import_file(store, path, again=again, heard=_print)
            except ArchiveError as error:
                complain(str(error))
                code = FAILED
                continue
            for sentence in told(report, path):
                complain(sentence)
            if any(result.outcome == "failed" for result in report.results):
                code = FAILED
    return code


def told(report: Report, path: Path) -> Iterator[str]:
    """What was found in a file and what became of it, in sentences."""
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
        yield f"{_count(queued, 'entry', 'entries')} of the queue came along: `outrider queue` lists what waits"
    if report.left_out:
        parts = [f"{number} {what}" for what, number in sorted(report.left_out.items())]
        yield f"left out: {', '.join(parts)}"
    for result in report.results:
        if result.outcome == "failed":
            yield f"not imported: {_title(result)}: {sanitise(result.problem)}"


def _print(result: Result) -> None:
    if result.conversation_id is not None:
        print(result.conversation_id, result.outcome, _title(result), sep="  ")


def _title(result: Result) -> str:
    return " ".join(sanitise(result.title).split()) or "(untitled)"


def _count(number: int, thing: str, things: str = "") -> str:
    return f"{number} {thing if number == 1 else things or thing + 's'}"
