"""Documents and pages of the web are read by a process of their own, and what is wrong with one becomes a sentence."""

from __future__ import annotations

import asyncio
import gzip
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pypdfium2
import pytest

from app.attachments.documents import MOST_DOCUMENT_BYTES, Job, Origin, origin_of, read_document
from app.attachments.mentions import mentions
from app.attachments.reader import gather_paths
from app.attachments.renderer import described, question_text
from app.attachments.web_pages import fetch_pages
from app.files import current_folder
from remote import web_page
from storage import Attachment
from tests.app.attachments.test_reader import question
from tests.remote.toy_verifier import http, listening

WORD = r"""<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>
<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Plan</w:t></w:r></w:p>
<w:p><w:r><w:t xml:space="preserve">We meet in </w:t></w:r><w:del><w:r><w:delText>Rome</w:delText></w:r></w:del>
<w:r><w:t>Oslo&#x9b;31m&#x202e;.</w:t></w:r></w:p>
<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>tickets</w:t></w:r></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>Day|2 \|</w:t></w:r></w:p></w:tc>
<w:tc><w:p><w:r><w:t>Train</w:t></w:r></w:p></w:tc></w:tr>
</w:tbl></w:body></w:document>"""
OPEN = """<o:document-content xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><o:body><o:text><t:h t:outline-level="1">Plan</t:h>
<t:p>We <t:span>meet</t:span> in<t:s t:c="1"/>Oslo.</t:p><t:list><t:list-item><t:p>tickets</t:p></t:list-item></t:list>
</o:text></o:body></o:document-content>"""


