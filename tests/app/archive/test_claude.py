"""Exports of Claude: as a file, and as they were downloaded or unpacked."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.archive import claude
from app.archive.errors import Unsuitable
from app.archive.foreign import converted
from app.archive.importer import import_file
from storage import Store


def said(key: str, sender: str, text: str, **more: Any) -> dict[str, Any]:
    part = {"type": "text", "text": text, "citations": []}
    when = f"2026-01-31T12:00:0{key[-1]}.123456Z"
    return {"uuid": key, "text": text, "content": [part], "sender": sender, "created_at": when} | more


TALK = {
    "uuid": "c-1",
    "name": "Tarballs",
    "created_at": "2026-01-31T12:00:00.000000Z",
    "updated_at": "2026-01-31T12:00:09.000000Z",
    "account": {"uuid": "me"},
    "chat_messages": [
        said("m1", "human", "how do I unpack it?", attachments=[{"file_name": "a.txt", "extracted_content": "tar"}]),
        said("m2", "assistant", "Hm. Use tar.", content=[
            {"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Use `tar`."}, {"type": "tool_use"},
        ]),
        said("m3", "human", "", content=[], files=[{"file_name": "b.png"}]),
    ],
}  # fmt: skip
OTHER = {"uuid": "c-2", "name": "", "chat_messages": [said("m4", "human", "hello")]}


def test_its_conversations_are_imported(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([TALK, OTHER]))
        archive.writestr("users.json", "[]")
    report = import_file(store, path)
    assert (report.kind, [result.outcome for result in report.results]) == ("Claude export", ["new", "new"])
    first = report.results[0]
    assert (first.title, first.messages) == ("Tarballs", 3) and first.conversation_id is not None
    thread = store.branches.thread(first.conversation_id)
    assert [(message.role, message.text) for message in thread] == [
        ("user", "[file a.txt]\n\n```\ntar\n```\n\nhow do I unpack it?"),
        ("assistant", "Use `tar`."),
        ("user", "[file b.png: not in the import]"),
    ]
    assert thread[1].created.startswith("2026-01-31T12:00:02.123") and thread[1].stats["source"] == "Claude"
    assert report.left_out == {"thoughts": 1, "tool calls": 1, "attachments (file)": 1}
    assert {result.outcome for result in import_file(store, path).results} == {"same"}


def test_edits_are_branches() -> None:
    root = "00000000-0000-4000-8000-000000000000"
    messages = [
        said("m1", "human", "one", parent_message_uuid=root),
        said("m2", "assistant", "first", parent_message_uuid="m1"),
        said("m3", "human", "another", parent_message_uuid=root),
        said("m4", "assistant", "second", parent_message_uuid="m3"),
    ]
    whole = converted(claude.conversation({**TALK, "chat_messages": messages, "current_leaf_message_uuid": "m2"}))
    texts: dict[str | None, str | None] = {None: None}
    texts |= {message.id: message.text for message in whole.messages}
    parents = {message.text: texts[message.parent_id] for message in whole.messages}
    assert parents == {"one": None, "first": "one", "another": None, "second": "another"}
    assert texts[whole.conversation.tip_id] == "first"


ANY = st.none() | st.integers() | st.text(max_size=3)
PART = st.dictionaries(st.sampled_from(["type", "text"]), ANY | st.just("text"))
MESSAGE = ANY | st.dictionaries(
    st.sampled_from(["uuid", "sender", "content", "text", "files", "parent_message_uuid", "created_at"]),
    ANY | st.lists(ANY | PART, max_size=2) | st.just("human"),
)


@given(st.lists(MESSAGE, max_size=4))
def test_nothing_in_it_is_taken_for_granted(messages: list[Any]) -> None:
    try:
        converted(claude.conversation({**TALK, "chat_messages": messages}))
    except Unsuitable as error:
        assert str(error)


def test_two_messages_with_one_id_are_refused() -> None:
    question = {"uuid": "#1", "sender": "human", "text": "a"}
    answer = {"sender": "assistant", "text": "b", "parent_message_uuid": "#1"}
    with pytest.raises(Unsuitable, match="same id"):
        converted(claude.conversation({**TALK, "chat_messages": [question, answer]}))
