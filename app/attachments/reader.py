"""Reads the files that a person names, once. The content read then is what is attached to the question.

A file that cannot be attached raises nothing here, but becomes a sentence in `Gathered.problems`.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.attachments.documents import (
    MOST_DOCUMENT_BYTES,
    Job,
    Unreadable,
    as_attachment,
    document_kind,
    read_document,
)
from app.attachments.folders import FolderTooLarge, files_in
from app.attachments.images import image_kind
from app.attachments.limits import MOST_BYTES, MOST_FILES, MOST_IMAGE_BYTES, MOST_TEXT_BYTES, size
from app.attachments.mentions import Mention, is_folder, located, shown_name
from app.attachments.secret_names import looks_secret
from app.sanitise import sanitise
from storage import Attachment
from storage.attachments import TEXT

WIDE = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
"""Encodings by the marks with which a text in them begins. UTF-16's begins one of UTF-32's."""
MOST_UNREADABLE = 0.1
"""Share of invalid UTF-8 up to which a file counts as text in another encoding."""
NO_TEXT = "is not text"
UNKNOWN = f"{NO_TEXT}, nor an image (png, jpeg, gif, webp) or a document (pdf, docx, odt) that can be sent"
NAMED = 5
"""Most names that one sentence lists."""


@dataclass
class Gathered:
    """The attachments of a question, and what the person should know before they are sent."""

    attachments: list[Attachment] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What was named but not attached, with the reason."""
    told: list[str] = field(default_factory=list)
    """What was changed or left out."""
    secrets: list[str] = field(default_factory=list)
    """Names of attached files that may hold a key or a password."""
    pages: list[str] = field(default_factory=list)
    """Addresses of pages that were named. Nothing is fetched before the person has agreed."""
    resources: list[str] = field(default_factory=list)
    """Resources of MCP servers that were named. They are read when the question is sent."""

    def clear_files(self) -> None:
        self.attachments.clear()
        self.secrets.clear()


class Unsuitable(Exception):
    """A file that cannot be attached. The text says why, without the file's name."""


def one_line(name: str) -> str:
    """A file's name that is safe for a terminal: one line, without characters that hide or reorder text."""
    return " ".join(sanitise(name).split()) or "?"


def gather(mentions: Iterable[Mention], kept: Sequence[Attachment] = ()) -> Gathered:
    """Reads the files that a question names.

    `kept`: attachments of the question before it was edited, and pages that were fetched. They stay unchanged, whatever
    is on the disk or in the web now.
    """
    gathered, seen = Gathered(), set[Path]()
    for mention in mentions:
        same = [one for one in kept if belongs(one, mention)]
        if same:
            # Two mentions may name it: a file and its folder, or files of one name.
            gathered.attachments += [one for one in same if not any(one is other for other in gathered.attachments)]
        elif mention.kind == "page":
            gathered.pages.append(mention.raw)
        elif mention.kind == "resource":
            gathered.resources.append(mention.raw)
        elif mention.kind == "missing":
            gathered.problems.append(_missing(mention))
        else:
            _add(gathered, mention.path, mention.name, seen, mention.raw)
    _check_total(gathered)
    return gathered


def gather_paths(paths: Iterable[str], cwd: Path) -> Gathered:
    """Reads files and folders that were named explicitly, as with `--file`."""
    gathered, seen = Gathered(), set[Path]()
    for raw in paths:
        if raw.strip():
            _add(gathered, located(raw, cwd), shown_name(raw), seen, raw)
        else:  # An unset variable in a script. It would name the whole folder.
            gathered.problems.append("a file name is empty")
    _check_total(gathered)
    return gathered


def joined(*several: Gathered) -> Gathered:
    whole = Gathered()
    for one in several:
        whole.attachments += one.attachments
        whole.problems += one.problems
        whole.told += one.told
        whole.secrets += one.secrets
        whole.pages += one.pages
        whole.resources += one.resources
    _check_total(whole)
    return whole


def belongs(attachment: Attachment, mention: Mention) -> bool:
    """Whether a stored file is the one that this mention names."""
    return attachment.name == mention.name or (mention.name.endswith("/") and attachment.name.startswith(mention.name))


def _missing(mention: Mention) -> str:
    name = one_line(mention.raw)
    if is_folder(mention.path):
        return f"{name} is a folder; write @{name}/ to send its text files"
    return f"{name} does not exist, so it is not sent"


def _check_total(gathered: Gathered) -> None:
    """Attaches nothing if the total is too large: half of the named files could mislead."""
    count, total = len(gathered.attachments), sum(len(one.data) for one in gathered.attachments)
    if count > MOST_FILES:
        gathered.problems.append(f"{count} files are too many; a question takes at most {MOST_FILES}")
        gathered.clear_files()
    elif total > MOST_BYTES:
        gathered.problems.append(f"the files have {size(total)}; a question takes at most {size(MOST_BYTES)}")
        gathered.clear_files()


