"""Which conversation a command goes on with."""

from __future__ import annotations

from storage import NotFound, Store


def conversation_to_continue(store: Store, conversation_id: str | None, *, last: bool) -> str | None:
    """The conversation of that id, or the last one; None where neither is wanted.

    Raises `NotFound` where there is none.
    """
    if conversation_id is not None:
        return store.conversation(conversation_id).id
    if not last:
        return None
    newest = max(store.conversations(), key=lambda one: one.updated, default=None)
    if newest is None:
        raise NotFound("There is no conversation to continue yet; ask without -c to begin one.")
    return newest.id
