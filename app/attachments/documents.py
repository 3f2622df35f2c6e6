"""Extracts text from documents: PDF, Word, OpenDocument and web pages, each read by a separate process.

A document may come from anywhere, and what reads it is large. So a crash, a hang or a bomb ends that process
(`app/attachments/parsing/`), which has limits on time and memory, and never this one.
"""

from __future__ import annotations

import codecs
import subprocess
from tempfile import TemporaryFile
from typing import Literal, get_args

import msgspec

from app.own_process import own_command, own_environment
from app.sanitise import sanitise
from storage import Attachment

Kind = Literal["pdf", "office", "html", "text"]
"""What the bytes are. `office`: a ZIP archive, in which the process finds out what it is. `text`: any text of the web,
whose encoding has to be found out."""
Source = Literal["pdf", "docx", "odt", "web"]
SOURCES: tuple[Source, ...] = get_args(Source)
MOST_DOCUMENT_BYTES = 50_000_000
"""Largest document that is read."""
MOST_SECONDS = 30.0
"""Time to read one document. Thousand pages of a PDF take 2 s."""
MOST_ANSWERED = 8_000_000
"""Most bytes that the process may answer: the text as JSON."""
PARSER = "app.attachments.parsing.document_process"
NEEDED = ("PATH", "PYTHONPATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "LANG")
"""Variables that the process gets. Tokens are among the others."""
OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""Begins Word's old files, and encrypted new ones."""


class Unreadable(Exception):
    """A document that cannot be read. The text says why and what to do, without its name."""


class Origin(msgspec.Struct, frozen=True):
    """Source of a text, and how much of it was read."""

    source: Source
    pages: int = 0
    """Pages that were read; 0 where there are none to count."""
    of: int = 0
    """Pages of the document."""
    cut: bool = False
    """Whether text is missing at the end."""


class DocumentText(msgspec.Struct, frozen=True):
    """The text of a document, as far as it was read."""

    text: str
    origin: Origin


class Answer(msgspec.Struct, frozen=True):
    """The reply of the process: a text, or why there is none."""

    found: DocumentText | None = None
    problem: str = ""


class Job(msgspec.Struct):
    """The request to the process, as one line of JSON before the document."""

    kind: Kind
    most: int
    """Most bytes of text."""
    charset: str = ""
    """The encoding that the web server named."""
    address: str = ""
    """Where a page is from: its links are relative to it."""


def document_kind(data: bytes) -> Kind | None:
    """Kind of the document that begins with these bytes, or None. Raises `Unreadable` for formats that nothing here
    reads.

    A page of the web is not recognised: HTML on the disk is source code. Other bytes may precede a PDF, but a text that
    mentions its first ones is a text.
    """
    head = data[:1024]
    if head.startswith(b"%PDF-") or (b"%PDF-" in head and not _is_text(head)):
        return "pdf"
    if data.startswith(b"PK\x03\x04"):
        return "office"
    if data.startswith(OLD_OFFICE):
        raise Unreadable("is an old Office file or has a password; save it as .docx or PDF, without a password")
    return None


def _is_text(head: bytes) -> bool:
    """Whether data that begin with these bytes may be UTF-8; the last character may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def read_document(data: bytes, job: Job) -> DocumentText:
    """Reads a document in a separate process. Raises `Unreadable`, `OSError`."""
    with TemporaryFile() as given, TemporaryFile() as answered:
        given.write(msgspec.json.encode(job) + b"\n")
        given.write(data)
        given.seek(0)
        try:
            code = subprocess.run(
                own_command(module=PARSER),
                stdin=given,
                stdout=answered,
                stderr=subprocess.DEVNULL,
                env={name: value for name, value in own_environment().items() if name in NEEDED},
                timeout=MOST_SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise Unreadable(f"could not be read within {MOST_SECONDS:.0f} s; send a part of it") from None
        answered.seek(0)
        answer = answered.read(MOST_ANSWERED + 1)
    if code or len(answer) > MOST_ANSWERED:
        raise Unreadable("is damaged or too large: the program that reads it crashed; save it again, or as plain text")
    try:
        read = msgspec.json.decode(answer, type=Answer)
    except msgspec.DecodeError:
        raise Unreadable("could not be read") from None
    if read.found is None:
        raise Unreadable(sanitise(read.problem) or "could not be read")
    return read.found


def as_attachment(name: str, read: DocumentText) -> Attachment:
    """The text as an attachment. What it was read from is kept in the parameters of its media type."""
    origin = read.origin
    kind = "plain" if origin.source == "pdf" else "markdown"
    pages = f";pages={origin.pages};of={origin.of}" if origin.of else ""
    return Attachment(name, f"text/{kind};from={origin.source}{pages}{';cut=1' * origin.cut}", read.text.encode())


def origin_of(attachment: Attachment) -> Origin | None:
    """Source of an attachment, or None for a file that was attached unchanged."""
    fields = dict(part.partition("=")[::2] for part in attachment.media_type.split(";")[1:])
    source = next((one for one in SOURCES if one == fields.get("from")), None)
    if source is None:
        return None
    pages, of = (int(value) if (value := fields.get(name, "")).isdecimal() else 0 for name in ("pages", "of"))
    return Origin(source, pages, of, "cut" in fields)
