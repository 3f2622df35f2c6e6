"""The text of Word and OpenDocument files, as Markdown: archives of XML, which the standard library reads."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from xml.etree import ElementTree

from app.attachments.documents import DocumentText, Job, Origin, Source, Unreadable

MOST_XML = 60_000_000
"""Most bytes of XML that are unpacked. A bomb unpacks to thousands of times its size."""
Element = ElementTree.Element


def read_office(data: bytes, job: Job) -> DocumentText:
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
    """Markdown's mark before a heading or a list item."""
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
                pass  # Text that the author has deleted, or notes in the margin.
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


def in_cell(text: str) -> str:
    """The text of a cell of a table, with its bars escaped, and the backslashes before them."""
    return re.sub(r"(\\*)\|", r"\1\1\|", text)


def _table(rows: Iterator[list[str]]) -> Iterator[str]:
    lines = [f"| {' | '.join(map(in_cell, cells))} |" for cells in rows if any(cells)]
    if lines:
        yield "\n".join(lines)
