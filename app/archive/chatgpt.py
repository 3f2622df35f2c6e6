"""Reads the conversations of a ChatGPT export: `conversations.json`, or several such files.

A conversation is a `mapping` of nodes that name their parents; edits and regenerations are branches. The format is not
documented and has changed over the years, so any part of it may be missing: dates, metadata, children, whole messages.
Text is imported. Images, files and audio are replaced by a short remark. Whatever ChatGPT itself does not show is left
out: system prompts, memory, tool calls, thoughts.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from app.archive.errors import Unsuitable
from app.archive.foreign import ForeignConversation, ForeignMessage, fenced, field_of, name_of, text_or_empty, time_of

SOURCE = "ChatGPT"
HIDDEN = {
    "user_editable_context": "custom instructions",
    "model_editable_context": "memory",
    "thoughts": "thoughts",
    "reasoning_recap": "thoughts",
}
REFERENCE = re.compile("\ue200([^\ue200\ue201\ue202]*)\ue202?([^\ue200\ue201]*)\ue201")
"""A mark in an answer that ChatGPT shows as a source, a name or an image: first its kind, then its content."""
REMARKS = {
    "image_asset_pointer": "picture",
    "audio_asset_pointer": "sound",
    "real_time_user_audio_video_asset_pointer": "sound",
    "video_container_asset_pointer": "video",
}


def is_chatgpt(document: object) -> bool:
    """True for a ChatGPT conversation, or a list with one."""
    listed = document if isinstance(document, list) else [document]
    return any(isinstance(item, dict) and isinstance(item.get("mapping"), dict) for item in listed)


def conversation(item: object) -> ForeignConversation:
    """Reads one element of the list. Raises `Unsuitable`."""
    if not isinstance(item, dict) or not isinstance(item.get("mapping"), dict):
        raise Unsuitable("it has no messages (no `mapping`)")
    left_out: Counter[str] = Counter()
    parents = _parents(item["mapping"])
    default = name_of(item.get("default_model_slug"))
    nodes = [_node(key, entry, parents.get(key), default, left_out) for key, entry in item["mapping"].items()]
    key = item.get("conversation_id") or item.get("id") or next(iter(item["mapping"]), "")
    tip = item.get("current_node")
    return ForeignConversation(
        source=SOURCE,
        key=str(key),
        title=text_or_empty(item.get("title")),
        messages=nodes,
        tip=tip if isinstance(tip, str) and tip in item["mapping"] else None,
        created=time_of(item.get("create_time")),
        updated=time_of(item.get("update_time")),
        left_out=left_out,
    )


def _parents(mapping: Mapping[str, Any]) -> dict[str, str]:
    """Maps nodes to their parents, according to each node, or else to the parents' lists of children."""
    parents: dict[str, str] = {}
    for key, entry in mapping.items():
        for child in field_of(entry, "children", list):
            if isinstance(child, str) and child != key:
                parents.setdefault(child, key)
    for key, entry in mapping.items():
        parent = entry.get("parent") if isinstance(entry, dict) else None
        if isinstance(parent, str) and parent in mapping:
            parents[key] = parent
    return parents


def _node(
    key: str, entry: object, parent: str | None, default_model: str | None, left_out: Counter[str]
) -> ForeignMessage:
    message = field_of(entry, "message", dict)
    author = field_of(message, "author", dict)
    content = field_of(message, "content", dict)
    metadata = field_of(message, "metadata", dict)
    kind = text_or_empty(content.get("content_type")) or "text"
    role = author.get("role")
    if not message or role not in ("user", "assistant", "tool", "system"):
        return ForeignMessage(key, parent, None)
    remarked: Counter[str] = Counter()
    text = _referring(_said(content, kind, remarked), metadata, remarked)
    if reason := _why_hidden(role, kind, message, metadata):
        if text or kind in HIDDEN:
            left_out[reason] += 1
        return ForeignMessage(key, parent, None)
    if role == "user":
        text = "\n\n".join([*_attached(metadata, content, remarked), *([text] if text else [])])
    if not text:
        return ForeignMessage(key, parent, None)
    left_out.update(remarked)
    model = name_of(metadata.get("model_slug")) or default_model
    return ForeignMessage(
        key,
        parent,
        "user" if role == "user" else "assistant",
        text,
        time_of(message.get("create_time")),
        {"model": model} if model and role != "user" else {},
        finished=message.get("status") in (None, "finished_successfully"),
    )


def _why_hidden(role: str, kind: str, message: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """The kind of hidden message that this is; empty if ChatGPT shows it."""
    if kind in HIDDEN:
        return HIDDEN[kind]
    if role == "system":
        return "system prompts"
    if metadata.get("is_visually_hidden_from_conversation") or message.get("weight") == 0:
        return "hidden messages"
    if role == "tool" and kind != "multimodal_text":  # Images come from tools, but are shown.
        return "tool outputs"
    if role == "assistant" and message.get("recipient") not in (None, "all"):
        return "tool calls"
    return ""


def _said(content: Mapping[str, Any], kind: str, left_out: Counter[str]) -> str:
    if kind == "code":
        language = text_or_empty(content.get("language"))
        return fenced(text_or_empty(content.get("text")), "" if language == "unknown" else language)
    if kind == "execution_output":
        return fenced(text_or_empty(content.get("text")), "")
    parts = content.get("parts")
    if isinstance(parts, list):
        return "\n\n".join(said for part in parts if (said := _part(part, left_out)))
    for name in ("text", "result", "content"):
        if said := text_or_empty(content.get(name)):
            return said
    if kind != "text":
        left_out[f"content of the kind {name_of(kind)}"] += 1
        return f"[{name_of(kind)}: not in the import]"
    return ""


def _referring(text: str, metadata: Mapping[str, Any], left_out: Counter[str]) -> str:
    """The text with links and names in place of the model's marks."""
    shown = {
        text_or_empty(field_of(reference, "matched_text", str)): field_of(reference, "alt", str)
        for reference in field_of(metadata, "content_references", list)
    }

    def instead(found: re.Match[str]) -> str:
        said = shown.get(found[0]) or _named(*found.groups())
        if not said:
            left_out["references"] += 1
        return said

    return REFERENCE.sub(instead, text)


def _named(kind: str, what: str) -> str:
    """The text inside a mark; empty if the mark is only the number of a source."""
    if kind == "url":
        return what.partition("\ue202")[0]
    if kind == "entity":
        try:
            found = json.loads(what)
        except (ValueError, RecursionError):
            return ""
        return text_or_empty(found[1]) if isinstance(found, list) and len(found) > 1 else ""
    return ""


def _part(part: object, left_out: Counter[str]) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    kind = text_or_empty(part.get("content_type"))
    if said := text_or_empty(part.get("text")):  # For example the transcript of speech.
        return said
    thing = REMARKS.get(kind, name_of(kind) or "attachment")
    left_out[f"attachments ({thing})"] += 1
    return f"[{thing}: not in the import]"


def _attached(metadata: Mapping[str, Any], content: Mapping[str, Any], left_out: Counter[str]) -> list[str]:
    """Remarks for the files attached to a question. Images are skipped, because they are also parts of the question."""
    shown = [field_of(part, "asset_pointer", str) for part in field_of(content, "parts", list)]
    remarks = []
    for attachment in field_of(metadata, "attachments", list):
        identifier = field_of(attachment, "id", str)
        if not identifier or not any(pointer.endswith(identifier) for pointer in shown):
            left_out["attachments (file)"] += 1
            name = name_of(field_of(attachment, "name", str))
            remarks.append(f"[file {name or ''}: not in the import]".replace(" :", ":"))
    return remarks
