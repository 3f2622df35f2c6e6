"""Imports files. The kind of a file is detected from its content, and its conversations are stored one by one.

JSON      an export of Outrider, of ChatGPT or of Claude
ZIP       an export of ChatGPT or of Claude as downloaded, or as a folder, because some browsers unpack it
SQLite    the logs of `llm`, the store of `oterm`, or a database of Outrider from another computer or a backup
"""

from __future__ import annotations

import contextlib
import sqlite3
import struct
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, NamedTuple

import msgspec

from app.archive import chatgpt, claude, foreign, llm_logs, oterm, outrider_json
from app.archive.errors import KINDS, Unreadable, Unsuitable
from app.archive.json_stream import elements
from storage import StorageError, Store, WholeConversation

LARGEST = 1 << 30
"""Most bytes of JSON in one file, or in all files of an archive together."""
MOST_MEMBERS = 10_000
"""Most files with conversations in one archive."""
RATIO = 200
"""Highest compression ratio that is accepted. Conversations as JSON compress 5 to 30 times."""
TITLE_LENGTH = 100
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The compression methods that exports use. Only these does Python decompress in pieces of bounded size."""


EXPORT = "export"
"""The kind of an export without conversations, which would show the program that it is from."""


class Program(NamedTuple):
    """A program whose exports are lists of conversations."""

    export: str
    wrote: Callable[[object], bool]
    read: Callable[[object], foreign.ForeignConversation]
    """Raises `Unsuitable`."""


PROGRAMS = (
    Program("ChatGPT export", chatgpt.is_chatgpt, chatgpt.conversation),
    Program("Claude export", claude.is_claude, claude.conversation),
)


class Candidate(NamedTuple):
    """One conversation of a file, not yet read."""

    title: str
    read: Callable[[], tuple[WholeConversation, Counter[str]]]
    """Returns the conversation, and what was left out of it. Raises `Unsuitable`."""
    kind: str = ""
    """The kind of the file in words, if only its conversations show it."""


class ImportResult(NamedTuple):
    title: str
    outcome: Literal["new", "added", "same", "failed"]
    conversation_id: str | None = None
    messages: int = 0
    """How many messages were added."""
    queued: int = 0
    """How many entries were added to the queue."""
    problem: str = ""


@dataclass
class ImportReport:
    kind: str
    """The kind of the file, in words."""
    results: list[ImportResult] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """How often each kind of content was left out of the imported conversations, by its description."""


def import_file(
    store: Store, path: Path, *, again: bool = False, heard: Callable[[ImportResult], None] | None = None
) -> ImportReport:
    """Imports every conversation of a file that can be imported, each in its own transaction.

    `again` imports copies, even of known conversations. `heard` is called after each conversation, on the caller's
    thread. Raises `StorageError`, and `Unreadable` if the file is not one of `KINDS`.
    """
    with opened(path, store.path) as (kind, conversations):
        report = ImportReport(kind)
        places: list[tuple[int, str]] = []
        for found in conversations:
            report.kind = found.kind or report.kind
            try:
                whole, left_out = found.read()
            except Unsuitable as error:
                result = ImportResult(found.title, "failed", problem=str(error))
            else:
                put = store.transfer.put(whole, copy=again)
                places += zip((queued.place for queued in whole.queue), put.queued)
                result = ImportResult(
                    whole.conversation.title, put.outcome, put.conversation_id, put.messages, len(put.queued)
                )
                if put.outcome != "same":
                    report.left_out += left_out
            report.results.append(result)
            if heard is not None:
                heard(result)
        if places:  # One queue holds the prompts of all conversations.
            store.queue.order([queued_id for _, queued_id in sorted(places, key=itemgetter(0))])
    return report


@contextlib.contextmanager
def opened(path: Path, database: Path) -> Iterator[tuple[str, Iterator[Candidate]]]:
    """Opens a file. Returns its kind in words, and its conversations.

    `database` is the file in use, which cannot be imported. Raises `Unreadable`, also while the conversations are read.
    """
    with contextlib.ExitStack() as stack:
        with _explained(path):
            kind, conversations = _open(path, database, stack)
        yield kind, _read(conversations, path)


def _open(path: Path, database: Path, stack: contextlib.ExitStack) -> tuple[str, Iterator[Candidate]]:
    if path.is_dir():
        return EXPORT, _unpacked(path)
    if path.exists() and not path.is_file():  # A device may be endless, and a pipe cannot be read twice.
        raise Unreadable(f"{path} is not a regular file. Save its output to one, and import that.")
    with path.open("rb") as file:
        start = file.read(16)
    if start.startswith(b"SQLite format 3\0"):
        return _sqlite(path, database, stack)
    if start.startswith(b"PK\x03\x04"):
        return EXPORT, _zipped(stack.enter_context(zipfile.ZipFile(path)), path)
    if path.stat().st_size > LARGEST:
        raise Unreadable(f"{path} is larger than {LARGEST >> 20} MiB; export fewer conversations at once.")
    return _json(stack.enter_context(path.open("rb")), path)


def _read(conversations: Iterator[Candidate], path: Path) -> Iterator[Candidate]:
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
            raise  # NotImplementedError is a RuntimeError, too.
        raise Unreadable(f"{path} is damaged or locked ({error}); download it again.") from None
    except (IndexError, UnicodeDecodeError) as error:  # A table without the columns that it should have.
        raise Unreadable(f"{path} is not what it seems to be ({error}). Outrider reads: {KINDS}.") from None
    except sqlite3.Error as error:
        if "no such column" in str(error):
            raise Unreadable(f"{path} is a database of another program ({error}). Outrider reads: {KINDS}.") from None
        raise Unreadable(
            f"{path} cannot be read ({error}); close the program that uses it, or import a copy."
        ) from None


# ---- JSON ------------------------------------------------------------------------------------------------------------


def _json(file: IO[bytes], path: Path) -> tuple[str, Iterator[Candidate]]:
    if not file.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        file.seek(0)
        data = file.read().removeprefix(b"\xef\xbb\xbf")
        if outrider_json.is_ours(data):
            return "Outrider export", map(_ours, outrider_json.decode(data, str(path)))
    file.seek(0)
    return EXPORT, _from_list(file, path)


def _from_list(file: IO[bytes], path: Path) -> Iterator[Candidate]:
    if not (yield from _from_export(elements(file.read, str(path)))):
        raise Unreadable(f"{path} cannot be imported. Outrider reads: {KINDS}.")


def _ours(raw: msgspec.Raw) -> Candidate:
    return Candidate(outrider_json.title(raw), lambda: (outrider_json.conversation(raw), Counter()))


def _from_export(items: Iterator[Any], *, may_be_empty: bool = False) -> Generator[Candidate, None, bool]:
    """Yields the conversations of one file. Returns True if it is an export of a known program.

    A conversation must show that; earlier ones are held back until then.
    """
    known: Program | None = None
    empty = True
    waiting: list[object] = []
    for item in items:
        empty = False
        known = known or next((program for program in PROGRAMS if program.wrote(item)), None)
        # Of a conversation that is held back only the title is kept, because a file may hold many.
        waiting.append(item if known else {"title": _title(item)})
        if known is not None:
            yield from (Candidate(_title(one), partial(_read_by, known, one), known.export) for one in waiting)
            waiting = []
    return known is not None or (may_be_empty and empty)


def _title(item: object) -> str:
    return str(foreign.field_of(item, "title", str) or foreign.field_of(item, "name", str))[:TITLE_LENGTH]


def _read_by(program: Program, item: object) -> tuple[WholeConversation, Counter[str]]:
    return _converted(program.read(item))


def _converted(conversation: foreign.ForeignConversation) -> tuple[WholeConversation, Counter[str]]:
    return foreign.converted(conversation), conversation.left_out


class _Member(NamedTuple):
    """A file of an export."""

    name: str
    most: int
    """Most bytes that it may have when decompressed."""
    open: Callable[[], IO[bytes]]


def _zipped(archive: zipfile.ZipFile, path: Path) -> Iterator[Candidate]:
    """Yields the conversations of `conversations.json`, or of the several files of a long history."""
    members = [info for info in archive.infolist() if PurePosixPath(info.filename).suffix == ".json"]
    named = [info for info in members if PurePosixPath(info.filename).name.startswith("conversations")]
    for info in (chosen := named or members):
        if info.compress_type not in COMPRESSIONS:
            raise Unreadable(
                f"{info.filename} in {path} uses an unsupported compression method; unpack it and import the file."
            )
    found = [
        _Member(info.filename, RATIO * info.compress_size + (RATIO << 16), partial(archive.open, info))
        for info in chosen
    ]
    return _exported(found, path, named=bool(named))


def _unpacked(path: Path) -> Iterator[Candidate]:
    """Yields the conversations of a folder, or of a folder in it."""
    next(path.iterdir(), None)  # Unlike `glob`, this raises errors.
    pattern = "conversations*.json"
    files = sorted(path.glob(pattern)) or sorted(path.glob(f"*/{pattern}"))
    found = [_Member(str(file.relative_to(path)), LARGEST, partial(_bytes_of, file)) for file in files]
    return _exported(found, path, named=bool(files))


def _bytes_of(file: Path) -> IO[bytes]:
    return file.open("rb")


def _exported(members: Sequence[_Member], path: Path, *, named: bool) -> Iterator[Candidate]:
    """Yields the conversations of an export. `named`: these files have the names that exports give them."""
    if len(members) > MOST_MEMBERS:
        raise Unreadable(f"{path} holds more than {MOST_MEMBERS:,} conversation files, more than any export.")
    known, left = False, LARGEST
    for member in members:
        name = f"{member.name} in {path}"
        with member.open() as file:
            reader = _Bounded(file, name, min(left, member.most), left)
            known |= yield from _from_export(elements(reader.read, name), may_be_empty=named)
        left -= reader.count
    if known:
        return
    if named:
        raise Unreadable(
            f"{members[0].name} in {path} holds no conversations that can be read. Outrider reads: {KINDS}."
        )
    raise Unreadable(f"{path} holds no conversations.json, so it is not an export of ChatGPT or Claude.")


class _Bounded:
    """A file of an archive that is read only up to a limit, whatever size the archive claims."""

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
            raise Unreadable(f"{self._name} is compressed more than {RATIO}:1, as no text would be, so it is not read.")
        return data


# ---- SQLite ----------------------------------------------------------------------------------------------------------


def _sqlite(path: Path, database: Path, stack: contextlib.ExitStack) -> tuple[str, Iterator[Candidate]]:
    """Reads a copy, so that other programs' writes do not interfere and our migrations do not touch the file."""
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
    copy.text_factory = lambda text: text.decode("utf-8", "replace")
    if llm_logs.is_llm(tables):
        return "logs of llm", _from_elsewhere(llm_logs.conversations(copy))
    if oterm.is_oterm(tables):
        return "chats of oterm", _from_elsewhere(oterm.conversations(copy, path.stat().st_mtime))
    raise Unreadable(f"{path} is a database of another program. Outrider reads: {KINDS}.")


