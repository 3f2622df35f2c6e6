"""Pages of the web, from a real server on loopback that does what servers do wrong."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from app.attachments.mentions import mentions
from app.attachments.web_pages import fetch_pages
from app.files import current_folder
from remote import web_page
from tests.app.attachments.test_documents import pdf
from tests.remote.toy_verifier import http, listening

WORDS = "It costs forty euros, and the ferry sails at noon. " * 8
PAGE = f"""<!doctype html><html><head><title>Ferries</title><script>steal()</script></head><body><nav>Home</nav>
<main><h2><a href="#fares">Fares</a></h2><p>{WORDS}40 \xa3.&#x202e;\x1b[31m <a href="/map">map</a></p>
<table><tr><th>day</th></tr><tr><td>Monday</td></tr></table></main><footer>Cookies</footer></body></html>"""
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
    "/file": "redirects to file:///etc/passwd, which is not a page of the web",
    "/metadata": "redirects to 169.254.169.254 in a private network",
    "/hex": "redirects to 0x7f000002 in a private network",
    "/mapped": "redirects to [::ffff:10.0.0.1] in a private network",
    "/film": "is not a page with text but video/mp4",
    "/script": "has no text without its scripts",
    "/gone": "was refused (404 Not Found); check the address",
    "/bomb": "has more than 20 MB, too much to read",
    "/twice": "is compressed in a way that was not asked for (gzip, gzip)",
    "/silent": "did not arrive within 1 s",
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
    words = f"# Ferries\n\n## Fares\n\n{WORDS}40 £. [map]({server}/map)\n\n| day |\n| --- |\n| Monday |\n"
    assert (page.name, page.text) == (f"{server}/page", words)
    assert latin.text == words and (moved.name, moved.text) == (f"{server}/moved", words)
    assert offer.text == "[page 1]\nForty euros.\n" and data.text == '{"price": 40}\n'


async def test_a_page_that_cannot_be_had_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_page, "MOST_FETCH_SECONDS", 1.0)
    async with site(asked := []) as server:
        fetched = await fetch_pages([f"{server}{path}" for path in PROBLEMS])
        secret = await fetch_pages([server.replace("//", "//me:secret@") + "/page"])
    assert fetched.attachments == [] and len(fetched.problems) == len(PROBLEMS)
    for said, (path, problem) in zip(fetched.problems, PROBLEMS.items()):
        assert said.startswith(f"{server}{path} {problem}")
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
