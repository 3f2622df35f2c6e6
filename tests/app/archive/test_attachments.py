"""Files of questions and thoughts of models in exports: JSON loses nothing, and no file breaks the page around it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from app.archive.exporter import export_conversations
from app.archive.importer import import_file
from storage import Attachment, Store
from tests.app.archive.test_html_markdown import Tags
from tests.app.attachments.conftest import PNG

NOTES = Attachment("notes.md", "text/plain", b"````\n# not a heading\n```sh\nrm x\n\x1b[2J")
PICTURE = Attachment('cat" onerror="x\x1b[2J\n.png', "image/png", PNG)
BROKEN = Attachment("latin.txt", "text/plain", b"th\xe9")
ODD = Attachment("x.svg", "image/svg+xml", b"<svg onload='x'>")
FILES = (NOTES, PICTURE, BROKEN, ODD)


@pytest.fixture
def conversation(store: Store) -> str:
    found = store.conversations.create("files")
    answer = store.messages.ask(found.id, "what is <this>?", parent_id=None, attachments=FILES)
    thoughts = "hm </pre><script>\x1b[2J"
    store.messages.finish(answer.id, (), (), "A cat.", "done", {"reasoning_seconds": 2.5}, reasoning=thoughts)
    store.queue.add(found.id, "and this?", [PICTURE])
    return found.id


def exported(store: Store, conversation: str, format: str, folder: Path) -> str:
    path = export_conversations(store, [conversation], format, folder / f"out.{format}")  # type: ignore[arg-type]
    return path.read_text(encoding="utf-8")


def test_json_brings_everything_back(store: Store, conversation: str, tmp_path: Path) -> None:
    text = exported(store, conversation, "json", tmp_path)
    assert "\x1b" not in text
    (record,) = json.loads(text)["conversations"]
    assert ["text" in one for one in record["messages"][0]["attachments"]] == [True, False, False, False]
    assert "attachments" not in record["messages"][1] and "reasoning" not in record["messages"][0]
    before = store.transfer.whole(conversation)
    with Store.open(tmp_path / "other.db") as other:
        import_file(other, tmp_path / "out.json")
        after = other.transfer.whole(conversation)
        assert after.messages == before.messages and after.messages[0].attachments == FILES
        assert [one.attachments for one in after.queue] == [(PICTURE,)]
        report = import_file(other, tmp_path / "out.json")
        assert [one.outcome for one in report.results] == ["same"]


def test_files_that_make_no_sense_are_not_imported(store: Store, conversation: str, tmp_path: Path) -> None:
    whole = exported(store, conversation, "json", tmp_path)
    with Store.open(tmp_path / "other.db") as other:
        for change in (
            {"text": "x", "data": "eA=="},
            {"text": None},
            {"type": "application/x-sh"},
            {"data": "not base64"},
        ):
            document = json.loads(whole)
            document["conversations"][0]["messages"][0]["attachments"][0] |= change
            (tmp_path / "changed.json").write_text(json.dumps(document))
            (result,) = import_file(other, tmp_path / "changed.json").results
            assert result.outcome == "failed" and other.conversations.all() == [], change


def test_markdown_shows_text_in_fences_that_it_cannot_leave(store: Store, conversation: str, tmp_path: Path) -> None:
    text = exported(store, conversation, "md", tmp_path)
    assert "\x1b" not in text
    tokens = MarkdownIt("commonmark").parse(text)
    fences = [token for token in tokens if token.type == "fence"]
    assert [fence.info for fence in fences] == ["md", "txt"]
    assert "# not a heading" in fences[0].content and fences[1].content == "th\ufffd\n"
    headings = [after.content for token, after in zip(tokens, tokens[1:]) if token.type == "heading_open"]
    assert len(headings) == 4 and "not a heading" not in "".join(headings)
    assert "Image: cat" in text and "3 × 2" in text


def test_html_folds_files_and_thoughts_and_runs_nothing(store: Store, conversation: str, tmp_path: Path) -> None:
    text, parser = exported(store, conversation, "html", tmp_path), Tags()
    parser.feed(text)
    tags = parser.found
    assert "\x1b" not in text
    images = [attributes for tag, attributes in tags if tag == "img"]
    assert len(images) == 2 and all(set(image) == {"src", "alt"} for image in images)
    assert all(str(image["src"]).startswith("data:image/png;base64,") for image in images)
    assert sum(tag == "details" for tag, _ in tags) == 6  # Four files, the thoughts, and the file of the queue.
    assert not {"script", "svg"} & {tag for tag, _ in tags}
    policy = next(str(one["content"]) for _, one in tags if one.get("http-equiv"))
    assert "default-src 'none'" in policy and "img-src data:" in policy
