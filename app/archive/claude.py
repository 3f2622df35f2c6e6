"""Reads the conversations of a Claude export: its `conversations.json`.

A conversation has a list of messages in the order in which they were written. Newer exports name the parent of each, so
edits are branches. Text is imported, including text extracted from files. Thoughts and tool calls are left out, and
other files become a short remark.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from app.archive.errors import Unsuitable
from app.archive.foreign import (
    ROLES,
    ForeignConversation,
    ForeignMessage,
    fenced,
    field_of,
    name_of,
    text_or_empty,
    time_of,
)

SOURCE = "Claude"
HIDDEN = {
    "thinking": "thoughts",
    "redacted_thinking": "thoughts",
    "tool_use": "tool calls",
    "tool_result": "tool outputs",
}


def is_claude(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("chat_messages"), list)


def conversation(item: object) -> ForeignConversation:
    """Reads one element of the list. Raises `Unsuitable`."""
    if not isinstance(item, dict) or not is_claude(item):
        raise Unsuitable("it has no messages (no `chat_messages`)")
    left_out: Counter[str] = Counter()
    nodes, known, last = list[ForeignMessage](), set[str](), None
    for at, message in enumerate(item["chat_messages"]):
        key = field_of(message, "uuid", str)
        if not key or key in known:
            key = f"{key}#{at}"
        known.add(key)
        parent = message.get("parent_message_uuid", last) if isinstance(message, dict) else last
        nodes.append(_node(key, parent if isinstance(parent, str) else None, message, left_out))
        last = key
    tip = item.get("current_leaf_message_uuid")
    return ForeignConversation(
        source=SOURCE,
        key=field_of(item, "uuid", str),
        title=text_or_empty(item.get("name")),
        messages=nodes,
        tip=tip if isinstance(tip, str) else None,
        created=time_of(item.get("created_at")),
        updated=time_of(item.get("updated_at")),
        left_out=left_out,
    )


def _node(key: str, parent: str | None, message: object, left_out: Counter[str]) -> ForeignMessage:
    sender = field_of(message, "sender", str)
    role = "user" if sender == "human" else ROLES.get(sender)
    parts = [_part(part, left_out) for part in field_of(message, "content", list)]
    said = "\n\n".join(filter(None, parts)) or field_of(message, "text", str)
    text = "\n\n".join(filter(None, (*_attached(message, left_out), said)))
    if role not in ("user", "assistant") or not text:
        return ForeignMessage(key, parent, None)
    return ForeignMessage(key, parent, role, text, time_of(field_of(message, "created_at", str)))


def _part(part: object, left_out: Counter[str]) -> str:
    kind = field_of(part, "type", str)
    if kind == "text":
        return str(field_of(part, "text", str))
    left_out[HIDDEN.get(kind) or f"content of the kind {name_of(kind)}"] += 1
    return ""


def _attached(message: Any, left_out: Counter[str]) -> list[str]:
    """The text extracted from a question's files, and remarks for the other files."""
    found = []
    for file in [*field_of(message, "attachments", list), *field_of(message, "files", list)]:
        name = name_of(field_of(file, "file_name", str)) or ""
        if read := field_of(file, "extracted_content", str):
            found.append(f"[file {name}]\n\n{fenced(read)}".replace(" ]", "]"))
        else:
            left_out["attachments (file)"] += 1
            found.append(f"[file {name}: not in the import]".replace(" :", ":"))
    return found
