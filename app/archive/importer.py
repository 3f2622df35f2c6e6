"""Files of any kind we know, told by what they hold, as conversations that can be stored one by one.

JSON      our own export, or what ChatGPT exports
ZIP       what ChatGPT sends, as it was downloaded
SQLite    the logs of `llm`, or a database of Outrider: another computer's, or a backup
"""

from __future__ import annotations

import contextlib
import sqlite3
import struct
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, NamedTuple

import msgspec

from app.archive import chatgpt, llm_logs, oterm
from app.archive import foreign as tree
from app.archive import outrider_json as format
from app.archive.errors import KINDS, Unreadable, Unsuitable
from app.archive.json_stream import elements
from storage import StorageError, Store, WholeConversation

LARGEST = 1 << 30
"""Bytes of JSON in one file, or in all files of an archive."""
MOST_MEMBERS = 10_000
"""Files of an archive that may hold conversations."""
RATIO = 200
"""How much smaller an archive makes a file at most. JSON of conversations gets 5 to 30 times smaller."""
TITLE_LENGTH = 100
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What ChatGPT uses; only these are undone piece by piece, so that no piece is larger than what was asked for."""


class Found(NamedTuple):
    """One conversation of a file."""

    title: str
    read: Callable[[], tuple[WholeConversation, Counter[str]]]
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
                put = store.transfer.put(whole, copy=again)
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
            store.queue.order([queued_id for _, queued_id in sorted(places, key=itemgetter(0))])
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
    if path.exists() and not path.is_file():  # A device may have no end, and a pipe cannot be read twice.
        raise Unreadable(f"{path} is not a file. Save what it gives into one, and import that.")
    with path.open("rb") as file:
        start = file.read(16)
    if start.startswith(b"SQLite format 3\0"):
        return _sqlite(path, database, stack)
    if start.startswith(b"PK\x03\x04"):
        return "ChatGPT export", _zipped(stack.enter_context(zipfile.ZipFile(path)), path)
    if path.stat().st_size > LARGEST:
        raise Unreadable(f"{path} is larger than {LARGEST >> 20} MiB; export fewer conversations at once.")
    return _json(stack.enter_context(path.open("rb")), path)


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


def _json(file: IO[bytes], path: Path) -> tuple[str, Iterator[Found]]:
    if not file.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        file.seek(0)
        data = file.read().removeprefix(b"\xef\xbb\xbf")
        if format.is_ours(data):
            return "Outrider export", map(_ours, format.decode(data, str(path)))
    file.seek(0)
    return "ChatGPT export", _from_list(file, path)


def _from_list(file: IO[bytes], path: Path) -> Iterator[Found]:
    if not (yield from _from_chatgpt(elements(file.read, str(path)))):
        raise Unreadable(f"{path} is not a file that can be imported: that is {KINDS}.")


def _ours(raw: msgspec.Raw) -> Found:
    return Found(format.title(raw), lambda: (format.conversation(raw), Counter()))


def _from_chatgpt(items: Iterator[Any], *, may_be_empty: bool = False) -> Generator[Found, None, bool]:
    """The conversations of one file, and in the end whether it is one of ChatGPT's, which one of them has to show."""
    known, empty = False, True
    waiting: list[str] = []
    for item in items:
        empty = False
        title = item.get("title") if isinstance(item, dict) else None
        title = title if isinstance(title, str) else ""
        if not known and not chatgpt.is_chatgpt(item):
            waiting.append(title[:TITLE_LENGTH])
            continue
        known = True
        while waiting:
            yield Found(waiting.pop(0), partial(_told_by_chatgpt, None))
        yield Found(title, partial(_told_by_chatgpt, item))
    return known or (may_be_empty and empty)


def _told_by_chatgpt(item: object) -> tuple[WholeConversation, Counter[str]]:
    return _foreign(chatgpt.conversation(item))


def _foreign(foreign: tree.Foreign) -> tuple[WholeConversation, Counter[str]]:
    return tree.whole(foreign), foreign.left_out


def _zipped(archive: zipfile.ZipFile, path: Path) -> Iterator[Found]:
    """Of `conversations.json`, or of the several files that a long history is exported as."""
    members = [info for info in archive.infolist() if PurePosixPath(info.filename).suffix == ".json"]
    named = [info for info in members if PurePosixPath(info.filename).name.startswith("conversations")]
    chosen = named or members
    if len(chosen) > MOST_MEMBERS:
        raise Unreadable(f"{path} holds more than {MOST_MEMBERS:,} files of conversations, which no export does.")
    known, left = False, LARGEST
    for info in chosen:
        name = f"{info.filename} in {path}"
        if info.compress_type not in COMPRESSIONS:
            raise Unreadable(
                f"{name} is compressed in a way that ChatGPT does not use; unpack it, and import the file."
            )
        with archive.open(info) as member:
            reader = _Bounded(member, name, min(left, RATIO * info.compress_size + (RATIO << 16)), left)
            known |= yield from _from_chatgpt(elements(reader.read, name), may_be_empty=bool(named))
        left -= reader.count
    if not known:
        raise Unreadable(f"{path} holds no conversations.json, so it is no export of ChatGPT.")


class _Bounded:
    """A file of an archive, read no further than so many bytes, whatever the archive says of its size."""

    def __init__(self, file: IO[bytes], name: str, most: int, left: int) -> None:
        self._file = file
        self._name = name
        self._most = most
        self._left = left
        self.count = 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.count += len(data)
        if self.count > self._left:
            raise Unreadable(f"{self._name} is larger than {LARGEST >> 20} MiB, more than can be read.")
        if self.count > self._most:
            raise Unreadable(f"{self._name} is compressed more than {RATIO} times, which no text is; it is not read.")
        return data


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
    with store:
        for conversation in reversed(store.conversations.all()):
            yield Found(str(conversation.title), partial(_stored, store, conversation.id))


def _stored(store: Store, conversation_id: str) -> tuple[WholeConversation, Counter[str]]:
    """As far as our own JSON could hold it: a database, too, may have been made by somebody else to do harm."""
    try:
        return format.checked(store.transfer.whole(conversation_id)), Counter()
    except (StorageError, msgspec.MsgspecError, struct.error, TypeError, ValueError):
        raise Unsuitable("its rows cannot be read; the database is damaged") from None
