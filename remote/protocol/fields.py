"""The building blocks of all messages: versions, bounds, field types, and errors."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from models.config import DIGEST_BYTES

VERSION = 1

CONTENT_TYPE = "application/x-outrider-msgpack"

SESSION_HEADER = "x-session-id"
"""The header that names the session of a request, so that it reaches the replica that has its rows."""


MAX_FRAME_BYTES = 64 << 20

MAX_NODES = 1 << 15
"""Most nodes of a tree on the wire, because parents are int16."""

MAX_CANDIDATES = 256
"""Most candidates for the children of one node."""

MAX_LIKELIEST = 8
"""Most tokens of one of the target's distributions."""

Count = Annotated[int, Meta(ge=0, lt=1 << 31)]

Positive = Annotated[int, Meta(ge=1, lt=1 << 31)]

Token = Annotated[int, Meta(ge=0, lt=1 << 31)]

TopTokens = Annotated[int, Meta(ge=0, le=MAX_LIKELIEST)]

Digest = Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]

FileDigest = Annotated[bytes, Meta(min_length=32, max_length=32)]
"""SHA-256."""

SessionId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
"""Chosen at random by the device. Whoever knows it may continue the session."""


class ProtocolError(ValueError):
    """A message that this version cannot read. The error text says what is wrong."""


class CutOff(ProtocolError):
    """A stream that ended inside a frame: the line broke, and the same request may be sent again."""


class Struct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a message. It is immutable, has fields by name, and ignores unknown fields so that minor versions mix.

    The bounds in the types of fields are checked when a message is decoded.
    """


T = TypeVar("T", bound=Struct)
