"""Conversations and messages as immutable records, and how their arrays are stored as blobs.

Messages form a tree through their parents; a conversation points at the tip of the branch that is shown. Token ids
are stored as little-endian int32, provenance as one uint8 a token.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from storage.attachments import Attachment
from storage.calls import Call
from storage.choices import NONE, Choices, unpack_choices

Role = Literal["system", "user", "assistant"]
Status = Literal["pending", "streaming", "done", "stopped", "failed"]
FinalStatus = Literal["done", "stopped", "failed"]
INTERRUPTED = "interrupted"
"""The `reason` in the statistics of an answer that was stopped because its program died."""
Stats = Mapping[str, float | int | str | None | Sequence[Mapping[str, float | int | str | None] | Sequence[int | str]]]
"""Statistics of an answer. Lists hold its sources, who wrote which part, and what the target did not keep."""


@dataclass(frozen=True)
class Conversation:
    """A tree of messages under a title. Times are UTC, ISO 8601."""

    id: str
    title: str
    tip_id: str | None
    """The last message of the shown branch, or None if there is no message."""
    created: str
    updated: str
    """When its last message was added or finished."""
    pinned: bool = False
    """Pinned conversations are listed first."""
    choices: Choices = NONE
    """Choices that apply only to this conversation."""


@dataclass(frozen=True)
class Message:
    """One turn. While it is pending or streaming, text, tokens and provenance are those of its last checkpoint."""

    id: str
    conversation_id: str
    parent_id: str | None
    """None for the first message of a branch."""
    role: Role
    text: str
    status: Status
    tokens: tuple[int, ...]
    provenance: tuple[bool, ...]
    """Per token: True if the target verified it."""
    stats: Stats
    created: str
    """UTC, ISO 8601."""
    verifies: str | None = None
    """Id of the drafted answer that this one verifies, which may have been removed."""
    resumes: str | None = None
    """Id of the cut-off answer that this one continues, which may have been removed."""
    attachments: tuple[Attachment, ...] = ()
    """Attachments of a question. Empty in search results: only `rows.with_attachments` reads them."""
    reasoning: str = ""
    """The model's thoughts before its answer. They are not part of the answer, and are not sent back."""
    calls: tuple[Call, ...] = ()
    """The tool calls of an answer, in order. Read where attachments are."""
    summary: bool = False
    """It asks for a summary of all messages above it, or is that summary. It is on no branch that is shown."""

    @property
    def interrupted(self) -> bool:
        """The program that wrote it died before it was complete."""
        return self.status == "stopped" and self.stats.get("reason") == INTERRUPTED

    @property
    def finished(self) -> bool:
        """It is no longer being written, so it never changes."""
        return self.status not in ("pending", "streaming")


CONVERSATION_COLUMNS = """
    conversations.id, conversations.title, conversations.tip_id, conversations.created, conversations.updated,
    conversations.pinned, conversations.choices
"""
SELECT_CONVERSATIONS = f"SELECT {CONVERSATION_COLUMNS} FROM conversations"
"""Includes conversations in the bin."""
MESSAGE_COLUMNS = """
    messages.id, messages.conversation_id, messages.parent_id, messages.role, messages.status, messages.stats,
    messages.created, messages.verifies, messages.resumes, messages.reasoning, messages.summary,
    coalesce(partials.text, messages.text) AS text,
    coalesce(partials.tokens, messages.tokens) AS tokens,
    coalesce(partials.provenance, messages.provenance) AS provenance
"""
WITH_PARTIALS = "LEFT JOIN partials ON partials.message_id = messages.id"
SELECT_MESSAGES = f"SELECT {MESSAGE_COLUMNS} FROM messages {WITH_PARTIALS}"
"""Includes deleted messages."""


def conversation_from(row: Mapping[str, Any]) -> Conversation:
    """Makes a `Conversation` from a row of `CONVERSATION_COLUMNS`."""
    return Conversation(
        row["id"],
        row["title"],
        row["tip_id"],
        row["created"],
        row["updated"],
        pinned=bool(row["pinned"]),
        choices=unpack_choices(row["choices"]),
    )


def message_from(row: Mapping[str, Any]) -> Message:
    """Makes a `Message` from a row of `MESSAGE_COLUMNS`."""
    return Message(
        id=row["id"],
        conversation_id=row["conversation_id"],
        parent_id=row["parent_id"],
        role=row["role"],
        text=row["text"],
        status=row["status"],
        tokens=unpack_tokens(row["tokens"]),
        provenance=tuple(map(bool, row["provenance"])),
        stats=unpack_stats(row["stats"]),
        created=row["created"],
        verifies=row["verifies"],
        resumes=row["resumes"],
        reasoning=row["reasoning"],
        summary=bool(row["summary"]),
    )


def pack_tokens(tokens: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(tokens)}i", *tokens)


def unpack_tokens(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // 4}i", packed)


def pack_provenance(provenance: Iterable[bool]) -> bytes:
    return bytes(map(bool, provenance))


def unpack_stats(packed: str) -> Stats:
    stats: Stats = msgspec.json.decode(packed)
    return stats


def pack_stats(stats: Stats) -> str:
    return msgspec.json.encode(stats).decode()
