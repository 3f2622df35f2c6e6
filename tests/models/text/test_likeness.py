"""Which tokenizers count as the same: those that read and write the same tokens, whatever files they are in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from models.text.chat_text import ChatText
from models.text.likeness import likeness
from tests.support.tiny_text import CHAT_TEMPLATE, END, train_tokenizer

Change = Callable[[dict[str, Any]], object]


def changed(change: Change, template: str = CHAT_TEMPLATE) -> bytes | None:
    """The likeness of the tiny tokenizer after a change of its file."""
    content = json.loads(train_tokenizer().to_str())
    change(content)
    return likeness(ChatText(json.dumps(content).encode(), template, [END]))


def added(content: dict[str, Any], name: str, *, special: bool) -> None:
    number = 1 + max(content["model"]["vocab"].values(), default=0)
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    content["added_tokens"].append({"id": number, "content": name, "special": special, **plain})


def swapped(content: dict[str, Any]) -> None:
    words = content["model"]["vocab"]
    words["a"], words["b"] = words["b"], words["a"]


def renumbered(content: dict[str, Any]) -> None:
    """The user's and the assistant's turns change places."""
    one, other = content["added_tokens"][3:5]
    one["content"], other["content"] = other["content"], one["content"]
    words = content["model"]["vocab"]
    words[one["content"]], words[other["content"]] = one["id"], other["id"]


SAME: dict[str, Change] = {
    "as it is": lambda content: None,
    "in another order": lambda content: content.update(added_tokens=content.pop("added_tokens")),
    "with padding": lambda content: added(content, "[PAD320]", special=True),
    "with a tool's mark": lambda content: added(content, "<tool_call>", special=False),
}
OTHERS: dict[str, Change] = {
    "a word has another id": swapped,
    "a merge is missing": lambda content: content["model"]["merges"].pop(),
    "the turns have other ids": renumbered,
    "a space begins each text": lambda content: content["pre_tokenizer"].update(add_prefix_space=True),
}


@pytest.mark.parametrize("name", SAME)
def test_what_makes_no_difference_to_text_does_not_count(name: str) -> None:
    assert changed(SAME[name]) == changed(SAME["as it is"]) is not None


@pytest.mark.parametrize("name", OTHERS)
def test_what_changes_tokens_counts(name: str) -> None:
    assert changed(OTHERS[name]) != changed(SAME["as it is"])


def test_a_template_that_takes_no_conversation_has_no_likeness() -> None:
    assert changed(SAME["as it is"], "{{ raise_exception('no') }}") is None
