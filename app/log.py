"""The log: what the program did, in one file that turns over. It holds no secret and nothing that was said.

What an exception says may quote a conversation, so only its kind and its place are written down, unless the setting
`log` is `debug`.
"""

from __future__ import annotations

import logging
import os
import platform
import re
import sys
import traceback
from collections.abc import Iterable
from logging.handlers import RotatingFileHandler
from pathlib import Path

from app.events import Done, Event, Failed, Judged, ModeChanged
from app.sanitise import sanitise

MOST_BYTES = 512 * 1024
KEPT_FILES = 2
"""Older files beside the current one: `outrider.log.1` and `.2`."""
MOST_CHARACTERS = 500
"""Of one message."""
HIDDEN = "[hidden]"
BEARER = re.compile(r"(?i)\b(bearer|token|password|api[_-]?key)([ =:]+)(?!of )\S+")

log = logging.getLogger("outrider")


class Handler(RotatingFileHandler):
    """Never disturbs: a log that cannot be written is no reason to fail, or to write over the screen."""

    def handleError(self, record: logging.LogRecord) -> None:
        del record

    def _open(self):  # type: ignore[no-untyped-def]
        # For this account's eyes only, as the database is.
        Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        return super()._open()


class Formatter(logging.Formatter):
    """One line a record, whatever it holds, then the places of its exception."""

    def __init__(self, secrets: Iterable[str], *, words: bool) -> None:
        super().__init__()
        self._secrets = sorted((secret for secret in secrets if secret), key=len, reverse=True)
        self._words = words

    def format(self, record: logging.LogRecord) -> str:
        when = f"{self.formatTime(record, '%Y-%m-%d %H:%M:%S')}.{record.msecs:03.0f}"
        says = self._clean(record.getMessage())
        line = f"{when} {record.levelname.lower():<7} {record.process} {record.name}: {says}"
        if record.exc_info and record.exc_info[1] is not None:
            line += self._places(record.exc_info[1])
        return line

    def _places(self, error: BaseException) -> str:
        lines: list[str] = []
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            words = f": {self._clean(str(error))}" if self._words else ""
            lines.append(f"{type(error).__module__}.{type(error).__qualname__}{words}")
            for frame in traceback.extract_tb(error.__traceback__):
                lines.append(f"  {frame.filename}:{frame.lineno} {frame.name}")
            error = error.__cause__ or error.__context__  # type: ignore[assignment]
        return "".join(f"\n    {line}" for line in lines)

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        text = BEARER.sub(rf"\1\2{HIDDEN}", " ".join(sanitise(text).split()))
        return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


_current: Handler | None = None


def open_log(file: Path, level: str, secrets: Iterable[str] = ()) -> None:
    """Log to this file from now on, in place of any before. `level`: debug, info, warning or error."""
    global _current
    root = logging.getLogger()
    if _current is not None:
        root.removeHandler(_current)
        _current.close()
    _current = Handler(file, maxBytes=MOST_BYTES, backupCount=KEPT_FILES, encoding="utf-8", delay=True)
    _current.setFormatter(Formatter(secrets, words=level == "debug"))
    root.addHandler(_current)
    log.setLevel(level.upper())  # Other packages log their warnings only: httpx would log whole addresses.
    command = next((word for word in sys.argv[1:2] if re.fullmatch(r"[a-z]{1,16}", word)), "chat")
    log.info("%s begins, with Python %s on %s", command, platform.python_version(), platform.system())


def note(event: Event) -> None:
    """Log what a reply came to. Its text stays out, and so does what a server says about it."""
    if isinstance(event, ModeChanged):
        log.info("mode %s: %s", event.mode, event.why)
    elif isinstance(event, Done):
        stats, verified = event.stats, event.provenance.count(True)
        if stats.streamed is not None:
            log.info("answer: %s after %d streamed tokens in %.1f s", event.reason, stats.streamed, stats.seconds)
            return
        log.info(
            "answer: %s after %d tokens, %d of them verified, in %d rounds and %.1f s",
            event.reason, len(event.token_ids), verified, stats.rounds, stats.seconds,
        )  # fmt: skip
    elif isinstance(event, Judged):
        log.info("verified: %d of %d drafted tokens kept", event.kept, event.of)
    elif isinstance(event, Failed):
        log.warning("no answer: %s", event.code)
        log.debug("no answer: %s", event.message)
