from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from storage import Store, search
from tests.storage.stored import add, assert_sound, found


def test_words(store: Store) -> None:
    asked, command, capitals, accents, quoted = texts = (
        "how do I unpack a tarball?",
        "tar -xzf archive.tar.gz",
        "NOT here AND there",
        "naïve café",
        'she said "hello"',
    )
    conversation = store.conversations.create().id
    for text in texts:
        add(store, conversation, text)
    for words in ("tar archive", "-xzf", "tar.gz", "tar - *"):
        assert found(store, words) == [command], words
    for words in ("tar NOT unpack", "text:hello", " \t\n", "(", "\0"):
        assert found(store, words) == [], words
    assert found(store, "tarball unpacking") == [asked] and set(found(store, "tar")) == {asked, command}
    assert found(store, "cafe naive") == [accents] and found(store, "here NOT there") == [capitals]
    assert found(store, 'hello"') == [quoted] and set(found(store, "he\0")) == {quoted, capitals}


def test_better_matches_come_first_the_limit_holds_and_a_snippet_shows_the_words(store: Store) -> None:
    conversation = store.conversations.create().id
    worst, best, good = texts = ["find " + "other words " * 30, "find", "find " + "other words " * 5]
    for text in texts:
        add(store, conversation, text)
    assert found(store, "find") == [best, good, worst]
    assert [hit.message.text for hit in store.search.messages("find", limit=1)] == [best]
    text = " ".join(f"before{number}" for number in range(50)) + " needle " + "after " * 50
    add(store, store.conversations.create().id, text)
    ((message, snippet, marks),) = store.search.messages("needle")
    assert message.text == text
    assert [snippet[slice(*mark)] for mark in marks] == ["needle"]
    assert len(snippet) < 200 and snippet.startswith("…") and snippet.endswith("…")


def test_whatever_is_typed_is_only_words(tmp_path: Path) -> None:
    with Store.open(tmp_path / "outrider.db") as store:
        conversation = store.conversations.create().id
        syntax = st.text(st.sampled_from('"*^:(){}+-\0 aNOTNEAR,')) | st.text(st.characters(exclude_categories=()))

        @settings(max_examples=100, deadline=None)
        @given(syntax, st.text("abcdefghijklmnopqrstuvwxyz", min_size=1))
        @example('"', "a")
        @example("a*", "NEAR")
        @example('NEAR(a b, 3) OR text : ^"x', "or")
        def check(typed: str, word: str) -> None:
            store.search.messages(typed)
            message = add(store, conversation, f"{typed} {word}")
            assert message in [hit.message.id for hit in store.search.messages(word, limit=1000)]

        check()


def test_conversations_are_found_by_title_or_by_what_was_said(store: Store) -> None:
    titled, said, both = (store.conversations.create(title).id for title in ("unpack archives", "other", "archives"))
    for conversation, text in ((said, "archives, archives!"), (both, "an archive of words"), (both, "archived")):
        add(store, conversation, text)
    hits = store.search.conversations("archive")
    by_id = {one.conversation.id: one for one in hits}
    assert by_id.keys() == {titled, said, both} and len(hits) == 3
    assert hits[-1].conversation == store.conversations.get(said), "a title counts more"
    assert by_id[titled].snippet == "unpack archives" and by_id[titled].message_id is None
    assert by_id[both].snippet == "archived"
    assert store.messages.get(by_id[both].message_id or "").text == "archived", "the message that matches best"
    assert [one.conversation.id for one in store.search.conversations("arch", limit=1)] == [hits[0].conversation.id]
    assert store.search.conversations("unpack words") == [], "all words in one place"


def test_a_new_title_and_every_branch_are_found_but_no_half_answer(store: Store) -> None:
    conversation = store.conversations.create("before").id
    store.conversations.rename(conversation, "title")
    assert store.search.conversations("before") == []
    assert [one.conversation.title for one in store.search.conversations("ti")] == ["title"]
    first, _ = (add(store, conversation, text) for text in ("needle", "hay"))
    assert [one.message_id for one in store.search.conversations("need")] == [first]
    answer = store.messages.ask(conversation, "and then?", parent_id=first)
    store.messages.checkpoint(answer.id, [1], [True], "haystack")
    assert store.search.conversations("haystack") == []


def test_a_word_that_is_everywhere_finds_the_newest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "WEIGHED", 5)
    conversations = [store.conversations.create("title").id for _ in range(10)]
    for at, conversation in enumerate(conversations):
        add(store, conversation, f"common {at}")
    assert {one.conversation.id for one in store.search.conversations("common", limit=5)} == set(conversations[5:])
    few = store.search.conversations("common 2", limit=5)
    assert [one.conversation.id for one in few] == [conversations[2]], "few matches: all"
    assert len(store.search.messages("common", limit=5)) == 5
    assert {one.conversation.id for one in store.search.conversations("title", limit=5)} == set(conversations[5:])
    best = add(store, conversations[0], "common")
    for _ in range(4):
        add(store, conversations[1], "common and more")
    for words, weighed in (("common", True), ("common common COMMON", True), ("common com", False), ("c", False)):
        assert (store.search.messages(words, limit=1)[0].message.id == best) == weighed, "more words, fewer of them"


