"""Conversations of other programs, brought into the shape of ours.

What is not shown to a person is left out, and what came after it joins what came before. Several pieces of one turn,
an answer around its tool calls, become one answer: chat templates want the roles to alternate. Ids are computed from
the content and from those of the messages before, so the same conversation exported again later has the same ids
where it says the same, and a branch where it does not.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from app.archive.errors import Unsuitable
from storage import Conversation, Message, Role, WholeConversation
from storage.records import well_formed

LONGEST_NAME = 120
"""Characters of a model's name that are kept."""


@dataclass
class Node:
    """One message of another program; `key` and `parent` are its own ids."""

    key: str
    parent: str | None
    role: Role | None
    """None: it is left out."""
    text: str = ""
    created: str | None = None
    """UTC, ISO 8601; None: unknown."""
    stats: dict[str, float | int | str | None] = field(default_factory=dict)
    finished: bool = True


@dataclass
class Foreign:
    """A conversation of another program."""

    source: str
    """The program, as it is named in the statistics of the answers."""
    key: str
    title: str
    nodes: Sequence[Node]
    tip: str | None
    """The node that is shown last; None: the last one."""
    created: str | None = None
    updated: str | None = None
    left_out: Counter[str] = field(default_factory=Counter)
    """What of it is not imported, and how often: in words, for the person."""


def whole(foreign: Foreign) -> WholeConversation:
    """Raises `Unsuitable` where there is nothing to import."""
    nodes = _in_order(foreign.nodes)
    above = _visible_parents(nodes)
    children = Counter(above[node.key] for node in nodes if node.role is not None)
    conversation_id = content_id("conversation", foreign.source, foreign.key)
    start = foreign.created or next((node.created for node in nodes if node.created), None) or _EPOCH
    messages: dict[str, Message] = {}  # By their place in `nodes` where they begin.
    stands_for: dict[str, str] = {}  # A node, and the one whose message it is part of.
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
        raise Unsuitable("it holds no message that could be shown")
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


def _in_order(nodes: Sequence[Node]) -> list[Node]:
    """By time as far as it is known, but no node before its parent. A parent that is missing is none.

    Raises `Unsuitable` where a node comes before itself.
    """
    place = {node.key: at for at, node in enumerate(nodes)}
    below: dict[str | None, list[int]] = {}
    for at, node in enumerate(nodes):
        below.setdefault(node.parent if node.parent in place else None, []).append(at)
    ordered: list[Node] = []
    ready = [("", at) for at in below.get(None, [])]
    heapq.heapify(ready)
    while ready:
        time, at = heapq.heappop(ready)
        node = nodes[at]
        ordered.append(node)
        for child in below.get(node.key, []):
            heapq.heappush(ready, (max(time, nodes[child].created or ""), child))
    if len(ordered) < len(nodes):
        raise Unsuitable(f"{len(nodes) - len(ordered)} of its messages come before themselves")
    return ordered


def _visible_parents(nodes: Sequence[Node]) -> dict[str, str | None]:
    """For each node, in order, the nearest one before it that is not left out."""
    above: dict[str, str | None] = {}
    hidden = {node.key for node in nodes if node.role is None}
    known = {node.key for node in nodes}
    for node in nodes:
        parent = node.parent if node.parent in known else None
        above[node.key] = above[parent] if parent in hidden else parent
    return above


def _joined(message: Message, node: Node) -> Message:
    text = "\n\n".join(part for part in (message.text, well_formed(node.text)) if part)
    status = message.status if node.finished else "stopped"
    return replace(message, text=text, status=status, stats={**message.stats, **node.stats})


def _ids(conversation_id: str, messages: Mapping[str, Message]) -> dict[str, str]:
    """Parents come first. Two branches that say the same from the beginning are told apart by their place."""
    ids: dict[str, str] = {}
    taken: Counter[str] = Counter()
    for key, message in messages.items():
        found = content_id(ids.get(message.parent_id or "", conversation_id), message.role, message.text)
        taken[found] += 1
        ids[key] = found if taken[found] == 1 else content_id(found, str(taken[found]))
    return ids


def content_id(*parts: str) -> str:
    """An id that the same parts always get."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()


# ---- what other programs write ---------------------------------------------------------------------------------------

_EPOCH = "1970-01-01T00:00:00.000+00:00"


def time_of(value: object) -> str | None:
    """UTC, ISO 8601, of seconds since 1970 or of a date as text, which is UTC where it does not say; None otherwise."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        elif isinstance(value, (int, float)) and value > 0:
            moment = datetime.fromtimestamp(value, UTC)
        else:
            return None
        return moment.astimezone(UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None


def name_of(value: object) -> str | None:
    """A model's name as it may be shown."""
    if not isinstance(value, str):
        return None
    return "".join(filter(str.isprintable, well_formed(value)))[:LONGEST_NAME] or None
