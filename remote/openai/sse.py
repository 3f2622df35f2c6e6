"""Server-sent events, read as in WHATWG's "Interpreting an event stream", and as servers write them.

Lines end in LF, CR LF or CR. A colon begins a comment, which servers use to keep a quiet line alive. The `data` lines
of one event are joined by LF. A blank line ends the event. Bytes may be split anywhere, inside a character or between
CR and LF. Servers deviate from the standard, so:

- the end of the stream ends the last event, too;
- where the blank line is missing, a line that is a JSON object by itself, or `[DONE]`, ends where the next one begins;
- an event of type `error`, and llama.cpp's line `error: {…}`, are read as an event with that error: `{"error": …}`.
"""

from __future__ import annotations

import json
from typing import Literal

from remote.openai.lenient_json import BOM, parse
from remote.openai.schema import DONE

MAX_EVENT_BYTES = 16 << 20
"""Longest event. It may hold an image, which is skipped."""
COMMENT = b": still here\n\n"
"""Clients ignore it. It keeps them, and proxies on the way, from giving up a connection that is silent for long."""
QUIET_SECONDS = 10.0
"""Clients and proxies that give up a quiet connection do so after at least 15 s, most after 60."""
MAX_NAME = 64
"""Bytes of an event's type that are read."""


FIELDS = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")
"""Possible beginnings of a stream's first line."""


def begins(head: bytes) -> Literal["events", "json", "other"] | None:
    """What a body is, judging by its first bytes, or None if more are needed.

    Servers send streams under any content type, and a whole answer where a stream was asked for.
    """
    head = head.removeprefix(BOM).lstrip()
    if head[:1] in (b"{", b"["):
        return "json"
    if any(head.startswith(field) for field in FIELDS):
        return "events"
    return None if any(field.startswith(head) for field in FIELDS) else "other"


class EventTooLong(ValueError):
    """An event or a line that is too long to be read."""


class EventReader:
    """Turns bytes into the data of whole events."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[str] = []
        self._name = ""
        self._size = 0
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[str]:
        """The data of the events that `chunk` completes. Raises `EventTooLong`."""
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        *ended, rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        events: list[str] = []
        for part in ended:
            self._grow(part)
            events += self._take_line()
        self._grow(rest)
        return events

    def end(self) -> list[str]:
        """The data of the events that the end of the stream completes. The last one may be cut off anywhere."""
        return self._take_line() + self._dispatch()

    def _grow(self, part: bytes) -> None:
        self._line += part
        if len(self._line) + self._size > MAX_EVENT_BYTES:
            raise EventTooLong(f"an event of more than {MAX_EVENT_BYTES} bytes")

    def _take_line(self) -> list[str]:
        """The events that this line ends."""
        line = bytes(self._line)
        self._line.clear()
        if self._first:
            line, self._first = line.removeprefix(BOM), False
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        events: list[str] = []
        if field == b"data":
            if len(self._data) == 1 and _is_whole(self._data[0]):
                events = self._dispatch()
            self._data.append(value.decode("utf-8", errors="replace"))
            self._size += len(line)
        elif field == b"event":
            self._name = value[:MAX_NAME].decode("utf-8", errors="replace")
        elif field == b"error" and value.lstrip().startswith(b"{"):
            self._data.append('{"error":' + value.decode("utf-8", errors="replace") + "}")
            self._size += len(line)
        return events

    def _dispatch(self) -> list[str]:
        """The event that has arrived, if any."""
        data, name = "\n".join(self._data), self._name
        events = [] if not self._data else [_error(data)] if name.strip() == "error" else [data]
        self._data, self._name, self._size = [], "", 0
        return events


def _is_whole(line: str) -> bool:
    """Whether a line of data is complete by itself: a JSON object, or the end marker."""
    return line.strip() == DONE or (line.lstrip()[:1] == "{" and isinstance(parse(line), dict))


def _error(data: str) -> str:
    """An event of type `error`, whose data may be a text or JSON of any shape."""
    told = data if isinstance(parse(data), dict | list) else json.dumps(data)
    return f'{{"error":{told}}}'


def event(data: bytes) -> bytes:
    """Encode one event whose data is one line."""
    return b"data: " + data + b"\n\n"
