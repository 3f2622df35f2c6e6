"""The log: what the program did, in one rotated file. It contains no secrets and no conversations (see below).

The text of an exception may quote a conversation, so the log has only its class and its location, unless the setting
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
from app.files import create_private
from app.sanitise import sanitise

MOST_BYTES = 512 * 1024
KEPT_FILES = 2
"""Number of older files kept with the current one: `outrider.log.1` and `.2`."""
MOST_CHARACTERS = 500
"""Longest message; longer ones are cut off."""
READ_BYTES = 1 << 20
"""Most bytes that are read at once: more than a log holds before it is rotated."""
HIDDEN = "[hidden]"
BEARER = re.compile(r"(?i)\b(bearer|token|password|api[_-]?key)([ =:]+)(?!of )\S+")
CREDENTIALS = re.compile(r"://[^\s@]*@")
"""The part of an address before its host, even if it is not escaped properly."""

log = logging.getLogger("outrider")


class LogHandler(RotatingFileHandler):
    """A file handler that never interferes: if the log cannot be written, nothing fails and nothing is printed."""

    def handleError(self, record: logging.LogRecord) -> None:
        del record

    def _open(self):  # type: ignore[no-untyped-def]
        create_private(Path(self.baseFilename))
        return super()._open()


class LineFormatter(logging.Formatter):
    """Writes one line for each record, then the traceback locations of its exception. Secrets become `[hidden]`.

    `words`: also write the exception's message.
    """

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
            hidden = error.__suppress_context__  # As in a traceback: another library's message may quote a secret.
            error = error.__cause__ or (None if hidden else error.__context__)  # type: ignore[assignment]
        return "".join(f"\n    {line}" for line in lines)

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        text = CREDENTIALS.sub(f"://{HIDDEN}@", BEARER.sub(rf"\1\2{HIDDEN}", " ".join(sanitise(text).split())))
        return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


_current: LogHandler | None = None


def open_log(file: Path, level: str, secrets: Iterable[str] = ()) -> None:
    """Log to this file and to no other. `level`: debug, info, warning or error."""
    global _current
    root = logging.getLogger()
    if _current is not None:
        root.removeHandler(_current)
        _current.close()
    _current = LogHandler(file, maxBytes=MOST_BYTES, backupCount=KEPT_FILES, encoding="utf-8", delay=True)
    _current.setFormatter(LineFormatter(secrets, words=level == "debug"))
    root.addHandler(_current)
    log.setLevel(level.upper())  # Only this logger: below a warning, httpx would log whole addresses.
    command = next((word for word in sys.argv[1:2] if re.fullmatch(r"[a-z]{1,16}", word)), "chat")
    log.info("%s begins, with Python %s on %s", command, platform.python_version(), platform.system())


def note(event: Event) -> None:
    """Log the outcome of a reply, without its text and without the server's words."""
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


class LogFile:
    """Reads the log while others write it: its last lines, then new ones, also after a rotation.

    Its lines are sanitised, because other programs may write to the file too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = 0
        self._file: tuple[int, int] | None = None
        """Device and inode of the file that was read last."""
        self._rest = b""

    def last(self, lines: int) -> list[str]:
        """The last lines; empty if there is no log. Raises `OSError`."""
        new = self.new()
        return new[-lines:] if lines else []

    def new(self) -> list[str]:
        """Complete lines added since the last call; the first call reads from the beginning.

        A missing file has no lines. Raises `OSError` for a file that cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                which = status.st_dev, status.st_ino
                if which != self._file or status.st_size < self._at:
                    self._file, self._at, self._rest = which, max(0, status.st_size - READ_BYTES), b""
                file.seek(self._at)
                data = self._rest + file.read(READ_BYTES)
                self._at = file.tell()
        except FileNotFoundError:
            return []
        whole, newline, self._rest = data.rpartition(b"\n")
        return [sanitise(line) for line in whole.decode("utf-8", "replace").split("\n")] if newline else []
