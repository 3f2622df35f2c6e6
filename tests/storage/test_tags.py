"""Tags of conversations: what is stored, what a search finds by them, and that other choices leave them alone."""

from __future__ import annotations

import pytest

from storage import Choices, Store
from storage.errors import TooManyTags
from storage.search import WEIGHED
from storage.tags import MOST_TAGS, tag_from
from tests.storage.stored import add


def found(store: Store, words: str) -> list[str]:
    return [one.conversation.title for one in store.search.conversations(words)]


def said(store: Store, words: str) -> list[str]:
    return [one.message.text for one in store.search.messages(words)]


def test_a_search_has_tags_and_words(store: Store) -> None:
    for title, text, tags in (
        ("One", "unpack it", ["#Work", "tar"]),
        ("Two", "unpack that", ["work"]),
        ("Three", "#c", []),
    ):
        conversation = store.conversations.create(title).id
        add(store, conversation, text)
        store.conversations.tag(conversation, tags)
    assert found(store, "#work") == ["Two", "One"] and found(store, "#work #tar") == ["One"]
    assert found(store, "#wo unpack that") == ["Two"] and found(store, "#tar that") == []
    assert found(store, "#c") == ["Three"], "no tag begins so, so it is a word"
    assert sorted(found(store, "unpack")) == ["One", "Two"]
    later = store.conversations.create("Later").id
    for _ in range(WEIGHED + 1):
        add(store, later, "unpack")
    assert found(store, "#tar unpack") == ["One"], "however much is newer"
    assert said(store, "#tar unpack") == ["unpack it"] and said(store, "#tar that") == [], "the command line's search"
    assert said(store, "#c") == ["#c"] and said(store, "#work") == ["unpack that", "unpack it"], (
        "no words: what was asked"
    )
    one = store.conversations.all()[-1]
    assert one.choices.tags == ("tar", "work")
    store.bin.delete(one.id)
    assert found(store, "#work") == ["Two"] and said(store, "#work") == ["unpack that"]


def test_tags_are_short_words_and_outlive_other_choices(store: Store) -> None:
    conversation = store.conversations.create("One", Choices(model="m")).id
    assert store.conversations.tag(conversation, ["#A b\x1b[2J", "ß" * 90, "", "#"], []) == ("ab2j", tag_from("ß" * 90))
    assert store.conversations.tag(conversation, ["x"], ["AB2J", "none"]) == (tag_from("ß" * 90), "x")
    store.conversations.choose(conversation, Choices(model="other"))
    choices = store.conversations.get(conversation).choices
    assert choices.model == "other" and "x" in choices.tags
    many = list(map(str, range(MOST_TAGS - 2)))
    kept = store.conversations.tag(conversation, many)
    with pytest.raises(TooManyTags, match="at most 20 tags; remove one first"):
        store.conversations.tag(conversation, ["one more"])
    assert store.conversations.get(conversation).choices.tags == kept
