"""What is sent has the form that every server takes, whatever a conversation looks like."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from remote.openai.message_order import OPENING, ordered
from remote.openai.schema import Content, ContentPart

PICTURE = ContentPart(type="image_url", image_url="data:image/png;base64,AAAA")


def test_late_system_messages_and_neighbours_of_one_role_are_joined() -> None:
    said: list[tuple[str, Content]] = [
        ("system", "Be brief."),
        ("user", "how?"),
        ("system", "Be polite."),
        ("user", "and why?"),
        ("assistant", ""),
        ("assistant", "So."),
        ("assistant", "Because."),
        ("developer", "Be brief."),
        ("user", "what is this?"),
        ("user", (PICTURE,)),
    ]
    assert ordered(said) == [
        ("system", "Be brief.\n\nBe polite."),
        ("user", "how?\n\nand why?"),
        ("assistant", "So.\n\nBecause."),
        ("user", (ContentPart(type="text", text="what is this?"), PICTURE)),
    ]


def test_a_conversation_begins_with_a_question() -> None:
    assert ordered([("assistant", "Hello."), ("user", "hi")])[:2] == [("user", OPENING), ("assistant", "Hello.")]
    assert ordered([("system", "Write a poem.")]) == [("system", "Write a poem."), ("user", OPENING)]


turns = st.lists(st.tuples(st.sampled_from(["system", "developer", "user", "assistant"]), st.text(max_size=3)))


@given(turns)
def test_the_form_holds_for_any_conversation_and_no_word_is_lost(said: list[tuple[str, Content]]) -> None:
    found = ordered(said)
    roles = [role for role, _ in found]
    spoken = roles[1:] if roles[0] == "system" else roles
    assert spoken[0] == "user" and "system" not in spoken and all(one != other for one, other in pairwise(spoken))
    for role, content in said:
        assert any(role in (kind, "developer") and content in whole for kind, whole in found) or not content
    assert ordered(found) == found