def pdf(*pages: str) -> bytes:
    """A PDF with a line of text on each page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        drawn = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
        box = f"/MediaBox [0 0 500 200] /Resources << /Font << /F1 3 0 R >> >> /Contents {len(objects)} 0 R"
        objects.append(f"<< /Type /Page /Parent 2 0 R {box} >>")
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    body = "".join(f"{number} 0 obj\n{text}\nendobj\n" for number, text in enumerate(objects, 1))
    return f"%PDF-1.4\n{body}trailer << /Root 1 0 R /Size {len(objects) + 1} >>\n%%EOF\n".encode()


def archive(path: Path, **members: str | bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name.replace("__", "/").replace("_xml", ".xml"), content)


def test_the_text_of_each_kind_of_document_is_attached(tmp_path: Path) -> None:
    (tmp_path / "report.pdf").write_bytes(pdf("It cost 40 euros.", "The end."))
    archive(tmp_path / "plan.docx", word__document_xml=WORD)
    archive(tmp_path / "plan.odt", mimetype="application/vnd.oasis.opendocument.text", content_xml=OPEN)
    read = gather_paths(["report.pdf", "plan.docx", "plan.odt"], tmp_path)
    assert read.problems == []
    report, word, opened = read.attachments
    assert report.text == "[page 1]\nIt cost 40 euros.\n\n[page 2]\nThe end.\n"
    assert described(report) == "report.pdf · 2 pages · 46 characters"
    # Neither deleted text, nor a sequence for the terminal, nor a mark that turns text around.
    assert word.text == "# Plan\n\nWe meet in Oslo.\n\n- tickets\n\n| Day\\|2 \\\\\\| | Train |\n"
    assert opened.text == "# Plan\n\nWe meet in Oslo.\n\n- tickets\n"
    asked = question_text(question(report, text="How much?"))
    assert asked.startswith("File: report.pdf (2 pages)\n```\n[page 1]") and asked.endswith("How much?")


def test_a_long_document_is_cut_at_a_page_and_says_so() -> None:
    read = read_document(pdf("first", "second", "third"), Job("pdf", most=40))
    assert read.text == "[page 1]\nfirst\n\n[page 2]\nsecond\n" and read.origin == Origin("pdf", 2, 3, cut=True)
    kept = Attachment("a.pdf", "text/plain;from=pdf;pages=2;of=3;cut=1", read.text.encode())
    assert origin_of(kept) == read.origin and "the first 2 of 3 pages" in described(kept)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("scan.pdf", "has no text, only pictures; run ocrmypdf on it first, or send its pages as images"),
        ("damaged.pdf", "is a damaged PDF; open it in a viewer and print it to a new PDF"),
        ("large.pdf", "has more than 50.0 MB, too much to send"),
        ("bomb.docx", "unpacks to more than 60 MB; send a part of it"),
        ("laughs.docx", "is damaged; open it in its program and save it again"),
        ("deep.docx", "is damaged; open it in its program and save it again"),
        ("old.doc", "is an old Office file or has a password; save it as .docx or PDF, without a password"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused_with_what_to_do(tmp_path: Path, name: str, problem: str) -> None:
    path = tmp_path / name
    match name:
        case "scan.pdf":
            document = pypdfium2.PdfDocument.new()
            document.new_page(100, 100)
            document.save(path)
            document.close()
        case "damaged.pdf":
            path.write_bytes(b"%PDF-1.7\n" + bytes(1000))
        case "large.pdf":
            path.write_bytes(pdf("x"))
            with path.open("ab") as file:
                file.truncate(MOST_DOCUMENT_BYTES + 1)
        case "bomb.docx":
            archive(path, word__document_xml=bytes(70_000_000))
        case "laughs.docx":
            archive(path, word__document_xml='<!DOCTYPE a [<!ENTITY b "ha">]><a>&b;</a>')
        case "deep.docx":
            archive(path, word__document_xml="<sdt>" * 100_000 + "</sdt>" * 100_000)
        case "old.doc":
            path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500))
    read = gather_paths([name], tmp_path)
    assert read.attachments == [] and read.problems == [f"{name} {problem}"]


def test_a_reader_that_hangs_or_dies_ends_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "report.pdf").write_bytes(pdf("x"))
    monkeypatch.setattr("app.attachments.documents.MOST_SECONDS", 0.01)
    assert gather_paths(["report.pdf"], tmp_path).problems == [
        "report.pdf could not be read within 0 s; send a part of it"
    ]
    monkeypatch.undo()
    monkeypatch.setattr("app.attachments.documents.PARSER", "app.attachments.no_such_module")
    (problem,) = gather_paths(["report.pdf"], tmp_path).problems
    assert problem.startswith("report.pdf is damaged or too large: the program that reads it crashed")


# ---- pages, from a real server on loopback that does what servers do wrong -------------------------------------------


WORDS = "It costs forty euros, and the ferry sails at noon. " * 8
PAGE = f"""<!doctype html><html><head><title>Ferries</title><script>steal()</script></head><body><nav>Home</nav>
<main><h2><a href="#fares">Fares</a></h2><p>{WORDS}40 \xa3.&#x202e;\x1b[31m <a href="/map">map</a></p>
<table><tr><th>day</th></tr><tr><td>Mo <b>|</b> Tu</td></tr></table>
</main><footer>Cookies</footer></body></html>"""
HTML = "text/html; charset=utf-8"
ANSWERS = {
    "/page": http(PAGE.encode(), content_type=HTML),
    "/latin": http(PAGE.encode("latin-1"), content_type=HTML),  # The server names another encoding.
    "/moved": http(b"", status="302 Found", content_type=None, extra="location: /page\r\n"),
    "/round": http(b"", status="302 Found", content_type=None, extra="location: /round\r\n"),
    "/file": http(b"", status="302 Found", content_type=None, extra="location: file:///etc/passwd\r\n"),
    "/metadata": http(b"", status="302 Found", content_type=None, extra="location: http://169.254.169.254/\r\n"),
    "/hex": http(b"", status="302 Found", content_type=None, extra="location: http://0x7f000002/\r\n"),
    "/mapped": http(b"", status="302 Found", content_type=None, extra="location: http://[::ffff:10.0.0.1]/\r\n"),
    "/offer": http(pdf("Forty euros."), content_type="application/octet-stream"),
    "/data": http(b'{"price": 40}', content_type="application/json"),
    "/film": http(b"\0\1\2", content_type="video/mp4"),
    "/script": http(b"<html><body><script>draw()</script></body></html>", content_type=HTML),
    "/gone": http(b"no", status="404 Not Found", content_type=HTML),
    "/bomb": http(gzip.compress(bytes(50_000_000)), content_type=HTML, extra="content-encoding: gzip\r\n"),
    "/twice": http(b"x", content_type=HTML, extra="content-encoding: gzip, gzip\r\n"),
}
PROBLEMS = {
    "/round": "redirects more than 5 times",
    "/file": "redirects to file:///etc/passwd, which is not a web page",
    "/metadata": "redirects to 169.254.169.254 in a private network",
    "/hex": "redirects to 0x7f000002 in a private network",
    "/mapped": "redirects to [::ffff:10.0.0.1] in a private network",
    "/film": "is not a page with text but video/mp4",
    "/script": "has no text without its scripts",
    "/gone": "was refused (404 Not Found); check the address",
    "/bomb": "has more than 20 MB, too much to read",
    "/twice": "is compressed in an unsupported way (gzip, gzip)",
}


@asynccontextmanager
async def site(asked: list[str]) -> AsyncIterator[str]:
    """A server of these answers; one for any other path never ends."""

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        asked.append(path)
        path = path.removeprefix("http://ferries.invalid")  # As a proxy is asked.
        writer.write(ANSWERS.get(path, b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<p>"))
        await writer.drain()
        if path not in ANSWERS:
            await reader.read()

    async with listening(serve) as port:
        yield f"http://127.0.0.1:{port}"


async def test_the_readable_text_of_a_page_is_attached_under_the_address_that_was_typed() -> None:
    async with site([]) as server:
        fetched = await fetch_pages([f"{server}{path}" for path in ("/page", "/latin", "/moved", "/offer", "/data")])
    assert fetched.problems == []
    page, latin, moved, offer, data = fetched.attachments
    words = f"# Ferries\n\n## Fares\n\n{WORDS}40 £. [map]({server}/map)\n\n| day |\n| --- |\n| Mo **\\|** Tu |\n"
    assert (page.name, page.text) == (f"{server}/page", words)
    assert latin.text == words and (moved.name, moved.text) == (f"{server}/moved", words)
    assert offer.text == "[page 1]\nForty euros.\n" and data.text == '{"price": 40}\n'


async def test_a_page_that_cannot_be_had_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(asked := []) as server:
        fetched = await fetch_pages([f"{server}{path}" for path in PROBLEMS])
        monkeypatch.setattr(web_page, "MOST_FETCH_SECONDS", 1.0)
        silent = await fetch_pages([f"{server}/silent"])
        secret = await fetch_pages([server.replace("//", "//me:secret@") + "/page"])
    assert fetched.attachments == [] and len(fetched.problems) == len(PROBLEMS)
    for said, (path, problem) in zip(fetched.problems, PROBLEMS.items()):
        assert said.startswith(f"{server}{path} {problem}")
    assert silent.problems[0].startswith(f"{server}/silent did not arrive within 1 s")
    assert "/page" not in asked and "has a user name or a password in it" in secret.problems[0]


async def test_a_page_comes_through_the_persons_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(asked := []) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy)
        fetched = await fetch_pages(["http://ferries.invalid/page"])
    assert asked == ["http://ferries.invalid/page"]
    assert fetched.problems == [] and "forty euros" in fetched.attachments[0].text


def test_an_address_ends_before_the_punctuation_of_its_sentence() -> None:
    text = "see @https://a.org/b_(c), or (@http://d.org/e?f=g#h). Not https://i.org, me@https.org or @https:"
    found = mentions(text, current_folder())
    assert [(one.raw, one.kind) for one in found] == [("https://a.org/b_(c)", "page"), ("http://d.org/e?f=g#h", "page")]
    assert text[found[1].start : found[1].end] == "@http://d.org/e?f=g#h"
