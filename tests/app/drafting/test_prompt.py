"""A conversation as tokens: answers keep their own tokens, and tokens of another vocabulary are never used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from app.attachments.renderer import question_text
from app.drafting.prompt import (
    ConversationTokens,
    conversation_length,
    conversation_messages,
    conversation_tokens,
    is_spelt,
    questions_of,
    spelt,
)
from models.text.chat_text import ChatText
from storage import Attachment, Message
from storage.records import Role
from tests.support.tiny_text import CHAT_TEMPLATE, CORPUS, END, counted_text, tiny_text, train_tokenizer

SAID = "list all files"


def message(role: Role, content: str, tokens: Iterable[int] = (), verified: int | None = None) -> Message:
    """`verified`: how many of its first tokens are; None: all."""
    provenance = tuple(verified is None or at < verified for at, _ in enumerate(tokens))
    return Message("m", "c", None, role, content, "done", tuple(tokens), provenance, {}, "2026-01-01")


def by_letter(said: str, *end: int) -> tuple[int, ...]:
    """Tokens of a text that nobody else would have cut so."""
    return (*(token for letter in said for token in tiny_text().encode(letter)), *end)


@pytest.mark.parametrize(
    ("thread", "said"),
    [
        ([message("user", "list files")], [("user", "list files")]),
        (
            [message("user", "a"), message("assistant", "ls"), message("user", "b")],
            [("user", "a"), ("assistant", "ls"), ("user", "b")],
        ),
        ([message("user", "lost"), message("assistant", ""), message("user", "again")], [("user", "again")]),
    ],
    ids=["a question", "an imported answer", "a question without an answer"],
)
def test_tokens_are_as_the_template_says(text: ChatText, thread: list[Message], said: list[tuple[str, str]]) -> None:
    assert conversation_tokens(text, thread) == text.render(said)


@pytest.mark.parametrize(
    ("said", "own"),
    [
        ("list all", by_letter("list all", END)),
        ("list", by_letter("list")),  # It was stopped.
        ("red", (*tiny_text().encode("\x1b[31mred"), END)),  # What was shown is without what a terminal obeys.
    ],
)
def test_an_answer_keeps_its_tokens_and_prefix_and_has_an_end(text: ChatText, said: str, own: tuple[int, ...]) -> None:
    thread = [message("user", "a"), message("assistant", said, own), message("user", "b")]
    tokens, before = conversation_tokens(text, thread), conversation_tokens(text, thread[:1])
    whole = own if own[-1] == END else (*own, END)
    assert tokens[: len(before) + len(whole)] == [*before, *whole]
    assert tokens.count(END) == text.render([("user", "a"), ("assistant", said), ("user", "b")]).count(END)


# ---- long conversations ----------------------------------------------------------------------------------------------


OWN = by_letter(SAID)


def long_thread(turns: int) -> list[Message]:
    """A conversation of this many turns, and a question. Every second answer has tokens of its own."""
    thread = []
    for turn in range(turns):
        thread += [message("user", f"question {turn}"), message("assistant", SAID, OWN if turn % 2 else ())]
    return [*thread, message("user", "and now?")]


def test_the_next_question_costs_what_is_new() -> None:
    text = counted_text()
    thread = long_thread(100)
    kept = ConversationTokens(text, None)
    kept.read(thread)
    whole, _ = text.taken()
    longer = [*thread, message("assistant", SAID), message("user", "again?")]
    read = kept.read(longer)
    characters, messages = text.taken()
    assert characters < whole / 20 and messages <= 2 * len(longer)
    assert read is not None and read[0] == conversation_tokens(text, longer)


def test_what_is_kept_is_of_no_use_to_another_branch(text: ChatText) -> None:
    thread, kept = long_thread(6), ConversationTokens(text, None)
    kept.read(thread)
    other = [*thread[:5], replace(thread[5], text="show disk usage", tokens=()), *thread[6:]]
    for branch, system in ((other, None), (thread, "be brief"), (thread[:3], None), (thread, None)):
        read = kept.read(branch, system)
        assert read is not None and read[0] == conversation_tokens(text, branch, system=system)


# ---- the tokens of one message ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other() -> ChatText:
    """Another drafter's: the same special tokens, and others merged."""
    return ChatText(train_tokenizer([word[::-1] for word in CORPUS]).to_str().encode(), CHAT_TEMPLATE, [END])


