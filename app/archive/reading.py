"""Files of any kind we know, told by what they hold, as conversations that can be stored one by one.

JSON      our own export, or what ChatGPT exports
ZIP       what ChatGPT sends, as it was downloaded
SQLite    the logs of `llm`, or a database of Outrider: another computer's, or a backup
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import struct
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

import msgspec

from app.archive import chatgpt, format, llm_logs, oterm, tree
from app.archive.errors import Unreadable, Unsuitable
from storage import StorageError, Store, Whole

LARGEST = 1 << 30
"""Bytes of JSON that are read at once; several times as much memory is needed for it."""
KINDS = (
    "Outrider's JSON, a ChatGPT export (.zip or .json), the logs.db of llm, the store.db of oterm, "
    "or a database of Outrider"
)


class Found(NamedTuple):
    """One conversation of a file."""

    title: str
    read: Callable[[], tuple[Whole, Counter[str]]]
    """The conversation, and what of it is left out. Raises `Unsuitable`."""


class Result(NamedTuple):
    """What became of one conversation of a file."""

    title: str
    outcome: Literal["new", "added", "same", "failed"]
    conversation_id: str | None = None
    messages: int = 0
    """How many were added."""
    queued: int = 0
    problem: str = ""


@dataclass
class Report:
    kind: str
    """What the file is, in words."""
    results: list[Result] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """What of the imported conversations was not, and how often."""


def import_file(
    store: Store, path: Path, *, again: bool = False, heard: Callable[[Result], None] | None = None
) -> Report:
    """Stores every conversation of a file that can be, each in a transaction of its own.

    `again`: as copies, even of what is there already. `heard` is told of each as it is done; it may be called off the
    main thread. Raises `Unreadable` for a file that is none of `KINDS`, `StorageError`.
    """
    with opened(path, store.path) as (kind, conversations):
        report = Report(kind)
        places: list[tuple[int, str]] = []
        for found in conversations:
            try:
                whole, left_out = found.read()
            except Unsuitable as error:
                result = Result(found.title, "failed", problem=str(error))
            else:
                put = store.put(whole, copy=again)
                places += zip((queued.place for queued in whole.queue), put.queued)
                result = Result(
                    whole.conversation.title, put.outcome, put.conversation_id, put.messages, len(put.queued)
                )
                if put.outcome != "same":
                    report.left_out += left_out
            report.results.append(result)
            if heard is not None:
                heard(result)
        if places:  # Prompts of several conversations wait in one queue.
            store.order_queued([queued_id for _, queued_id in sorted(places, key=itemgetter(0))])
    return report


@contextlib.contextmanager
def opened(path: Path, database: Path) -> Iterator[tuple[str, Iterator[Found]]]:
    """What a file is, and its conversations. `database` is the one in use, which is no import. Raises `Unreadable`,
    the conversations too."""
    with contextlib.ExitStack() as stack:
        with _explained(path):
            kind, conversations = _open(path, database, stack)
        yield kind, _read(conversations, path)


def _open(path: Path, database: Path, stack: contextlib.ExitStack) -> tuple[str, Iterator[Found]]:
    with path.open("rb") as file:
        start = file.read(16)
    if start.startswith(b"SQLite format 3\0"):
        return _sqlite(path, database, stack)
    if start.startswith(b"PK\x03\x04"):
        return "ChatGPT export", _zipped(stack.enter_context(zipfile.ZipFile(path)), path)
    if path.stat().st_size > LARGEST:
        raise Unreadable(f"{path} is larger than {LARGEST >> 20} MiB; export fewer conversations at once.")
    return _json(path.read_bytes(), path)


def _read(conversations: Iterator[Found], path: Path) -> Iterator[Found]:
    with _explained(path):
        yield from conversations


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror or error}. Check its name and permissions.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        if type(error) is RuntimeError and "encrypted" not in str(error):
            raise  # A kind of compression that is not known is another kind of it.
        raise Unreadable(f"{path} is damaged or locked ({error}); download it again.") from None
    except sqlite3.Error as error:
        raise Unreadable(f"{path} cannot be read ({error}); close the program that uses it, or take a copy.") from None


# ---- JSON ------------------------------------------------------------------------------------------------------------


def _json(data: bytes, path: Path) -> tuple[str, Iterator[Found]]:
    data = data.removeprefix(b"\xef\xbb\xbf")
    if format.is_ours(data):
        return "Outrider export", map(_ours, format.decode(data, str(path)))
    document = _document(data, str(path))
    if chatgpt.is_chatgpt(document):
        return "ChatGPT export", _from_chatgpt(document)
    raise Unreadable(f"{path} is not a file that can be imported: that is {KINDS}.")


def _document(data: bytes, name: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{name} is not a file that can be imported ({error}): that is {KINDS}.") from None


def _ours(raw: msgspec.Raw) -> Found:
    return Found(format.title(raw), lambda: (format.conversation(raw), Counter()))


def _from_chatgpt(document: Any) -> Iterator[Found]:
    for item in document if isinstance(document, list) else [document]:
        title = item.get("title") if isinstance(item, dict) else None
        yield Found(title if isinstance(title, str) else "", partial(_told_by_chatgpt, item))


def _told_by_chatgpt(item: object) -> tuple[Whole, Counter[str]]:
    return _foreign(chatgpt.conversation(item))


def _foreign(foreign: tree.Foreign) -> tuple[Whole, Counter[str]]:
    return tree.whole(foreign), foreign.left_out


def _zipped(archive: zipfile.ZipFile, path: Path) -> Iterator[Found]:
    """Of `conversations.json`, or of the several files that a long history is exported as."""
    members = [info for info in archive.infolist() if PurePosixPath(info.filename).suffix == ".json"]
    named = [info for info in members if PurePosixPath(info.filename).name.startswith("conversations")]
    known = False
    for info in named or members:
        if info.file_size > LARGEST:
            raise Unreadable(f"{info.filename} in {path} is larger than {LARGEST >> 20} MiB, more than can be read.")
        document = _document(archive.read(info), f"{info.filename} in {path}")
        if chatgpt.is_chatgpt(document) or (named and document == []):
            known = True
            yield from _from_chatgpt(document)
    if not known:
        raise Unreadable(f"{path} holds no conversations.json, so it is no export of ChatGPT.")


# ---- SQLite ----------------------------------------------------------------------------------------------------------


def _sqlite(path: Path, database: Path, stack: contextlib.ExitStack) -> tuple[str, Iterator[Found]]:
    """From a copy: neither another program's writing nor our own migrations touch the file."""
    if database.exists() and path.samefile(database):
        raise Unreadable(f"{path} is the database in use; there is nothing to import from it.")
    copied = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outrider-import-"))) / "copy.db"
    copy = stack.enter_context(closing(sqlite3.connect(copied, check_same_thread=False)))
    with closing(sqlite3.connect(_address(path), uri=True)) as source:
        source.backup(copy)
    tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if {"_sqlite_migrations", "conversations", "messages"} <= tables:
        copy.close()
        return "database of Outrider", _from_outrider(copied, path)
    if llm_logs.is_llm(tables):
        return "logs of llm", _from_elsewhere(llm_logs.conversations(copy))
    if oterm.is_oterm(tables):
        return "chats of oterm", _from_elsewhere(oterm.conversations(copy, path.stat().st_mtime))
    raise Unreadable(f"{path} is a database of another program; what can be imported is {KINDS}.")


def _address(path: Path) -> str:
    """Where it is opened from. Without its side files nobody has it open, and then opening it leaves none either."""
    used = any(path.with_name(path.name + side).exists() for side in ("-wal", "-journal"))
    return f"{path.absolute().as_uri()}?{'mode=ro' if used else 'immutable=1'}"


def _from_elsewhere(conversations: Iterator[tree.Foreign]) -> Iterator[Found]:
    for foreign in conversations:
        yield Found(foreign.title, partial(_foreign, foreign))


def _from_outrider(copied: Path, path: Path) -> Iterator[Found]:
    try:
        store = Store.open(copied)
    except StorageError as error:
        raise Unreadable(str(error).replace(str(copied), str(path))) from None
    with closing(store):
        for conversation in reversed(store.conversations()):
            yield Found(str(conversation.title), partial(_stored, store, conversation.id))


def _stored(store: Store, conversation_id: str) -> tuple[Whole, Counter[str]]:
    """As far as our own JSON could hold it: a database, too, may have been made by somebody else to do harm."""
    try:
        return format.checked(store.whole(conversation_id)), Counter()
    except (StorageError, msgspec.MsgspecError, struct.error, TypeError, ValueError):
        raise Unsuitable("its rows cannot be read; the database is damaged") from None
