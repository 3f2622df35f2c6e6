"""Exports of ChatGPT, in all known shapes (`tests/data/chatgpt.json` has each difficulty), and of Claude."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.archive import chatgpt, claude
from app.archive import foreign as tree
from app.archive.errors import Unreadable, Unsuitable
from app.archive.foreign import converted
from app.archive.importer import import_file
from storage import Store, WholeConversation

SAMPLE = Path(__file__).parent.parent.parent / "data" / "chatgpt.json"
UNPACKING, PICTURES = 0, 1


def sample(number: int) -> WholeConversation:
    return tree.converted(chatgpt.conversation(json.loads(SAMPLE.read_text(encoding="utf-8"))[number]))


def node(parent: str | None, role: str, text: str, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    return {"parent": parent, "message": {"author": {"role": role}, "content": content, **more}}


def made(mapping: dict[str, Any], **more: Any) -> WholeConversation:
    return tree.converted(chatgpt.conversation({"title": "t", "id": "1", "mapping": mapping, **more}))


def test_branches_dates_models_and_what_is_shown() -> None:
    whole = sample(UNPACKING)
    question, first, second, edited = whole.messages
    texts = ["how do I unpack a tarball?", "Use `tar`.", "tar -x\n\nthen ls", "and a zip?"]
    assert [message.text for message in whole.messages] == texts
    assert (question.parent_id, edited.parent_id) == (None, None)
    assert (first.parent_id, second.parent_id) == (question.id, question.id)
    assert (first.status, second.status) == ("done", "stopped")
    assert first.stats == {"source": "ChatGPT", "model": "gpt-4"} and second.stats["model"] == "gpt-4o"
    assert question.stats == {} and first.created == "2024-03-05T16:00:02.250+00:00"
    conversation = whole.conversation
    assert (conversation.title, conversation.tip_id) == ("Unpacking", second.id)
    assert conversation.created == "2024-03-05T16:00:00.000+00:00"
    assert conversation.updated == "2024-03-05T17:00:00.500+00:00"


def test_an_answer_around_its_tools_is_one_answer() -> None:
    whole = sample(PICTURES)
    asked, answer, odd = whole.messages
    assert asked.text == "[picture: not in the import]\n\nwhat is on it?"
    assert answer.text == "First I draw.\n\n[picture: not in the import]\n\n````sh\nls ```\n````"
    assert answer.stats == {"source": "ChatGPT", "model": "o3"}
    assert odd.text == "[hologram: not in the import]"
    assert [message.parent_id for message in whole.messages] == [None, asked.id, answer.id]
    assert whole.conversation.tip_id == odd.id


def test_what_cannot_be_imported_is_told_and_the_rest_is_imported(store: Store) -> None:
    report = import_file(store, SAMPLE)
    assert report.kind == "ChatGPT export"
    assert [result.outcome for result in report.results] == ["new", "new", "failed", "failed", "failed"]
    assert [result.problem for result in report.results[2:]] == [
        "it has no messages (no `mapping`)",
        "it has no message to show",
        "2 of its messages form a cycle",
    ]
    assert report.left_out == {
        "custom instructions": 1, "thoughts": 1, "tool calls": 1, "tool outputs": 1, "attachments (picture)": 2,
        "content of the kind hologram": 1,
    }  # fmt: skip
    assert len(store.conversations.all()) == 2 and store.search.messages("secret") == []
    assert [hit.message.text for hit in store.search.messages("zip")] == ["and a zip?"]


def test_the_second_time_changes_nothing_and_a_later_export_adds(store: Store, tmp_path: Path) -> None:
    import_file(store, SAMPLE)
    again = import_file(store, SAMPLE)
    assert [result.outcome for result in again.results[:2]] == ["same", "same"] and not again.left_out
    later = json.loads(SAMPLE.read_text(encoding="utf-8"))[:1]
    later[0]["mapping"]["u2"] = node("a2", "user", "thanks")
    later[0]["current_node"] = "u2"
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(later), encoding="utf-8")
    (result,) = import_file(store, path).results
    assert (result.outcome, result.messages) == ("added", 1) and result.conversation_id is not None
    *_, before, added = store.branches.thread(result.conversation_id)
    assert (before.text, added.text) == ("tar -x\n\nthen ls", "thanks")
    copied = import_file(store, path, again=True).results[0]
    assert (copied.outcome, copied.messages) == ("new", 5)


@pytest.mark.parametrize("form", ["archive", "folder", "folder in a folder"])
def test_the_export_as_it_was_downloaded_or_unpacked(store: Store, tmp_path: Path, form: str) -> None:
    path = tmp_path / "unpacked"
    inside = path if form == "folder" else path / "folder"
    inside.mkdir(parents=True)
    (inside / "user.json").write_text('{"id": "me"}')
    (inside / "file-x.dat").write_bytes(b"\0\1")
    for at, conversation in enumerate(json.loads(SAMPLE.read_text(encoding="utf-8"))[:2]):
        (inside / f"conversations-00{at}.json").write_text(json.dumps([conversation]))
    if form == "archive":
        path = Path(shutil.make_archive(str(tmp_path / "export"), "zip", path))
    report = import_file(store, path)
    assert [result.outcome for result in report.results] == ["new", "new"] and report.kind == "ChatGPT export"


def test_a_folder_or_an_archive_of_something_else_is_named(store: Store, tmp_path: Path) -> None:
    for name, content, says in (
        ("photo.jpg", "\0", r"holds no conversations\.json"),
        ("conversations.json", '[{"what": 1}]', "holds no conversations that"),
    ):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text(content)
        archive = Path(shutil.make_archive(str(folder), "zip", folder))
        for path in (folder, archive):
            with pytest.raises(Unreadable, match=rf"{path.name} {says}"):
                import_file(store, path)
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(Unreadable, match="download it again"):
        import_file(store, archive)


def test_a_locked_archive_is_named(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "locked.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", "[]")
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x03\x04") + 6] |= 1  # The flag of an encrypted file.
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(Unreadable, match="encrypted.*download it again"):
        import_file(store, path)


def test_children_are_enough_where_parents_are_missing() -> None:
    first, second = node(None, "user", "a"), node(None, "assistant", "b")
    del first["parent"], second["parent"]
    asked, answer = made({"second": second, "first": {**first, "children": ["second", 3, "gone"]}}).messages
    assert (asked.role, answer.role, answer.parent_id) == ("user", "assistant", asked.id)


def test_what_follows_a_hidden_message_follows_the_one_before_it() -> None:
    mapping = {
        "a": node(None, "user", "a"),
        "b": node("a", "system", "remember this"),
        "c": node("b", "assistant", "c"),
        "d": node("b", "assistant", "d"),
    }
    whole = made(mapping, current_node="b")
    first, second, third = whole.messages
    assert (second.parent_id, third.parent_id) == (first.id, first.id)
    assert whole.conversation.tip_id == first.id


def test_files_are_told_once() -> None:
    asked, only = node(None, "user", "what is in it?"), node("a", "user", "")
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1"}
    asked["message"]["content"]["parts"].insert(0, picture)
    attachments = [{"id": "file-1", "name": "a.png"}, {"id": "file-2", "name": "b\x1b.pdf"}, {"name": 3}, None]
    asked["message"]["metadata"] = {"attachments": attachments}
    only["message"]["metadata"] = {"attachments": [{"id": "file-3", "name": "c.csv"}]}
    found = chatgpt.conversation({"mapping": {"a": asked, "b": only}})
    remarks = ["[file b.pdf: not in the import]", "[file: not in the import]", "[file: not in the import]"]
    assert found.messages[0].text.split("\n\n") == [*remarks, "[picture: not in the import]", "what is in it?"]
    assert found.messages[1].text == "[file c.csv: not in the import]"
    assert found.left_out == {"attachments (file)": 4, "attachments (picture)": 1}


def test_sources_and_names_are_as_the_page_shows_them() -> None:
    cited = "\ue200cite\ue202turn0search1\ue202turn0search4\ue201"
    said = f'Iron {cited}, by \ue200entity\ue202["people", "Ada", 0]\ue201 and \ue200url\ue202Bob\ue202turn1\ue201'
    rest = "\ue200cite\ue202turn9\ue201\ue200entity\ue202[broken\ue201."
    answer = node(None, "assistant", f"{said}{rest}")
    answer["message"]["metadata"] = {
        "content_references": [None, {"matched_text": cited, "alt": "([Iron age](https://example.org/iron))"}, {}]
    }
    found = chatgpt.conversation({"mapping": {"a": answer}})
    assert [one.text for one in found.messages] == ["Iron ([Iron age](https://example.org/iron)), by Ada and Bob."]
    assert found.left_out == {"references": 2}


def test_twins_are_two_messages() -> None:
    mapping = {"a": node(None, "user", "a"), "b": node("a", "assistant", "b"), "c": node("a", "assistant", "b")}
    assert len({message.id for message in made(mapping).messages}) == 3


def test_half_a_character_and_a_hostile_model_do_no_harm() -> None:
    mapping = {"a": node(None, "assistant", "\ud83d\x1b[2J", metadata={"model_slug": "x\x1b]0;y\x07" + "z" * 500})}
    (message,) = made(mapping).messages
    assert message.text == "?\x1b[2J"  # Stored as it is; the screen sanitises what it shows.
    assert message.stats["model"] == "x]0;y" + "z" * 115


FIELDS = (
    "parent", "children", "message", "author", "role", "content", "content_type", "parts", "text", "metadata",
    "create_time", "a", "b", "id",
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.sampled_from(["user", "assistant", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON, max_size=3), JSON, JSON)
def test_nothing_in_it_is_taken_for_granted(mapping: dict[str, Any], tip: Any, when: Any) -> None:
    try:
        whole = made(mapping, current_node=tip, create_time=when)
    except Unsuitable:
        return
    ids = [message.id for message in whole.messages]
    assert whole.conversation.tip_id in ids
    for at, message in enumerate(whole.messages):
        assert message.parent_id is None or message.parent_id in ids[:at]


# ---- Claude ----------------------------------------------------------------------------------------------------------


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
def test_nothing_in_an_export_of_claude_is_taken_for_granted(messages: list[Any]) -> None:
    try:
        converted(claude.conversation({**TALK, "chat_messages": messages}))
    except Unsuitable as error:
        assert str(error)


def test_two_messages_with_one_id_are_refused() -> None:
    question = {"uuid": "#1", "sender": "human", "text": "a"}
    answer = {"sender": "assistant", "text": "b", "parent_message_uuid": "#1"}
    with pytest.raises(Unsuitable, match="same id"):
        converted(claude.conversation({**TALK, "chat_messages": [question, answer]}))