def test_of_a_long_text_the_longest_words_are_looked_for(store: Store) -> None:
    conversation = store.conversations.create("title").id
    said = " ".join(f"{'long' * (number % 5)}word{number} the of" for number in range(100))
    message = add(store, conversation, f"{said} at the end")
    for typed in (said, f"{said} missing", f"{said} at the e", " ".join([said] * 2000)):
        hits = store.search.conversations(typed)
        assert [one.message_id for one in hits] == [message], "whatever else was pasted"
        assert search.quoted(typed).count(" ") == search.MOST_WORDS - 1
    assert store.search.conversations(f"{said} {'missing' * 10}") == [] == store.search.messages("the missing")
    unspaced, path = "今天天气怎么样" * 40, "/".join(f"folder{number}" for number in range(100))
    message = add(store, conversation, f"{unspaced} {path}")
    for typed in (unspaced, path, f"{path}/missing", f"{unspaced} {path}"):
        assert [one.message_id for one in store.search.conversations(typed)] == [message], "their beginning"
    assert store.search.conversations("folder0/folder2") == []
    paths = " ".join(f"at/folder{number}/file" for number in range(100))
    assert len(re.findall(r"\w+", search.quoted(f"{paths} configuration"))) <= search.MOST_WORDS, "in paths, too"
    assert '"configuration"' in search.quoted(f"{paths} configuration"), "a path has more letters, in common words"
    assert search.quoted("the The file THE fi") == '"file" "the" "fi"*'


@pytest.mark.parametrize(
    ("said", "within", "missed"),
    [
        ("今天天气怎么样？我想去公园。", ["天气", "公园", "今天", "去公", "天气 公园"], ["气天", "明天"]),
        ("Python教程：用pandas读取文件", ["教程", "pandas", "读取", "Python 文件", "用pan"], ["程教", "ython"]),
        ("昨日、東京タワーへ行きました。", ["東京", "タワー", "行き", "昨日 東京"], ["京東"]),
        ("ภาษาไทยง่ายมาก", ["ไทย", "มาก"], ["ยไท"]),
        ("𠮷野家の牛丼", ["野家", "𠮷野", "牛丼"], ["家野"]),
    ],
)
def test_unspaced_words_are_found(store: Store, path: Path, said: str, within: list[str], missed: list[str]) -> None:
    titled = store.conversations.create(said).id
    renamed = store.conversations.create("other").id
    store.conversations.rename(renamed, said)
    answer = store.messages.ask(renamed, "?", parent_id=add(store, renamed, said))
    store.messages.finish(answer.id, [1], [True], f"so {said}", "done", {})
    copied = store.branches.duplicate(renamed, answer.id).id
    with Store.open(path.with_name("other.db")) as other:
        for identifier in (titled, renamed, copied):
            other.transfer.put(store.transfer.whole(identifier))
        for each in (store, other):
            for words in within:
                hits = each.search.conversations(words)
                assert {one.conversation.id for one in hits} == {titled, renamed, copied}, words
                assert {one.snippet for one in hits if one.message_id is None} == {said}
                assert found(each, words).count(said) == 2, words
                assert all(hit.snippet.strip("…") in f"so {said}" for hit in each.search.messages(words))
            for words in missed:
                assert each.search.conversations(words) == [] == each.search.messages(words), words
            assert_sound(each)


def test_where_the_words_are_and_how_many_messages_have_them(store: Store) -> None:
    titled = store.conversations.create("Unpacking archives").id
    said = store.conversations.create("other").id
    parent = None
    for text in ("an archive here", "no", "two archives, each archived", "明天去公园散步"):
        parent = add(store, said, text, parent)
    by_id = {one.conversation.id: one for one in store.search.conversations("archive")}
    named, told = by_id[titled], by_id[said]
    assert [named.conversation.title[start:end] for start, end in named.title_marks] == ["archives"]
    assert (named.messages, named.message_id) == (0, None) and named.snippet == "Unpacking archives"
    assert told.messages == 2 and told.title_marks == ()
    words = [told.snippet[start:end] for start, end in told.marks]
    assert words in (["archive"], ["archives", "archived"]) and "\ufdd0" not in told.snippet
    (unspaced,) = store.search.conversations("公园")
    assert [unspaced.snippet[start:end] for start, end in unspaced.marks] == ["公园"]
