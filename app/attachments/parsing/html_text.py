"""Extracts the readable part of a web page as Markdown, and reads other text from the web."""

from __future__ import annotations

import codecs
import re
from urllib.parse import urljoin

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString
from lxml.etree import LxmlError
from markdownify import MarkdownConverter
from readability import Document

from app.attachments.documents import DocumentText, Job, Origin, Unreadable
from app.attachments.parsing.office_text import in_cell

LEFT_OUT = "script, style, noscript, template, nav, form, iframe, svg, button, select"
FEW = 300
"""Characters below which something is not taken for the main part of a page."""
MOST_TITLE = 300
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
META = re.compile(rb"<meta[^>]+charset=[\"'\s]*([\w.:-]{1,40})", re.IGNORECASE)
JAPANESE = re.compile(r"\x1b[$(]")
"""ISO-2022-JP that was not decoded: its bytes are valid UTF-8."""


def read_html(data: bytes, job: Job) -> DocumentText:
    """The readable part of a page, under its title, with links that say where they lead."""
    html = _decoded(data, job.charset)
    try:
        page = BeautifulSoup(html, "lxml")
        title = " ".join(page.title.get_text().split())[:MOST_TITLE] if page.title else ""
        text = _main_text(page, html, job.address)
    except (LxmlError, RecursionError, ValueError, TypeError):
        raise Unreadable("cannot be read as a page; save it from a browser as PDF or text") from None
    if not text:
        raise Unreadable("has no text without its scripts; save it from a browser as PDF or text")
    return DocumentText(text if not title or title in text[:FEW] else f"# {title}\n\n{text}", Origin("web"))


def _main_text(page: BeautifulSoup, html: str, address: str) -> str:
    """The part that the page declares as its main part, or else Readability's choice, or else the whole page."""
    marked = page.select("main, [role=main]") or page.select("article")
    if len(marked) == 1 and len(text := _markdown(marked[0], address)) >= FEW:
        return text
    guessed = BeautifulSoup(Document(html).summary(html_partial=True), "lxml")
    if len(text := _markdown(guessed, address)) >= FEW:
        return text
    return _markdown(page.body or page, address)


def _markdown(part: Tag, address: str) -> str:
    for element in part.select(LEFT_OUT):
        element.decompose()
    for link in part.select("a[href]"):
        target = str(link["href"]).strip()
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        if ":" in target.partition("/")[0] or target.startswith("#"):  # To a place on this page, or a script.
            link.unwrap()
        else:
            link["href"] = urljoin(address, target)
    for words in part.find_all(string=re.compile(r"\|")):
        if type(words) is NavigableString and words.find_parent(["td", "th"]):  # Not a comment, which stays hidden.
            words.replace_with(in_cell(words))
    text: str = MarkdownConverter(heading_style="ATX", bullets="-", strip=["img"]).convert_soup(part)
    return text.strip()


def read_text(data: bytes, job: Job) -> DocumentText:
    return DocumentText(_decoded(data, job.charset), Origin("web"))


def _decoded(data: bytes, charset: str) -> str:
    """The text in the encoding that fits. A server often names a wrong one; what is valid UTF-8 hardly ever is not."""
    for mark, name in MARKS.items():
        if data.startswith(mark):
            return data.decode(name, "replace")
    meta = META.search(data[:4096])
    for name in ("utf-8", charset, "" if meta is None else meta[1].decode("ascii")):
        try:
            text = data.decode(name) if name else "\0"
        except (LookupError, ValueError):
            continue
        if "\0" not in text and not JAPANESE.search(text):
            return text
    return data.decode("cp1252", "replace")
