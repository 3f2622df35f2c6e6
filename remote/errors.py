"""Everything that can go wrong between a device and its verifier.

RemoteError
├── LinkDown            no usable answer: the device continues alone and probes until the line is back
│   ├── Broken          the connection or the server behind a proxy failed during the request; the same request
│   │                   may be sent again at once
│   ├── Unsent          no connection could be made, so nothing was sent
│   └── Stranger        something else answered: a login page, another service
├── Refused             the verifier answered, and said no
│   └── Busy            it refused before it began; the same request may be sent again later
├── Incompatible        the server cannot verify for this device, now or later
├── NotDelivered        the drafter that a verifier offers cannot be kept, or is not what was offered
└── Misconfigured       an address or a token cannot be used; nothing was sent

Each message is one printable sentence that names what failed and what to do next.
"""

from __future__ import annotations

import re

from remote.protocol import Error, ErrorCode

UPDATE = "update Outrider here and on the server"
"""Advice for when the two sides do not understand each other."""
MAX_QUOTE = 300
_SEQUENCE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
"""Colours, and what else a terminal would obey: CSI and OSC sequences."""


def quoted(text: str) -> str:
    """Make text from elsewhere safe for a message: printable characters only, and not too many."""
    text = _SEQUENCE.sub("", text)
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable if len(printable) <= MAX_QUOTE else printable[: MAX_QUOTE - 1] + "…"


class RemoteError(Exception):
    """Any failure of a verifier or of the connection to it."""


class LinkDown(RemoteError):
    """No usable answer: no connection, no reply in time, a broken stream, or a page from something else."""


class TooSlow(LinkDown):
    """The server sent nothing before its deadline."""


class Broken(LinkDown):
    """The connection, or the server behind a proxy, failed during a request.

    Rounds are idempotent, so the same one may be sent again.
    """


class Unsent(LinkDown):
    """No connection could be made. Nothing was sent, so the request may be repeated."""


class Stranger(LinkDown):
    """Something else answered: a login page, or another service at this address.

    `status`: the HTTP status of the answer; 0 if it means nothing.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class NotDelivered(RemoteError):
    """The drafter that a verifier offers cannot be kept here, or is not what was offered."""


class Refused(RemoteError):
    """A typed refusal. `retry`: the same request may succeed later."""

    def __init__(self, error: Error) -> None:
        super().__init__(quoted(error.message))
        self.told = error
        """The refusal with its full message."""
        self.code: ErrorCode = error.code
        self.retry = error.retry


class Busy(Refused):
    """A refusal before any work began. `after`: seconds until it is worth asking again, if known."""

    def __init__(self, error: Error, after: float | None = None) -> None:
        super().__init__(error)
        self.after = after


class Incompatible(RemoteError):
    """Another protocol version, another tokenizer, or answers that do not follow from what was asked."""


class Misconfigured(RemoteError, ValueError):
    """An address or a token that cannot be used."""