def test_own_tokens_stay_and_others_are_encoded_and_unverified(text: ChatText, other: ChatText) -> None:
    for tokens in (text.encode(SAID), OWN, (*OWN, END)):
        said = message("assistant", SAID, tokens, verified=2)
        assert is_spelt(text, said) and spelt(text, said) is said
    coloured = message("assistant", "red", (*text.encode("\x1b[31mred"), END))
    assert spelt(text, coloured) is coloured, "what was shown is without what a terminal obeys"
    foreign = tuple(other.encode(SAID))
    assert foreign != tuple(text.encode(SAID))
    vocabulary = 320
    for tokens in (
        (*foreign, END),
        (*text.encode(SAID), vocabulary),
        (*text.encode(SAID), -1),
        (*text.encode(SAID), 2),  # What ended an answer there opens a turn here.
        tuple(text.encode("delete all files")),
        (),
    ):
        said = message("assistant", SAID, tokens)
        again = spelt(text, said)
        assert not is_spelt(text, said)
        assert (again.tokens, again.provenance) == (tuple(text.encode(SAID)), (False,) * len(text.encode(SAID)))
        assert (again.text, again.id) == (said.text, said.id)


def test_whichever_token_ended_an_answer_the_template_writes_its_own() -> None:
    text = ChatText(train_tokenizer().to_str().encode(), CHAT_TEMPLATE, [END, 2])
    asked, again = message("user", "a"), message("user", "b")
    prompts = [
        conversation_tokens(text, [asked, message("assistant", SAID, (*OWN, *ends)), again])
        for ends in ((END,), (2,), ())
    ]
    assert prompts[0] == prompts[1] == prompts[2]


# ---- the system prompt -----------------------------------------------------------------------------------------------

EACH = "{%- for message in messages -%}"
REFUSES = CHAT_TEMPLATE.replace(
    EACH, EACH + "{%- if message['role'] == 'system' -%}{{ raise_exception('no system role') }}{%- endif -%}"
)
LEAVES_OUT = CHAT_TEMPLATE.replace(EACH, "{%- for message in messages if message['role'] != 'system' -%}")


def with_template(template: str) -> ChatText:
    assert template != CHAT_TEMPLATE
    return ChatText(train_tokenizer().to_str().encode(), template, [END])


@pytest.mark.parametrize("imported", [[], [message("system", "be long")]])
@pytest.mark.parametrize("chosen", [None, "", "answer in verse, and be brief"])
def test_a_system_prompt_comes_first_and_a_chosen_one_takes_the_place_of_an_imported_one(
    text: ChatText, imported: list[Message], chosen: str | None
) -> None:
    thread = [*imported, message("user", "a"), message("assistant", SAID), message("user", "b")]
    first = ("be long" if imported else "") if chosen is None else chosen
    said = [("system", first)] * bool(first) + [("user", "a"), ("assistant", SAID), ("user", "b")]
    assert text.takes_system
    assert conversation_tokens(text, thread, system=chosen) == text.render(said)
    assert conversation_messages(thread, chosen) == said
    assert conversation_length(text, thread, system=chosen) == pytest.approx(len(text.render(said)), abs=3)


@pytest.mark.parametrize("template", [REFUSES, LEAVES_OUT], ids=["refuses", "leaves out"])
def test_a_template_without_a_system_role_gets_it_in_the_first_question(template: str) -> None:
    text = with_template(template)
    thread = [message("user", "a"), message("assistant", "ls"), message("user", "b")]
    assert not text.takes_system
    merged = text.render([("user", "be brief\n\na"), ("assistant", "ls"), ("user", "b")])
    assert conversation_tokens(text, thread, system="be brief") == merged
    assert conversation_length(text, thread, system="be brief") == pytest.approx(len(merged), abs=3)
    imported = [message("system", "be brief"), *thread]
    assert conversation_tokens(text, imported) == merged


# ---- files that go with a question -----------------------------------------------------------------------------------


def test_files_are_read_before_the_question_and_count_as_its_tokens(text: ChatText) -> None:
    notes = Attachment("notes.txt", "text/plain", b"list all files\n" * 20)
    asked = replace(message("user", "what is this"), attachments=(notes,))
    said = question_text(asked)
    assert conversation_tokens(text, [asked]) == text.render([("user", said)])
    assert questions_of([asked]) == ["what is this"], "pages are searched for what was typed"
    counted = conversation_length(text, [asked])
    assert abs(counted - len(text.render([("user", said)]))) <= 4
    assert conversation_messages([asked]) == [("user", said)]


STRICT = CHAT_TEMPLATE.replace(
    EACH,
    "{%- for message in messages[1:] if message['role'] == 'system' -%}"
    "{{ raise_exception('late system message') }}{%- endfor -%}"
    "{%- for message in messages if message['role'] != 'system' -%}"
    "{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('roles must alternate') }}"
    "{%- endif -%}{%- endfor -%}" + EACH,
)


def test_a_template_that_wants_one_system_message_and_alternating_roles_gets_them() -> None:
    text = with_template(STRICT)
    thread = [
        message("assistant", "hi"), message("system", "be brief"), message("user", "a"), message("assistant", "ls"),
        message("system", "be polite"), message("assistant", "-l"), message("user", "b"),
    ]  # fmt: skip
    said = [("user", "Please begin."), ("assistant", "hi"), ("user", "a"), ("assistant", "ls\n\n-l"), ("user", "b")]
    assert conversation_tokens(text, thread) == text.render([("system", "be brief\n\nbe polite"), *said])
