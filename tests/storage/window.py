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


class WindowReport(msgspec.Struct):
    own: dict[str, Said]
    shared: Said


class Window:
    def __init__(self, database: Path, shared: str, seed: int) -> None:
        self._database, self._shared, self._seed = database, shared, seed
        self._rng = random.Random(seed)
        self._store = Store.open(database)
        self._words = 0
        self.report = WindowReport({}, [])

    def run(self, steps: int) -> None:
        often = [*[self.create] * 3, *[self.answer] * 8, *[self.answer_shared] * 4, *[self.look] * 6]
        for _ in range(steps):
            self._rng.choice([*often, self.bring, self.reopen])()
        self._store.close()

    def _word(self) -> str:
        self._words += 1
        return f"word{self._seed}x{self._words}x"

    def _write(self, pending: Message | None) -> tuple[str, str]:
        """Writes an answer as the assistant does."""
        assert pending is not None
        word = self._word()
        for rounds in range(1, 4):
            self._store.messages.checkpoint(pending.id, range(rounds), [True] * rounds, word[:rounds])
        self._store.messages.finish(pending.id, range(4), [True] * 4, word, "done", {}, settles=pending.id)
        return pending.id, word

    def create(self) -> None:
        self.report.own[self._store.conversations.create(self._word()).id] = []

    def answer(self) -> None:
        if self.report.own:
            key, said = self._rng.choice(list(self.report.own.items()))
            said.append(self._write(self._store.queue.take(self._store.queue.add(key, "say a word").id)))

    def answer_shared(self) -> None:
        tip = self._store.conversations.get(self._shared).tip_id
        self.report.shared.append(self._write(self._store.messages.ask(self._shared, "say a word", parent_id=tip)))

    def bring(self) -> None:
        """Imports a conversation with so many messages that the transaction takes a while."""
        key, time = new_id(), now()
        said: list[Message] = []
        for _ in range(BROUGHT):
            for role, text in (("user", "say a word"), ("assistant", self._word())):
                parent = said[-1].id if said else None
                said.append(Message(new_id(), key, parent, role, text, "done", (), (), {}, time))  # type: ignore[arg-type]
        whole = WholeConversation(Conversation(key, self._word(), said[-1].id, time, time), tuple(said), ())
        self._store.transfer.put(whole)
        self.report.own[key] = [(one.id, one.text) for one in said[1::2]]

    def look(self) -> None:
        store = self._store
        store.conversations.all(), store.queue.all(), store.branches.versions(self._shared)
        store.search.conversations("word"), store.search.messages(f"word{self._seed}x1")
        store.branches.thread(self._shared)

    def reopen(self) -> None:
        self._store.close()
        self._store = Store.open(self._database)


def main(database: str, shared: str, seed: str, steps: str) -> None:
    window = Window(Path(database), shared, int(seed))
    window.run(int(steps))
    sys.stdout.write(msgspec.json.encode(window.report).decode() + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