def _add(gathered: Gathered, path: Path, name: str, seen: set[Path], raw: str) -> None:
    """Attach a file or a folder as `name`; a problem names it as the person wrote it, which is `raw`."""
    try:
        resolved = path.resolve()
        if resolved in seen:
            return
        seen.add(resolved)
        if path.is_dir():
            _add_folder(gathered, path, name.rstrip("/") + "/", seen)
            return
        gathered.attachments.append(read_file(path, name, gathered.told))
        if looks_secret(path) or looks_secret(resolved):
            gathered.secrets.append(one_line(name))
    except Unsuitable as error:
        gathered.problems.append(f"{one_line(raw)} {error}")
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13.
        reason = getattr(error, "strerror", None) or "the name is invalid, or its links form a loop"
        gathered.problems.append(f"{one_line(raw)} cannot be read: {reason}")


def _add_folder(gathered: Gathered, folder: Path, name: str, seen: set[Path]) -> None:
    found: list[Attachment] = []
    secrets: list[str] = []
    others: list[str] = []
    try:
        files = files_in(folder)
    except FolderTooLarge as error:
        raise Unsuitable(str(error)) from None
    total, known = 0, False
    for path in files:
        inner, resolved = path.relative_to(folder).as_posix(), path.resolve()
        if looks_secret(path) or looks_secret(resolved):
            secrets.append(inner)
            continue
        if resolved in seen:
            known = True
            continue
        try:
            attachment = read_file(path, name + inner, gathered.told, alone=False)
        except (Unsuitable, OSError):
            others.append(inner)
            continue
        seen.add(resolved)
        found.append(attachment)
        total += len(attachment.data)
        if len(found) > MOST_FILES or total > MOST_BYTES:
            most = f"{MOST_FILES} files" if len(found) > MOST_FILES else size(MOST_BYTES)
            raise Unsuitable(f"has more than {most} of text; name a smaller folder, or single files")
    if secrets:
        gathered.told.append(f"left out of {one_line(name)}, because they may hold a secret: {_names(secrets)}")
    if others:
        gathered.told.append(f"left out of {one_line(name)}, because they are not text, or too large: {_names(others)}")
    if not found and not known:
        raise Unsuitable("has no text file")
    gathered.attachments += found


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(map(one_line, names[:NAMED])) + more


def read_file(path: Path, name: str, told: list[str], *, alone: bool = True) -> Attachment:
    """Reads one file as it is now. Changes are reported in `told`. Raises `Unsuitable`, `OSError`.

    `alone`: it was named by itself, so it may be an image or a document.
    """
    try:
        return attachment_of(_bytes_of(path), name, told, alone=alone)
    except Unreadable as error:
        raise Unsuitable(str(error)) from None


def attachment_of(data: bytes, name: str, told: list[str], *, alone: bool = True) -> Attachment:
    """Turn these bytes into an attachment: an image, the text of a document, or text. Raises `Unsuitable`,
    `Unreadable`."""
    if (kind := image_kind(data)) is not None:
        if not alone:
            raise Unsuitable("is an image")
        if len(data) > MOST_IMAGE_BYTES:
            raise Unsuitable(f"has more than {size(MOST_IMAGE_BYTES)}, too much to send")
        return Attachment(name, kind, data)
    if (document := document_kind(data)) is not None:
        if not alone:
            raise Unsuitable("is a document")
        return as_attachment(name, read_document(data, Job(document, MOST_TEXT_BYTES)))
    if len(data) > MOST_TEXT_BYTES:
        raise Unsuitable(f"has more than {size(MOST_TEXT_BYTES)}; send a part of it")
    return Attachment(name, TEXT, text_in(data, name, told, UNKNOWN).encode())


def _bytes_of(path: Path) -> bytes:
    # A pipe would wait for a writer, and a device may be endless. So the kind is checked before and after opening.
    _check_regular(path.stat().st_mode)
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as file:
        _check_regular(os.fstat(handle).st_mode)
        data = file.read(MOST_IMAGE_BYTES + 1)
        most = MOST_DOCUMENT_BYTES if document_kind(data) else MOST_IMAGE_BYTES
        data += file.read(max(0, most + 1 - len(data)))
    if len(data) > most:
        raise Unsuitable(f"has more than {size(most)}, too much to send")
    return data


def _check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise Unsuitable("is not a regular file, but a pipe, a socket or a device")


def text_in(data: bytes, name: str, told: list[str], unknown: str = NO_TEXT) -> str:
    """These bytes as text. What is changed is reported in `told`. Raises `Unsuitable`, `Unreadable`.

    `unknown`: what it says of data that are no text.
    """
    wide = next((name for name, marks in WIDE.items() if data.startswith(marks)), None)
    if wide is not None:
        try:
            text = data.decode(wide)
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise Unsuitable(unknown)
        told.append(f"{one_line(name)} was {wide} and is sent as UTF-8")
        return text
    if b"\0" in data:
        raise Unsuitable(unknown)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        if document_kind(data) is not None:  # Most of a PDF is text.
            raise Unsuitable(unknown) from None
        text = data.decode("utf-8-sig", "replace")
    lost = text.count("\ufffd")
    if lost > MOST_UNREADABLE * len(text):
        raise Unsuitable("is not UTF-8 text; convert it first, for example with iconv")
    characters = "1 character is" if lost == 1 else f"{lost:,} characters are"
    told.append(f"{one_line(name)} is not all UTF-8: {characters} sent as \ufffd")
    return text
