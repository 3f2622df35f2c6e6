"""Web pages as attachments: fetched once, with the person's consent, and stored with the question."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from app.attachments.documents import Job, Unreadable, as_attachment, document_kind, read_document
from app.attachments.images import image_kind
from app.attachments.limits import MOST_TEXT_BYTES
from app.attachments.reader import Gathered, Unsuitable, attachment_of, one_line
from remote.web_page import NotFetched, WebPage, fetch_web_page
from storage import Attachment

HTML = ("text/html", "application/xhtml+xml")
TEXTS = ("application/json", "application/xml", "application/javascript", "application/yaml", "application/toml")


async def fetch_pages(addresses: Iterable[str]) -> Gathered:
    """Fetches pages, one after the other. What is wrong with one becomes a sentence in `problems`."""
    gathered = Gathered()
    for address in addresses:
        try:
            page = await fetch_web_page(address)
            gathered.attachments.append(await asyncio.to_thread(_read, address, page))
        except (NotFetched, Unsuitable, Unreadable) as error:
            gathered.problems.append(f"{one_line(address)} {error}")
        except OSError as error:
            gathered.problems.append(f"{one_line(address)} cannot be read: {error.strerror}")
    return gathered


def _read(name: str, page: WebPage) -> Attachment:
    """Turn a page into an attachment, under the name that was typed. Raises `Unsuitable`, `Unreadable`, `OSError`."""
    if image_kind(page.data) is not None or document_kind(page.data) is not None:
        return attachment_of(page.data, name, [])
    kind = page.content_type
    html = kind in HTML or (not kind and page.data.lstrip()[:9].lower().startswith((b"<!doctype", b"<html")))
    if (
        not html
        and kind
        and not kind.startswith("text/")
        and not kind.endswith(("+json", "+xml"))
        and kind not in TEXTS
    ):
        raise Unsuitable(f"is not a page with text but {one_line(kind)[:60]}; save it, and send the part you need")
    job = Job("html" if html else "text", MOST_TEXT_BYTES, page.charset, page.address)
    return as_attachment(name, read_document(page.data, job))
