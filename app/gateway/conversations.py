"""Clients' conversations in a scratch database: a request that continues an earlier one finds it again.

Clients send the whole conversation with each question. If all of it except the question is known, the new question is
stored after the existing answer, so that the server's session and the drafter's memory still match.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from app.gateway.call import Call, Turn
from storage import Message, Store

KEPT = 16
"""Most conversations of one store; beyond that, the least recently used one is erased."""
MOST_USES = 400
"""Most questions and answers of one conversation; after that, it is begun again in a new one."""


class Place(NamedTuple):
    conversation: str
    message: str


class Conversations:
    """The conversations of one store. `store`: for them alone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._used: OrderedDict[str, list[bytes]] = OrderedDict()
        """Conversations, least recently used first, with the digests of what was asked after and answered in each."""
        self._ends: dict[bytes, Place] = {}

    def knows(self, call: Call) -> bool:
        """Whether a request continues a conversation of this store."""
        return _digest(call.history) in self._ends

    def ask(self, call: Call) -> Message:
        """Store a question in its conversation; returns its pending answer. Raises `StorageError`."""
        digest = _digest(call.history)
        place = self._ends.get(digest) if call.history else None
        if place is None:
            place = self._begin(call.history)
        else:
            if len(self._used[place.conversation]) >= MOST_USES:
                place = self._ends[digest] = self._begin(call.history)
            self._used[place.conversation].append(digest)
            self._used.move_to_end(place.conversation)
        self._store.conversations.choose(place.conversation, call.choices)
        return self._store.messages.ask(place.conversation, call.question, parent_id=place.message or None)

    def remember(self, call: Call, text: str, answer: Message) -> None:
        """Record that a client was sent this text as an answer, so that its next request can continue from there."""
        if answer.conversation_id not in self._used or not text or answer.text.strip() != text.strip():
            return
        digest = _digest((*call.turns, ("assistant", text)))
        self._ends[digest] = Place(answer.conversation_id, answer.id)
        self._used[answer.conversation_id].append(digest)

    def holds(self, conversation: str) -> bool:
        return conversation in self._used

    def _begin(self, history: Sequence[Turn]) -> Place:
        conversation = self._store.conversations.create().id
        self._used[conversation] = []
        if len(self._used) > KEPT:
            self._erase(next(iter(self._used)))
        return Place(conversation, self._store.messages.put(conversation, history))

    def _erase(self, conversation: str) -> None:
        for digest in self._used.pop(conversation):
            if self._ends.get(digest, Place("", "")).conversation == conversation:
                del self._ends[digest]
        self._store.bin.erase(conversation)


def _digest(turns: Sequence[Turn]) -> bytes:
    """A digest of the messages. Programs strip white space from the ends of messages, so that is ignored."""
    hashed = hashlib.blake2b(digest_size=16)
    for role, text in turns:
        said = text.strip().encode("utf-8", "surrogatepass")
        hashed.update(b"%s %d " % (role.encode(), len(said)) + said)
    return hashed.digest()
