"""A window for the tests: it does what windows do, without pause, and says what must be stored afterwards.

    python -m tests.storage.window DATABASE SHARED SEED STEPS

It has conversations of its own, and writes to the conversation SHARED along with others. One line of JSON on stdout
when it is done: a `WindowReport`.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import msgspec

from storage import Conversation, Message, Store, WholeConversation
from storage.rows import new_id, now

BROUGHT = 150
"""How many questions an import has, and how many answers."""

Said = list[tuple[str, str]]
"""Answers: id and text, a word that occurs nowhere else."""


class Own(msgspec.Struct):
    title: str
    deleted: bool = False
    answers: Said = []
    queued: list[str] = []
    """The texts of prompts."""


class WindowReport(msgspec.Struct):
    own: dict[str, Own]
    shared: Said
    erased: list[str]


class Window:
    def __init__(self, database: Path, shared: str, seed: int) -> None:
        self._database, self._shared, self._seed = database, shared, seed
        self._rng = random.Random(seed)
        self._store = Store.open(database)
        self._words = 0
        self.report = WindowReport({}, [], [])

    def run(self, steps: int) -> None:
        often = [*[self.create] * 3, *[self.answer] * 8, *[self.answer_shared] * 4, *[self.look] * 6]
        seldom = [self.delete, self.restore, self.erase, *[self.queue] * 2, self.bring, self.reopen]
        for _ in range(steps):
            self._rng.choice([*often, *seldom])()
        self._store.close()

    def _word(self) -> str:
        self._words += 1
        return f"word{self._seed}x{self._words}x"

    def _own(self, deleted: bool = False) -> tuple[str, Own] | None:
        own = [(key, one) for key, one in self.report.own.items() if one.deleted == deleted]
        return self._rng.choice(own) if own else None

    def _write(self, conversation: str) -> tuple[str, str]:
        """Writes an answer as the assistant does."""
        store, word = self._store, self._word()
        pending = store.messages.ask(conversation, "say a word", parent_id=store.conversations.get(conversation).tip_id)
        for rounds in range(1, 4):
            store.messages.checkpoint(pending.id, range(rounds), [True] * rounds, word[:rounds])
        store.messages.finish(pending.id, range(4), [True] * 4, word, "done", {"rounds": 4})
        return pending.id, word

    def create(self) -> None:
        title = self._word()
        self.report.own[self._store.conversations.create(title).id] = Own(title)

    def answer(self) -> None:
        if chosen := self._own():
            chosen[1].answers.append(self._write(chosen[0]))

    def answer_shared(self) -> None:
        self.report.shared.append(self._write(self._shared))

    def bring(self) -> None:
        """Imports a conversation with so many messages that the transaction takes a while."""
        title, key, time = self._word(), new_id(), now()
        said: list[Message] = []
        for _ in range(BROUGHT):
            for role, text in (("user", "say a word"), ("assistant", self._word())):
                parent = said[-1].id if said else None
                said.append(Message(new_id(), key, parent, role, text, "done", (), (), {}, time))  # type: ignore[arg-type]
        self._store.transfer.put(WholeConversation(Conversation(key, title, said[-1].id, time, time), tuple(said), ()))
        self.report.own[key] = Own(title, answers=[(one.id, one.text) for one in said[1::2]])

    def look(self) -> None:
        store = self._store
        store.conversations.all(), store.queue.all(), store.branches.versions(self._shared)
        store.search.conversations("word"), store.search.messages(f"word{self._seed}x1")
        store.branches.thread(self._shared)

    def delete(self) -> None:
        if chosen := self._own():
            self._store.bin.delete(chosen[0])
            chosen[1].deleted = True

    def restore(self) -> None:
        if chosen := self._own(deleted=True):
            self._store.bin.restore(chosen[0])
            chosen[1].deleted = False

    def erase(self) -> None:
        if chosen := self._own(deleted=True):
            self._store.bin.erase(chosen[0])
            del self.report.own[chosen[0]]
            self.report.erased.append(chosen[0])

    def queue(self) -> None:
        """Queues prompts of this window and sends every second one at once."""
        if chosen := self._own():
            word = self._word()
            queued = self._store.queue.add(chosen[0], word)
            if self._words % 2:
                chosen[1].queued.append(word)
            elif (answer := self._store.queue.take(queued.id)) is not None:
                self._store.messages.finish(answer.id, [1], [True], f"to{word}", "done", {}, settles=answer.id)
                chosen[1].answers.append((answer.id, f"to{word}"))

    def reopen(self) -> None:
        self._store.close()
        self._store = Store.open(self._database)


def main(database: str, shared: str, seed: str, steps: str) -> None:
    window = Window(Path(database), shared, int(seed))
    window.run(int(steps))
    sys.stdout.write(msgspec.json.encode(window.report).decode() + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
