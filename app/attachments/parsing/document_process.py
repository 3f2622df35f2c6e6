"""The process that reads one document: a line of JSON and its bytes on stdin, JSON with its text on stdout.

Everything in the document is hostile. The text that leaves here is clean (`app/sanitise.py`): a page can hide
instructions for the model in characters that no person sees, or sequences that a terminal obeys.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from app.attachments.documents import MOST_ANSWERED, Answer, DocumentText, Job, Kind, Unreadable
from app.sanitise import sanitise

MOST_MEMORY = 2 << 30
MOST_CPU_SECONDS = 25


def main() -> None:
    _limit()
    line, data = sys.stdin.buffer.readline(), sys.stdin.buffer.read()
    job = msgspec.json.decode(line, type=Job)
    try:
        answer = Answer(_clean(_reader(job.kind)(data, job), job.most))
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


def _reader(kind: Kind) -> Callable[[bytes, Job], DocumentText]:
    """What reads documents of a kind. Only its own libraries are loaded."""
    match kind:
        case "pdf":
            from app.attachments.parsing.pdf_text import read_pdf

            return read_pdf
        case "office":
            from app.attachments.parsing.office_text import read_office

            return read_office
        case "html":
            from app.attachments.parsing.html_text import read_html

            return read_html
        case "text":
            from app.attachments.parsing.html_text import read_text

            return read_text


if __name__ == "__main__":
    main()
