"""A window for the tests: does what windows do, without pause, and tells what must be there afterwards.

    python -m tests.storage.window DATABASE SHARED SEED STEPS

It has conversations of its own, and writes to the conversation SHARED along with others. One line of JSON on stdout
when it is done: a `Report`.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from storage import Conversation, Message, Store, WholeConversation
from storage.rows import new_id, now

BROUGHT = 150
"""Questions, and as many answers."""


class Said(msgspec.Struct):
    id: str
    text: str
    """One word that occurs nowhere else."""
    deleted: bool = False


class Own(msgspec.Struct):
    title: str
    pinned: bool = False
    deleted: bool = False
    answers: list[Said] = []
    queued: list[str] = []
    """Texts of prompts."""


class Report(msgspec.Struct):
    own: dict[str, Own]
    shared: list[Said]
    erased: list[str]
    memories: dict[str, int]
    """Of own conversations: tokens."""
    worst_seconds: float
    """Longest call."""


class Window:
    def __init__(self, database: Path, shared: str, seed: int) -> None:
        self._database, self._shared, self._seed = database, shared, seed
        self._rng = random.Random(seed)
        self._store = Store.open(database)
        self._words = 0
        self.report = Report({}, [], [], {}, 0.0)

    def run(self, steps: int) -> None:
        actions: list[Callable[[], None]] = [
            *[self.create] * 3,
            *[self.answer] * 8,
            *[self.answer_shared] * 4,
            *[self.look] * 6,
            self.rename,
            self.pin,
            self.delete,
            self.restore,
            self.erase,
            *[self.delete_answer] * 2,
            self.restore_answer,
            *[self.queue] * 2,
            self.bring,
            self.remember,
            self.reopen,
        ]
        for _ in range(steps):
            begun = time.monotonic()
            self._rng.choice(actions)()
            self.report.worst_seconds = max(self.report.worst_seconds, time.monotonic() - begun)
        self._store.close()

    def _word(self) -> str:
        self._words += 1
        return f"word{self._seed}x{self._words}x"

    def _own(self, deleted: bool = False) -> tuple[str, Own] | None:
        own = [(key, one) for key, one in self.report.own.items() if one.deleted == deleted]
        return self._rng.choice(own) if own else None

    def _write(self, conversation: str) -> Said:
        """An answer, as the assistant writes one."""
        store, word = self._store, self._word()
        pending = store.messages.ask(conversation, "say a word", parent_id=store.conversations.get(conversation).tip_id)
        for rounds in range(1, 4):
            store.messages.checkpoint(pending.id, range(rounds), [True] * rounds, word[:rounds])
        store.messages.finish(pending.id, range(4), [True] * 4, word, "done", {"rounds": 4})
        return Said(pending.id, word)

    def create(self) -> None:
        title = self._word()
        self.report.own[self._store.conversations.create(title).id] = Own(title)

    def answer(self) -> None:
        if chosen := self._own():
            chosen[1].answers.append(self._write(chosen[0]))

    def answer_shared(self) -> None:
        self.report.shared.append(self._write(self._shared))

    def bring(self) -> None:
        """A conversation out of a file: as many messages in one transaction as take a while."""
        title, key, time = self._word(), new_id(), now()
        said: list[Message] = []
        for _ in range(BROUGHT):
            for role, text in (("user", "say a word"), ("assistant", self._word())):
                parent = said[-1].id if said else None
                said.append(Message(new_id(), key, parent, role, text, "done", (), (), {}, time))  # type: ignore[arg-type]
        self._store.transfer.put(WholeConversation(Conversation(key, title, said[-1].id, time, time), tuple(said), ()))
        self.report.own[key] = Own(title, answers=[Said(one.id, one.text) for one in said[1::2]])

    def look(self) -> None:
        store = self._store
        store.conversations.all(), store.queue.all(), store.branches.versions(self._shared)
        store.search.conversations("word"), store.search.messages(f"word{self._seed}x1")
        store.branches.thread(self._shared)

    def rename(self) -> None:
        if chosen := self._own():
            chosen[1].title = self._word()
            self._store.conversations.rename(chosen[0], chosen[1].title)

    def pin(self) -> None:
        if chosen := self._own():
            chosen[1].pinned = not chosen[1].pinned
            self._store.conversations.pin(chosen[0], chosen[1].pinned)

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
            self.report.memories.pop(chosen[0], None)
            self.report.erased.append(chosen[0])

    def delete_answer(self) -> None:
        """The last one, after which nothing was said."""
        if (chosen := self._own()) and chosen[1].answers and not chosen[1].answers[-1].deleted:
            self._store.bin.delete_message(chosen[1].answers[-1].id)
            chosen[1].answers[-1].deleted = True

    def restore_answer(self) -> None:
        if chosen := self._own():
            for said in [said for said in chosen[1].answers if said.deleted][:1]:
                self._store.bin.restore_message(said.id)
                said.deleted = False

    def queue(self) -> None:
        """Prompts of this window; every second one is sent at once."""
        if chosen := self._own():
            word = self._word()
            queued = self._store.queue.add(chosen[0], word)
            if self._words % 2:
                chosen[1].queued.append(word)
            elif (answer := self._store.queue.take(queued.id)) is not None:
                self._store.messages.finish(answer.id, [1], [True], f"to{word}", "done", {}, settles=answer.id)
                chosen[1].answers.append(Said(answer.id, f"to{word}"))

    def remember(self) -> None:
        if chosen := self._own():
            tokens = self._rng.randint(1, 50)
            self._store.memory.save(chosen[0], b"format", 0, tokens, bytes(tokens))
            self.report.memories[chosen[0]] = tokens

    def reopen(self) -> None:
        self._store.close()
        self._store = Store.open(self._database)


def main(database: str, shared: str, seed: str, steps: str) -> None:
    window = Window(Path(database), shared, int(seed))
    window.run(int(steps))
    sys.stdout.write(msgspec.json.encode(window.report).decode() + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
