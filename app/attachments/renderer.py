"""The text of a question and its attachments that a model reads: a function of the stored data alone."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from app.attachments.documents import Origin, origin_of
from app.attachments.images import dimensions, is_image
from app.attachments.limits import size
from app.attachments.reader import one_line
from storage import Attachment, Message

LONGEST_NAME = 200


def fenced(text: str, language: str = "") -> str:
    """The text in a code fence that is longer than any run of backticks in it, so that nothing in it ends the fence."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{fence}"


def question_text(question: Message) -> str:
    """The question as text: each file under its name, then the typed text. An image is only named."""
    parts = [_part(one) for one in question.attachments]
    return "\n\n".join([*parts, question.text])


def as_read(message: Message) -> Message:
    """The message with the text that a model reads."""
    return replace(message, text=question_text(message)) if message.attachments else message


def data_url(attachment: Attachment) -> str:
    return f"data:{attachment.media_type};base64,{base64.b64encode(attachment.data).decode()}"


def image_names(messages: Sequence[Message]) -> list[str]:
    for message in reversed(messages):
        if message.role == "user":
            return [one_line(one.name) for one in message.attachments if not one.is_text]
    return []


def described(attachment: Attachment) -> str:
    """One line about a file: its name, its size, how large an image is, and how much of a document was read."""
    name = one_line(attachment.name)[:LONGEST_NAME]
    if (origin := origin_of(attachment)) is not None:
        characters = f"{len(attachment.text):,} characters"
        return " · ".join([name, pages, characters] if (pages := read_pages(origin)) else [name, characters])
    wide = dimensions(attachment.data) if is_image(attachment) else None
    pixels = f" · {wide[0]} × {wide[1]}" if wide else ""
    return f"{name} · {size(len(attachment.data))}{pixels}"


def read_pages(origin: Origin) -> str:
    """How much of a document was read, if it has pages or is cut: `12 pages`, `the first 40 of 90 pages`."""
    if not origin.of:
        return "only its beginning" if origin.cut else ""
    if origin.pages < origin.of:
        return f"the first {origin.pages:,} of {origin.of:,} pages"
    pages = "1 page" if origin.of == 1 else f"{origin.of:,} pages"
    return f"{pages}, cut" if origin.cut else pages


def language(attachment: Attachment) -> str:
    """The language of a fence, for syntax colours; empty if the name's ending is unusual, or for a document's text."""
    ending = PurePath(one_line(attachment.name)).suffix[1:].lower()
    return ending if origin_of(attachment) is None and re.fullmatch("[a-z0-9+#]{1,12}", ending) else ""


def _part(attachment: Attachment) -> str:
    name = one_line(attachment.name)[:LONGEST_NAME]
    if not attachment.is_text:
        return f"Image: {name}"
    origin = origin_of(attachment)
    if origin is None:
        return f"File: {name}\n{fenced(attachment.text, language(attachment))}"
    pages = read_pages(origin)
    heading = f"{'Web page' if origin.source == 'web' else 'File'}: {name}{f' ({pages})' if pages else ''}"
    return f"{heading}\n{fenced(attachment.text)}"
