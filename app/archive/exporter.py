"""Writes exports to a file or to stdout. A file is either complete or unchanged."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import TextIO, assert_never

from app.archive.errors import Unwritable
from app.archive.formats import Format
from app.archive.html_markdown import Decode
from app.config import Folders, Settings
from app.files import create_private, replace_file
from app.sanitise import sanitise
from app.version import version_line
from storage import Conversation, Store

SLUG_LENGTH = 40


def export_conversations(
    store: Store,
    ids: Sequence[str],
    format: Format,
    path: Path | None = None,
    *,
    settings: Settings | None = None,
    branches: bool = False,
) -> Path:
    """Writes conversations to one file that only this account can read, and returns its path.

    If `path` is a folder, the file gets a new name there (`new_file`), or without `path`, in `export_folder`. An
    existing file is replaced. `branches` writes all branches instead of the shown one; JSON always has all. May be
    called off the main thread. Raises `Unwritable`, `StorageError`.
    """
    pieces = export_pieces(store, ids, format, settings=settings or Settings(), branches=branches)
    wanted = path
    path = export_folder(Folders.locate()) if path is None else path
    try:
        if wanted is None:
            path.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            title = store.conversations.get(ids[0]).title if len(ids) == 1 else f"{len(ids)} conversations"
            with new_file(path, title, format) as created:
                return _write(pieces, created)
        return _write(pieces, path)
    except OSError as error:
        raise Unwritable(f"{path} cannot be written: {error.strerror or error}. Nothing was exported.") from None


def write_to(
    out: TextIO, store: Store, ids: Sequence[str], format: Format, *, settings: Settings, branches: bool = False
) -> None:
    """Writes conversations to an open file. Raises `OSError`, `StorageError`."""
    for piece in export_pieces(store, ids, format, settings=settings, branches=branches):
        out.write(piece)
    out.flush()


def export_pieces(
    store: Store, ids: Sequence[str], format: Format, *, settings: Settings, branches: bool
) -> Iterator[str]:
    """The file in pieces, with one conversation in memory at a time. Raises `NotFound` before the first piece."""
    titles: list[Conversation] = [store.conversations.get(identifier) for identifier in ids]
    conversations = (store.transfer.whole(identifier) for identifier in ids)
    if format == "json":
        from app.archive.outrider_json import encode

        return encode(conversations, settings, version_line())
    if format == "html":
        from app.archive.html import page

        return page(conversations, titles, every=branches, decoder=cache(lambda: decoder(Path(settings.drafter))))
    if format == "md":
        from app.archive.markdown import render

        return render(conversations, titles, every=branches)
    assert_never(format)


def every_conversation(store: Store) -> list[str]:
    """The ids of all conversations outside the bin, oldest first, so that an import restores their order."""
    return [found.id for found in reversed(store.conversations.recent(most=sys.maxsize))]


def export_folder(folders: Folders) -> Path:
    """The folder for exports without a path, in the person's documents. It may not exist yet."""
    if os.environ.get("OUTRIDER_HOME"):
        return folders.data.parent / "exports"
    from platformdirs import user_documents_path

    return user_documents_path() / "Outrider"


@contextlib.contextmanager
def new_file(folder: Path, title: str, format: Format) -> Iterator[Path]:
    """Creates a file that did not exist, named after the title and the day. It is removed if the block fails."""
    words = re.findall(r"\w+", sanitise(title).lower())
    slug = "-".join(words)[:SLUG_LENGTH].strip("-") or "conversation"
    # 40 letters are at most 160 bytes; a file name may have 255.
    name = f"{slug}-{date.today().isoformat()}"
    number = 1
    while True:
        path = folder / (f"{name}.{format}" if number == 1 else f"{name}-{number}.{format}")
        try:
            create_private(path, exclusive=True)
            break
        except FileExistsError:
            number += 1
    try:
        yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def decoder(drafter: Path) -> Decode | None:
    """A drafter's function from tokens to text, or None if there is no such drafter."""
    from models.config import DrafterError
    from models.text.chat_text import ChatText

    try:
        return ChatText.load(drafter).decode
    except (DrafterError, OSError):
        return None


def _write(pieces: Iterable[str], path: Path) -> Path:
    # A pipe or a device is written to, never replaced. A pipe without a name is lost once its path is resolved.
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as out:
            out.writelines(pieces)
        return path
    path = path.resolve()  # A link stays a link.
    replace_file(path, pieces)
    return path
