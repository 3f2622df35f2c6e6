"""Server-sent events, read as in WHATWG's "Interpreting an event stream".

Lines end in LF, CR LF or CR. A colon begins a comment, with which a server keeps a quiet line alive. The `data` lines
of one event are joined by LF. A blank line ends the event. An event that the end of the stream cuts off is dropped.
Bytes may be split anywhere, inside a character or between CR and LF. One addition: llama.cpp sends an error inside an
answer as `error: {…}`, which is read as an event with that error.
"""

from __future__ import annotations

MAX_EVENT_BYTES = 1 << 20
COMMENT = b": still here\n\n"
"""Clients pass over it. It keeps them, and the proxies on the way, from giving up a line that says nothing for long."""
QUIET_SECONDS = 10.0
"""Clients and proxies that give up a quiet line do so after 15 s or more, most after 60."""
BOM = b"\xef\xbb\xbf"


class EventTooLong(ValueError):
    """An event or a line that is too long to be read."""


class EventReader:
    """Turns bytes into the data of whole events."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[str] = []
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
        events = []
        for part in ended:
            self._grow(part)
            line = bytes(self._line)
            self._line.clear()
            if (event := self._take(line)) is not None:
                events.append(event)
        self._grow(rest)
        return events

    def _grow(self, part: bytes) -> None:
        self._line += part
        if len(self._line) + self._size > MAX_EVENT_BYTES:
            raise EventTooLong(f"an event of more than {MAX_EVENT_BYTES} bytes")

    def _take(self, line: bytes) -> str | None:
        """The event that this line ends, if any."""
        if self._first:
            line, self._first = line.removeprefix(BOM), False
        if not line:
            event = "\n".join(self._data) if self._data else None
            self._data, self._size = [], 0
            return event
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", errors="replace"))
            self._size += len(line)
        elif field == b"error" and value.lstrip().startswith(b"{"):
            self._data.append('{"error":' + value.decode("utf-8", errors="replace") + "}")
            self._size += len(line)
        return None


def event(data: bytes) -> bytes:
    """Encode one event whose data is one line."""
    return b"data: " + data + b"\n\n"
