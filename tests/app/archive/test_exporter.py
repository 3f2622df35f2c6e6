"""Markdown and HTML files are complete or not there, nothing in them becomes markup, and unchecked words are marked."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import asdict
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.archive import exporter as writing
from app.archive.branches import branches, remark
from app.archive.exporter import every_conversation, export_conversations, export_pieces, new_file
from app.archive.formats import Format
from app.archive.html_markdown import CLOSE, LONGEST, OPEN, render
from app.archive.importer import import_file
from app.attachments.documents import DocumentText, Origin, as_attachment
from app.config import Settings
from app.events import Stretch
from models.guide.names import MARKS
from models.text.chat_text import ChatText
from storage import Attachment, Call, Choices, FinalStatus, NotFound, Store
from storage.records import INTERRUPTED
from tests.app.attachments.conftest import PNG

NO_DRAFTER = Settings(drafter="/nowhere")


def answered(store: Store, question: str = "how?", answer: str = "tar -x", title: str = "A talk") -> str:
    conversation = store.conversations.create(title).id
    asked = store.messages.add(conversation, "user", question, parent_id=None, status="done")
    said = store.messages.add(conversation, "assistant", "", parent_id=asked.id, status="pending")
    store.messages.finish(said.id, [], [], answer, "done", {})
    return conversation


def drafted(store: Store, text: ChatText, said: str, checked: int, status: FinalStatus = "done") -> list[int]:
    """Store an answer, of which this many tokens were checked, beside an imported one; its tokens."""
    asked = store.branches.thread(answered(store, answer="imported"))[0]
    answer = store.messages.add(asked.conversation_id, "assistant", "", parent_id=asked.id, status="pending")
    tokens = text.encode(said)
    store.messages.finish(answer.id, tokens, [at < checked for at in range(len(tokens))], said, status, {})
    return tokens


def text_of(store: Store, format: Format, *ids: str, every: bool = False) -> str:
    chosen = list(ids) or every_conversation(store)
    return "".join(export_pieces(store, chosen, format, settings=NO_DRAFTER, branches=every))


def test_markdown_of_one_conversation(store: Store) -> None:
    answered(store, "how do I\nunpack?", "```sh\ntar -x\n```", "My *first* <talk>")
    minute = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"
    assert re.fullmatch(
        rf"# My \\\*first\\\* \\<talk\\>\n\n{minute}\n\n## 1\. You · {minute}\n\nhow do I\nunpack\?\n\n"
        rf"## 2\. Assistant · {minute}\n\n```sh\ntar -x\n```\n",
        text_of(store, "md"),
    )


def test_what_was_never_verified_is_told(store: Store, text: ChatText, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = drafted(store, text, "list the files", 4, "stopped")
    told = f"{len(tokens) - 4} of its {len(tokens)} tokens were drafted offline and never checked."
    assert f"> *{told} This answer was stopped before its end.*" in text_of(store, "md")
    assert told in text_of(store, "html") and 'class="drafted"' not in text_of(store, "html")
    monkeypatch.setattr(writing, "decoder", lambda folder: text.decode)
    word = "list the files".rfind(" ", 0, len(text.decode(tokens[:4]))) + 1
    assert f'<span class="drafted">{"list the files"[word:]}</span>' in text_of(store, "html")
    drafted(store, text, "list a_1 and sort a_1", 3)
    marked = lambda tokens: text.decode(tokens).replace("a_1", MARKS[0])  # noqa: E731 - as a model with marks says it.
    monkeypatch.setattr(writing, "decoder", lambda folder: marked)
    assert " sort a_1</span>" in text_of(store, "html") and MARKS[0] not in text_of(store, "html")


def test_who_wrote_which_part_on_this_device_is_told_once(store: Store) -> None:
    def told(*stretches: Stretch, model: str = "talker", status: FinalStatus = "done", **more: str) -> str:
        asked = store.messages.ask(store.conversations.create("t").id, "q", parent_id=None)
        stats: dict[str, Any] = {"model": model, "stretches": [asdict(one) for one in stretches], **more}
        store.messages.finish(asked.id, (), (), "a" * 60, status, stats)
        return remark(store.messages.get(asked.id))

    here = [Stretch(at, "qwen", here=True) for at in (0, 10, 40)]
    assert told(here[0], model="qwen") == "qwen on this device wrote all of it, and it was never checked."
    assert told(Stretch(0, "talker"), here[1], Stretch(30, "talker"), here[2]) == (
        "qwen on this device wrote characters 10 to 30 and all from character 40 on, and it was never checked. "
        "Answered by talker."
    )
    killed = told(status="stopped", reason=INTERRUPTED)
    assert killed == "This answer was interrupted before its end. Answered by talker."


def test_all_branches_from_where_they_part(store: Store) -> None:
    conversation = answered(store, "a", "b")
    first, second = store.branches.thread(conversation)
    third = store.messages.add(conversation, "user", "c", parent_id=second.id, status="done")
    store.messages.add(conversation, "assistant", "b two", parent_id=first.id, status="done")
    after = store.messages.add(conversation, "user", "c2", parent_id=second.id, status="done")
    store.messages.add(conversation, "assistant", "d2", parent_id=after.id, status="done")
    store.messages.add(conversation, "user", "a2", parent_id=None, status="done")
    store.branches.show(third.id)
    whole = store.transfer.whole(conversation)
    assert [
        (branch.after, [f"{number} {message.text}" for number, message in branch.messages])
        for branch in branches(whole, every=True)
    ] == [(None, ["1 a", "2 b", "3 c"]), (None, ["4 a2"]), (1, ["5 b two"]), (2, ["6 c2", "7 d2"])]
    said = text_of(store, "md", every=True)
    assert said.index("*Another branch, from the beginning:*") < said.index("## 4. You")
    assert said.index("*Another branch, after message 2:*") < said.index("## 6. You")
    assert "b two" not in text_of(store, "md") and "b two" not in text_of(store, "html")
    page = text_of(store, "html", every=True)
    assert page.count("<details>") == page.count("</details>") == 3


UNCLOSED = [
    "```\nnever closed",
    "- a\n  ~~~\n  b",
    "> ```\n> x",
    "<div>",
    "<![CDATA[",
    "text\n===",
    "a\n\n<pre>\n\nb",
    "`",
]


def test_no_text_swallows_what_follows_it(store: Store) -> None:
    for text in (*HOSTILE, *UNCLOSED):
        tokens = MarkdownIt("commonmark").parse(text_of(store, "md", answered(store, text, text, text)))
        headings = [
            after.content for one, after in zip(tokens, tokens[1:]) if one.type == "heading_open" and not one.level
        ]
        numbered = [heading[:5] for heading in headings if re.match(r"\d\. (You|Assistant) ", heading)]
        assert numbered == ["1. Yo", "2. As"], text


def test_tags_are_in_every_export_and_come_back(store: Store, tmp_path: Path) -> None:
    conversation = answered(store)
    store.conversations.tag(conversation, ["work", "a_b"])
    assert "UTC · #a\\_b · #work\n" in text_of(store, "md")
    assert "</span> · #a_b · #work</p>" in text_of(store, "html")
    file = tmp_path / "all.json"
    file.write_text(text_of(store, "json").replace('"work"', '"work", "\\u001b[2J<b>", "Work"'))
    with Store(tmp_path / "other.db") as other:
        import_file(other, file)
        assert other.conversations.all()[0].choices.tags == ("2jb", "a_b", "work")


def test_no_text_breaks_out_of_the_page(store: Store) -> None:
    for text in HOSTILE:
        conversation = answered(store, text, text, text)
        store.queue.add(conversation, text)
        page, parser = text_of(store, "html", conversation), Tags()
        parser.feed(page)
        tags = [tag for tag, _ in parser.found]
        assert not {"script", "img", "iframe", "object", "b"} & set(tags), text
        assert [tags.count(tag) for tag in ("style", "title", "section", "article", "h2")] == [1, 1, 1, 3, 3], text
        assert page.endswith("</section>\n</main>\n</body>\n</html>\n") and "default-src 'none'" in page


def test_a_file_is_there_whole_or_not_at_all(store: Store, tmp_path: Path) -> None:
    conversation = answered(store)
    path = tmp_path / "talk.md"
    path.write_text("an older export", encoding="utf-8")
    with pytest.raises(NotFound, match="c0ffee"):
        export_conversations(store, [conversation, "c0ffee"], "md", path, settings=NO_DRAFTER)
    assert path.read_text(encoding="utf-8") == "an older export"
    assert export_conversations(store, [conversation], "md", path, settings=NO_DRAFTER) == path.resolve()
    assert path.read_text(encoding="utf-8") == text_of(store, "md")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and not list(tmp_path.glob(".*.part"))


def test_a_link_stays_and_a_pipe_is_written_to(store: Store, tmp_path: Path) -> None:
    conversation = answered(store)
    link, target = tmp_path / "link.md", tmp_path / "target.md"
    link.symlink_to(target)
    reading, pipe = os.pipe()
    for path in (link, Path("/dev/null"), Path(f"/dev/fd/{pipe}")):
        export_conversations(store, [conversation], "md", path, settings=NO_DRAFTER)
    os.close(pipe)
    with open(reading, encoding="utf-8") as out:
        assert out.read() == target.read_text(encoding="utf-8") == text_of(store, "md")
    assert link.is_symlink() and not Path("/dev/null").is_file()


def test_into_a_folder_under_a_name_that_was_free(store: Store, tmp_path: Path) -> None:
    conversation = answered(store, title="How do I/../unpack a \x1b[2J“tär”? " + "x" * 90)
    paths = [export_conversations(store, [conversation], "html", tmp_path, settings=NO_DRAFTER) for _ in range(2)]
    name = f"how-do-i-unpack-a-tär-{'x' * 18}-{date.today().isoformat()}"
    assert paths == [tmp_path.resolve() / f"{name}.html", tmp_path.resolve() / f"{name}-2.html"]
    with pytest.raises(ZeroDivisionError), new_file(tmp_path, "gone", "md") as created:
        assert created.exists()
        raise ZeroDivisionError
    assert not created.exists()


def test_a_system_prompt_is_in_the_export(store: Store) -> None:
    conversation = answered(store)
    chosen = Choices(system="Be <b>brief</b>.\n```\nopen \x1b[31m", system_name="*brief*")
    store.conversations.choose(conversation, chosen)
    markdown, page = text_of(store, "md", conversation), text_of(store, "html", conversation)
    assert "## System prompt: \\*brief\\*\n\nBe <b>brief</b>.\n```\nopen" in markdown
    assert [token.content for token in MarkdownIt().parse(markdown) if token.type == "inline"][-1] == "tar -x"
    assert "<h2>System prompt: *brief*</h2>" in page and "Be &lt;b&gt;brief&lt;/b&gt;." in page
    assert "\x1b" not in markdown + page
    store.conversations.choose(conversation, Choices(system=""))
    assert not any("System prompt" in text_of(store, format, conversation) for format in ("md", "html"))


@pytest.mark.parametrize(
    ("starts", "shaded"),
    [((0, 4, 8), "<p>use <span>tar </span>twice</p>"), ((0, 4, 10**30), "<p>use <span>tar twice</span></p>")],
)
def test_what_a_model_on_this_device_wrote_as_text_is_shaded(
    store: Store, starts: tuple[int, ...], shaded: str
) -> None:
    asked = store.messages.ask(store.conversations.create("t").id, "q", parent_id=None)
    parts = [asdict(Stretch(at, name, here=name == "qwen")) for at, name in zip(starts, ("talker", "qwen", "talker"))]
    store.messages.finish(asked.id, (), (), "use tar twice", "done", {"stretches": parts})
    assert shaded.replace("<span>", '<span class="drafted">') in text_of(store, "html")


# ---- files of questions and thoughts of models: JSON loses nothing, and no file breaks the page ----------------------


NOTES = Attachment("notes.md", "text/plain", b"````\n# not a heading\n```sh\nrm x\n\x1b[2J")
PICTURE = Attachment('cat" onerror="x\x1b[2J\n.png', "image/png", PNG)
BROKEN = Attachment("latin.txt", "text/plain", b"th\xe9")
ODD = Attachment("x.svg", "image/svg+xml", b"<svg onload='x'>")
FILES = (NOTES, PICTURE, BROKEN, ODD)
PAGE = as_attachment("https://a.org/x.pdf?y=1", DocumentText("text", Origin("pdf", 2, 9, cut=True)))


@pytest.fixture
def conversation(store: Store) -> str:
    found = store.conversations.create("files")
    answer = store.messages.ask(found.id, "what is <this>?", parent_id=None, attachments=FILES)
    thoughts = "hm </pre><script>\x1b[2J"
    store.messages.finish(answer.id, (), (), "A cat.", "done", {"reasoning_seconds": 2.5}, reasoning=thoughts)
    store.queue.add(found.id, "and this?", [PICTURE, PAGE])
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
        assert [one.attachments for one in after.queue] == [(PICTURE, PAGE)]
        report = import_file(other, tmp_path / "out.json")
        assert [one.outcome for one in report.results] == ["same"]


@pytest.mark.parametrize("form", ["md", "html"])
def test_what_a_person_reads_has_the_tool_calls(store: Store, tmp_path: Path, form: Format) -> None:
    conversation = store.conversations.create("tools").id
    answer = store.messages.ask(conversation, "append", parent_id=None)
    call = Call(0, 0, 0, "a", "files", "app<b>end", '{"line": "<i>one"}', state="done", result="wrote\x1b[2J <b>one")
    store.calls.add(answer.id, [call])
    store.messages.finish(answer.id, (), (), "Done.", "done", {})
    text = exported(store, conversation, form, tmp_path)
    assert "Tool call, done: files/app" in text and "wrote" in text and "\x1b" not in text
    assert form == "md" or ("<pre>wrote" in text and "<b>" not in text and "<i>one" not in text)


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
    assert [fence.info for fence in fences] == ["md", "txt", ""]
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
    assert sum(tag == "details" for tag, _ in tags) == 7  # Four files, the thoughts, and the files of the queue.
    assert not {"script", "svg"} & {tag for tag, _ in tags}
    policy = next(str(one["content"]) for _, one in tags if one.get("http-equiv"))
    assert "default-src 'none'" in policy and "img-src data:" in policy


# ---- answers as HTML -------------------------------------------------------------------------------------------------


def shaded(html: str) -> str:
    """The text inside the spans."""
    return "".join(re.findall(f"{OPEN}(.*?){CLOSE}", html, re.DOTALL))


def without_spans(html: str) -> str:
    return html.replace(OPEN, "").replace(CLOSE, "")


def test_from_there_on_it_is_marked() -> None:
    for text, start, marked in (
        ("one two three", 5, "two three"),  # Part of a word is drafted.
        ("one two three", 0, "one two three"),
        ("a\n\n# head\n\nb", 3, "headb"),
        ("a\n\n- one\n- two", 3, "onetwo"),
        ("a\n\n1. one\n2. two", 10, "two"),
        ("a\n\n```sh\nls -l\n```", 12, "-l\n"),
        ("a\n\n    code here", 12, "here\n"),
        ("a **b c** d", 6, "cd"),
        ("a _b_ `c d`", 2, "bc d"),
        ("see <http://a.b/c> there", 4, "http://a.b/c there"),
        ('x [a b](http://c "t") d', 6, "bd"),
        ("| a | b |\n|---|---|\n| c d | e |", 25, "de"),
        ("x [a](http://b) y", 16, "y"),
    ):
        html = render(text, [(start, len(text))])
        assert without_spans(html) == render(text)
        assert shaded(html).replace(" ", "") == marked.replace(" ", "")


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '![x" onerror="alert(1)](http://evil/track.png)',
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,x) [d](vbscript:x) [e](file:///etc/passwd)",
    "[a]: javascript:alert(1)\n\n[a]",
    "<javascript:alert(1)>",
    '[a](http://x/"onmouseover="alert(1))',
    '```"><script>alert(1)</script>\nx\n```',
    "```sh\n</code></pre><script>alert(1)</script>\n```",
    "`</code><script>alert(1)</script>`",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    '<span class="drafted">trust me</span></span></div></article>',
    "| <b>a</b> |\n|---|\n| </table><script> |",
    "<!-- ",
    "<style>*{display:none}</style>",
    "</div></article></section></body>",
]


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


ALLOWED = {
    "p", "em", "strong", "s", "a", "code", "pre", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote",
    "table", "thead", "tbody", "tr", "th", "td", "hr", "br", "span",
}  # fmt: skip


def check_harmless(html: str) -> None:
    parser = Tags()
    parser.feed(html)
    for tag, attributes in parser.found:
        assert tag in ALLOWED, html
        assert set(attributes) <= {"href", "title", "class", "data-language", "data-level", "start", "style"}, html
        assert re.fullmatch("(https?:|mailto:|#).*", attributes.get("href") or "#", re.IGNORECASE | re.DOTALL), html
        assert re.fullmatch("(text-align:(left|right|center))?", attributes.get("style") or ""), html


def test_nothing_in_an_answer_becomes_markup() -> None:
    for text in HOSTILE:
        for spans in ([], [(0, len(text))], [(len(text) // 2, len(text))]):
            check_harmless(render(text, spans))
        check_harmless(render(f"- a\n  > {text}", [(3, 9)]))


PIECES = [*"<>\"'&[]()!`*_#|-\n :", "a", "script", "javascript:", "http://x", "```", "<b "]


@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_no_text_becomes_markup(pieces: list[str]) -> None:
    text = "".join(pieces)
    html = render(text, [(len(text) // 3, len(text))])
    check_harmless(html)
    assert without_spans(html) == render(text)


def test_a_link_to_the_web_stays_one_and_what_is_too_long_to_parse_is_shown_as_it_is() -> None:
    assert '<a href="https://a.b/?c=1&amp;d">x</a>' in render("[x](https://a.b/?c=1&d)")
    assert render("<" * (LONGEST + 1)).startswith("<pre>&lt;&lt;")
