"""The process that reads one document: a line of JSON and its bytes on stdin, JSON with its text on stdout.

Everything in the document is hostile. The text that leaves here is clean (`app/sanitise.py`): a page can hide
instructions for the model in characters that no person sees, or sequences that a terminal obeys.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from xml.etree import ElementTree

import msgspec
from msgspec.structs import replace

from app.attachments.documents import MOST_ANSWERED, Answer, DocumentText, Job, Origin, Source, Unreadable
from app.sanitise import sanitise

MOST_MEMORY = 2 << 30
MOST_CPU_SECONDS = 25
MOST_XML = 60_000_000
"""Most bytes of XML that are unpacked. A bomb unpacks to thousands of times its size."""
HYPHEN = re.compile("[\x02\ufffe]\n?")
"""What PDFium writes for a hyphen at the end of a line, inside a word."""
Element = ElementTree.Element


def main() -> None:
    _limit()
    line, data = sys.stdin.buffer.readline(), sys.stdin.buffer.read()
    job = msgspec.json.decode(line, type=Job)
    try:
        answer = Answer(_clean(READERS[job.kind](data, job), job.most))
    except Unreadable as error:
        answer = Answer(problem=str(error))
    sys.stdout.buffer.write(msgspec.json.encode(answer))


def _limit() -> None:
    """Limits memory, time and what is written, where the system can."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MOST_ANSWERED, 2 * MOST_ANSWERED))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def _clean(found: DocumentText, most: int) -> DocumentText:
    """The text without control characters, and at most `most` bytes of it. Raises `Unreadable` if nothing is left."""
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", sanitise(found.text))).strip()
    data, origin = text.encode(), found.origin
    if len(data) > most:
        text, origin = data[:most].decode("utf-8", "ignore"), replace(origin, cut=True)
    if not text:
        raise Unreadable("has no text")
    return DocumentText(f"{text}\n", origin)


# ---- PDF -------------------------------------------------------------------------------------------------------------


def _pdf(data: bytes, job: Job) -> DocumentText:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower() or "security" in str(error).lower():
            raise Unreadable("has a password; save a copy without it, as qpdf --decrypt does") from None
        raise Unreadable("is a damaged PDF; open it in a viewer and print it to a new PDF") from None
    pages, size, of, words = list[str](), 0, len(document), False
    for number in range(of):
        text = _page(document, number)
        words = words or bool(text)
        pages.append(f"[page {number + 1}]\n{text}")
        size += len(pages[-1].encode())
        if size > job.most:
            break
    if not words:
        raise Unreadable("has no text, only pictures; run ocrmypdf on it first, or send its pages as images")
    # A page that does not fit is left out as a whole, unless it is the first.
    whole = pages if size <= job.most else pages[:-1] or pages
    return DocumentText("\n\n".join(whole), Origin("pdf", len(whole), of, cut=len(whole) < of))


def _page(document: object, number: int) -> str:
    """The text of a page; empty if that page alone is damaged."""
    import pypdfium2

    assert isinstance(document, pypdfium2.PdfDocument)
    try:
        text: str = document[number].get_textpage().get_text_bounded()
    except pypdfium2.PdfiumError:
        return ""
    return HYPHEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).strip()


# ---- Word and OpenDocument -------------------------------------------------------------------------------------------


def _office(data: bytes, job: Job) -> DocumentText:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
            if "word/document.xml" in names:
                return _joined(_word(_xml(archive, "word/document.xml")), "docx")
            if "content.xml" in names and b"opendocument.text" in archive.open("mimetype").read(100):
                return _joined(_open_document(_xml(archive, "content.xml")), "odt")
    except zipfile.BadZipFile:
        pass
    except (ElementTree.ParseError, zlib.error, RecursionError, KeyError, EOFError, OSError):
        raise Unreadable("is damaged; open it in its program and save it again") from None
    except (RuntimeError, NotImplementedError):  # What zipfile raises for encrypted members and rare compressions.
        raise Unreadable("has a password; save a copy without it") from None
    raise Unreadable("is an archive, or a damaged document; send .docx, .odt, PDF or plain text")


