"""Turns conversations of other programs into ours.

Messages that their program does not show are left out, and their successors are attached to their predecessors. Several
pieces of one turn, such as an answer around its tool calls, become one answer, because chat templates require
alternating roles. An id is computed from the text and the ids before it. So a later export of the same conversation has
the same ids as far as the texts are equal, and a branch where they differ.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Any

from app.archive.errors import Unsuitable
from storage import Conversation, Message, Role, WholeConversation
from storage.words import well_formed

LONGEST_NAME = 120
"""How many characters of a model's name are kept."""
ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}
"""Our roles by the names that other programs give them."""


@dataclass
class ForeignMessage:
    """One message of another program. `key` and `parent` are ids of that program."""

    key: str
    parent: str | None
    role: Role | None
    """None if the message is to be left out."""
    text: str = ""
    created: str | None = None
    """UTC, ISO 8601, if known."""
    stats: dict[str, float | int | str | None] = field(default_factory=dict)
    finished: bool = True


@dataclass
class ForeignConversation:
    source: str
    """The name of the program, which the statistics of each answer keep."""
    key: str
    title: str
    messages: Sequence[ForeignMessage]
    tip: str | None
    """Key of the message that is shown last, by default the last one."""
    created: str | None = None
    updated: str | None = None
    left_out: Counter[str] = field(default_factory=Counter)
    """How often each kind of content was left out, by its description."""


def converted(foreign: ForeignConversation) -> WholeConversation:
    """The conversation as one of ours. Raises `Unsuitable` if nothing in it can be imported."""
    nodes = _in_order(foreign.messages)
    above = _visible_parents(nodes)
    children = Counter(above[node.key] for node in nodes if node.role is not None)
    conversation_id = content_id("conversation", foreign.source, foreign.key)
    start = foreign.created or next((node.created for node in nodes if node.created), None) or _EPOCH
    messages: dict[str, Message] = {}  # By the key of the first node of each.
    stands_for: dict[str, str] = {}  # Node -> first node of its message.
    for node in nodes:
        parent = above[node.key]
        if node.role is None:
            continue
        before = None if parent is None else messages[stands_for[parent]]
        if before is not None and before.role == node.role == "assistant" and children[parent] == 1:
            stands_for[node.key] = stands_for[parent or ""]
            messages[stands_for[node.key]] = _joined(before, node)
            continue
        stands_for[node.key] = node.key
        messages[node.key] = Message(
            id="",
            conversation_id=conversation_id,
            parent_id=None if parent is None else stands_for[parent],
            role=node.role,
            text=well_formed(node.text),
            status="done" if node.finished else "stopped",
            tokens=(),
            provenance=(),
            stats={"source": foreign.source, **node.stats} if node.role == "assistant" else {},
            created=node.created or (before.created if before else start),
        )
    if not messages:
        raise Unsuitable("it has no message to show")
    ids = _ids(conversation_id, messages)
    tip = foreign.tip
    while tip is not None and tip not in stands_for:
        tip = above.get(tip)
    if tip is None:
        tip = next(reversed(stands_for))
    placed = tuple(
        replace(message, id=ids[key], parent_id=ids.get(message.parent_id or "")) for key, message in messages.items()
    )
    latest = max(message.created for message in placed)
    return WholeConversation(
        Conversation(
            conversation_id,
            " ".join(well_formed(foreign.title).split()),
            ids[stands_for[tip]],
            created=start,
            updated=foreign.updated or latest,
        ),
        placed,
        (),
    )


def _in_order(nodes: Sequence[ForeignMessage]) -> list[ForeignMessage]:
    """Sorts by time, if known, without putting a message before its parent. A missing parent is ignored.

    Raises `Unsuitable` if two have the same key, or if parents form a cycle.
    """
    place = {node.key: at for at, node in enumerate(nodes)}
    if len(place) < len(nodes):
        raise Unsuitable("two of its messages have the same id")
    below: dict[str | None, list[int]] = {}
    for at, node in enumerate(nodes):
        below.setdefault(node.parent if node.parent in place else None, []).append(at)
    ordered: list[ForeignMessage] = []
    ready = [("", at) for at in below.get(None, [])]
    heapq.heapify(ready)
    while ready:
        time, at = heapq.heappop(ready)
        node = nodes[at]
        ordered.append(node)
        for child in below.get(node.key, []):
            heapq.heappush(ready, (max(time, nodes[child].created or ""), child))
    if len(ordered) < len(nodes):
        raise Unsuitable(f"{len(nodes) - len(ordered)} of its messages form a cycle")
    return ordered


def _visible_parents(nodes: Sequence[ForeignMessage]) -> dict[str, str | None]:
    """Maps each message to the nearest one above it that is not left out. Parents must come first."""
    above: dict[str, str | None] = {}
    hidden = {node.key for node in nodes if node.role is None}
    known = {node.key for node in nodes}
    for node in nodes:
        parent = node.parent if node.parent in known else None
        above[node.key] = above[parent] if parent in hidden else parent
    return above


def _joined(message: Message, node: ForeignMessage) -> Message:
    text = "\n\n".join(part for part in (message.text, well_formed(node.text)) if part)
    status = message.status if node.finished else "stopped"
    return replace(message, text=text, status=status, stats={**message.stats, **node.stats})


def _ids(conversation_id: str, messages: Mapping[str, Message]) -> dict[str, str]:
    """An id for each message; parents must come first. Branches with the same text differ by their position."""
    ids: dict[str, str] = {}
    taken: Counter[str] = Counter()
    for key, message in messages.items():
        found = content_id(ids.get(message.parent_id or "", conversation_id), message.role, message.text)
        taken[found] += 1
        ids[key] = found if taken[found] == 1 else content_id(found, str(taken[found]))
    return ids


def content_id(*parts: str) -> str:
    """An id that depends only on the parts."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()


# ---- what other programs write ---------------------------------------------------------------------------------------

_EPOCH = "1970-01-01T00:00:00.000+00:00"


def time_of(value: object) -> str | None:
    """The time in UTC, ISO 8601, from seconds since 1970 or from a date as text, or None for anything else.

    A date without a time zone counts as UTC.
    """
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        elif isinstance(value, (int, float)) and value > 0:
            moment = datetime.fromtimestamp(value, UTC)
        else:
            return None
        moment = moment.astimezone(UTC)
        return moment.isoformat(timespec="milliseconds") if MINYEAR < moment.year < MAXYEAR else None
    except (ValueError, OverflowError, OSError):
        return None


def name_of(value: object) -> str | None:
    """A model's name without control characters, or None if there is none."""
    if not isinstance(value, str):
        return None
    return "".join(filter(str.isprintable, well_formed(value)))[:LONGEST_NAME] or None


def fenced(code: str, language: str = "") -> str:
    """Code in a Markdown fence; empty if there is none."""
    if not code:
        return ""
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}{name_of(language) or ''}\n{code}\n{fence}"


def field_of(value: object, name: str, kind: type[Any]) -> Any:
    """A field of an object. Returns an empty value if either does not have the expected type."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else kind()


def text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def text_row(cursor: sqlite3.Cursor, cells: tuple[object, ...]) -> sqlite3.Row:
    """A row of a database, with text in place of bytes: SQLite takes them in a column for text, too."""
    return sqlite3.Row(cursor, tuple(str(one, "utf-8", "replace") if isinstance(one, bytes) else one for one in cells))