def _address(path: Path) -> str:
    """The URI that opens a database read-only.

    If it has no side files, nobody has it open, and `immutable` prevents making any.
    """
    path = path.resolve()  # They are beside the file, and not beside a link to it.
    used = any(path.with_name(path.name + side).exists() for side in ("-wal", "-journal"))
    return f"{path.absolute().as_uri()}?{'mode=ro' if used else 'immutable=1'}"


def _from_elsewhere(conversations: Iterator[foreign.ForeignConversation]) -> Iterator[Candidate]:
    for conversation in conversations:
        yield Candidate(conversation.title, partial(_converted, conversation))


def _from_outrider(copied: Path, path: Path) -> Iterator[Candidate]:
    try:
        store = Store.open(copied)
    except StorageError as error:
        raise Unreadable(str(error).replace(str(copied), str(path))) from None
    with store:
        for conversation in reversed(store.conversations.all()):
            yield Candidate(str(conversation.title), partial(_stored, store, conversation.id))


def _stored(store: Store, conversation_id: str) -> tuple[WholeConversation, Counter[str]]:
    """Reads a conversation and checks it like one from a JSON file, because a database may be hostile too."""
    try:
        return outrider_json.checked(store.transfer.whole(conversation_id)), Counter()
    except (StorageError, msgspec.MsgspecError, struct.error, TypeError, ValueError):
        raise Unsuitable("its rows cannot be read; the database is damaged") from None
