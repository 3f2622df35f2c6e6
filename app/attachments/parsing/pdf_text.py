"""The text of a PDF, page by page."""

from __future__ import annotations

import re

import pypdfium2

from app.attachments.documents import DocumentText, Job, Origin, Unreadable

HYPHEN = re.compile("[\x02\ufffe]\n?")
"""PDFium's character for a hyphen at the end of a line, inside a word."""


def read_pdf(data: bytes, job: Job) -> DocumentText:
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


def _page(document: pypdfium2.PdfDocument, number: int) -> str:
    """The text of a page; empty if that page alone is damaged."""
    try:
        text: str = document[number].get_textpage().get_text_bounded()
    except pypdfium2.PdfiumError:
        return ""
    return HYPHEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).strip()
