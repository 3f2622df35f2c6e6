from __future__ import annotations

from storage import Conversation, Message, Store


def test_questions_come_once_where_they_were_last_asked(
    store: Store, conversation: Conversation, question: Message
) -> None:
    other = store.create_conversation("other")
    for text in ("ls", "df", "ls", ""):
        store.add_message(other.id, "user", text, parent_id=None, status="done")
    store.add_message(conversation.id, "assistant", "tar xf", parent_id=question.id, status="done")
    assert store.asked(100) == [question.text, "df", "ls"]
    assert store.asked(2) == ["df", "ls"]
    store.delete(other.id)
    assert store.asked(100) == [question.text]