def _joined(paragraphs: Iterator[str], source: Source) -> DocumentText:
    return DocumentText("\n\n".join(paragraphs), Origin(source))


def _xml(archive: zipfile.ZipFile, name: str) -> Element:
    # The size that an archive claims may be a lie, so what is read is counted.
    with archive.open(name) as file:
        xml = file.read(MOST_XML + 1)
    if len(xml) > MOST_XML:
        raise Unreadable(f"unpacks to more than {MOST_XML // 1_000_000} MB; send a part of it")
    if b"<!DOCTYPE" in xml or b"<!ENTITY" in xml:  # No program writes these, and they can expand without end.
        raise Unreadable("is damaged; open it in its program and save it again")
    return ElementTree.fromstring(xml)


def _local(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _value(element: Element | None, name: str) -> str:
    """An attribute by its name without the namespace."""
    attributes = {} if element is None else element.attrib
    return next((value for key, value in attributes.items() if key.rpartition("}")[2] == name), "")


def _word(element: Element) -> Iterator[str]:
    """The paragraphs and tables of a Word document, as Markdown."""
    for child in element:
        match _local(child):
            case "p":
                if text := _inline(child, word=True).strip():
                    yield _word_mark(child) + text
            case "tbl":
                rows = ([_cell(_word(cell)) for cell in row if _local(cell) == "tc"] for row in child)
                yield from _table(rows)
            case "body" | "sdt" | "sdtContent" | "txbxContent" | "ins":
                yield from _word(child)


def _word_mark(paragraph: Element) -> str:
    """What Markdown puts before a heading or an item of a list."""
    properties = next((child for child in paragraph if _local(child) == "pPr"), ())
    for child in properties:
        if _local(child) == "pStyle" and (level := re.fullmatch(r"(?i)heading ?([1-6])", _value(child, "val"))):
            return f"{'#' * int(level[1])} "
        if _local(child) == "numPr":
            return "- "
    return ""


def _open_document(element: Element) -> Iterator[str]:
    """The paragraphs and tables of an OpenDocument text, as Markdown."""
    for child in element:
        match _local(child):
            case "h":
                level = _value(child, "outline-level")
                if text := _inline(child).strip():
                    yield f"{'#' * min(6, int(level) if level.isdecimal() else 1)} {text}"
            case "p":
                if text := _inline(child).strip():
                    yield text
            case "list":
                yield from (f"- {text}" for item in child if (text := _cell(_open_document(item))))
            case "table":
                rows = (row for row in child.iter() if _local(row) == "table-row")
                yield from _table([_cell(_open_document(cell)) for cell in row] for row in rows)
            case "tracked-changes" | "annotation":
                pass  # Text that the author has deleted, or notes beside it.
            case _:
                yield from _open_document(child)


def _inline(element: Element, *, word: bool = False) -> str:
    """The text of a paragraph, without what was deleted from it or is there twice.

    `word`: text is only in elements `t`; what is between other elements is indentation.
    """
    name = _local(element)
    if name in ("Fallback", "del", "moveFrom", "annotation", "note-citation"):
        return ""
    if name in ("br", "cr", "line-break"):
        return "\n"
    if name == "tab":
        return "\t"
    if name == "s":
        count = _value(element, "c")
        return " " * (min(int(count), 100) if count.isdecimal() else 1)
    own = element.text or "" if name == "t" or not word else ""
    return own + "".join(_inline(child, word=word) + (child.tail or "" if not word else "") for child in element)


def _cell(paragraphs: Iterator[str]) -> str:
    return " ".join(" ".join(paragraphs).split())


def _table(rows: Iterator[list[str]]) -> Iterator[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in rows if any(cells)]
    if lines:
        yield "\n".join(lines)


READERS: dict[str, Callable[[bytes, Job], DocumentText]] = {"pdf": _pdf, "office": _office}

if __name__ == "__main__":
    main()
