"""Keeps a bracketed paste whole: everything between its two marks is text, never keys.

Textual's parser reads escape sequences inside a paste too. It turns the first unknown one, and everything after it,
into keys: a newline sends half a message, and BEL (Ctrl+G) opens the editor. The parser here extracts the text before
Textual's parser sees it.
"""

from __future__ import annotations

import os
import selectors
import time
from codecs import getincrementaldecoder
from collections.abc import Iterable
from typing import Any

from textual import events
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from app.sanitise import sanitise_paste
from app.tui.textual_private import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser, outlive_terminal

TICK_SECONDS = 0.1
"""Seconds between checks whether a lone escape was the key Esc."""
READ_BYTES = 4096
CANCELS, SILENT_SECONDS = ("\x03", "\x1b"), 1.0
"""Keys that end a paste whose end mark was lost with the connection, if no input has arrived for this many seconds."""


class PasteParser(XTermParser):
    """Hands keys, mouse and reports to Textual's parser, and turns each bracketed paste into one `events.Paste`."""

    def __init__(self, debug: bool = False) -> None:
        self._matched = 0
        """The number of characters of the start mark received so far."""
        self._pasted: list[str] | None = None
        """The pieces of an unfinished paste; None outside of a paste."""
        self._heard = 0.0
        super().__init__(debug)

    def feed(self, data: str) -> Iterable[Message]:
        now = time.monotonic()
        if self._pasted is not None and data in CANCELS and now - self._heard > SILENT_SECONDS:
            data = BRACKETED_PASTE_END
        self._heard = now
        if not data:  # The input has ended.
            yield from super().feed(data)
        while data:
            if self._pasted is None:
                keys, data = self._until_paste(data)
                yield from super().feed(keys)
            else:
                text, data = self._until_end(data)
                if text is not None:
                    # Textual's parser has seen the start mark, and now sees the end mark: an empty paste.
                    yield from (m for m in super().feed(BRACKETED_PASTE_END) if not isinstance(m, events.Paste))
                    yield events.Paste(sanitise_paste(text))

    def _until_paste(self, data: str) -> tuple[str, str]:
        """Splits the data after a start mark, which may have begun in an earlier read.

        Without one, everything is keys.
        """
        for at, char in enumerate(data):
            if char == BRACKETED_PASTE_START[self._matched]:
                self._matched += 1
            else:
                self._matched = int(char == BRACKETED_PASTE_START[0])
            if self._matched == len(BRACKETED_PASTE_START):
                self._matched, self._pasted = 0, [""]
                return data[: at + 1], data[at + 1 :]
        return data, ""

    def _until_end(self, data: str) -> tuple[str | None, str]:
        """The text of the paste if it ends in this data, else None; and the data after it."""
        assert self._pasted is not None
        data = self._pasted.pop() + data  # The last piece may contain the beginning of the end mark.
        text, mark, rest = data.partition(BRACKETED_PASTE_END)
        if mark:
            text, self._pasted = "".join([*self._pasted, text]), None
            return text, rest
        split = max(0, len(data) - len(BRACKETED_PASTE_END) + 1)
        self._pasted += [data[:split], data[split:]]
        return None, ""


class TerminalGone(Message):
    """The terminal has closed although its hang-up signal is ignored, so nobody is left to type or read."""


class PasteDriver(LinuxDriver):
    """The driver of a Unix terminal, with a `PasteParser`. It ends with its terminal."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        outlive_terminal(self)

    def run_input_thread(self) -> None:
        """Read until the application leaves the terminal, or the terminal is gone: Textual reads on for ever then."""
        parser = PasteParser()
        # A paste from another program may hold bytes that are not UTF-8.
        decode = getincrementaldecoder("utf-8")("replace").decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(TICK_SECONDS):
                    try:
                        data = os.read(self.fileno, READ_BYTES)
                    except BlockingIOError:  # Another program has taken it first.
                        continue
                    except OSError:  # EIO: hung up.
                        data = b""
                    if not data:
                        self.process_message(TerminalGone())
                        return
                    for message in parser.feed(decode(data)):
                        self.process_message(message)
                for message in parser.tick():
                    self.process_message(message)


def with_whole_pastes(driver: type[Driver]) -> type[Driver]:
    """Replaces the driver of a Unix terminal by a `PasteDriver`, and returns any other driver as it is."""
    return PasteDriver if driver is LinuxDriver else driver
