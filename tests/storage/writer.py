"""A second process for the tests: writes answers as the assistant does and says on stdout what is safely stored.

    python -m tests.storage.writer DATABASE endless    one answer after another, until it is killed
    python -m tests.storage.writer DATABASE patient    half an answer; the other half after a line on stdin

Each line is `message-id tokens status`. Answer text and tokens: `0 1 2 ...`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from storage import Store

ROUNDS = 6
TOKENS_PER_ROUND = 3


def text_of(tokens: int) -> str:
    return " ".join(str(token) for token in range(tokens))


def say(message_id: str, tokens: int, status: str) -> None:
    print(message_id, tokens, status, flush=True)


def write_answer(store: Store, patient: bool) -> None:
    conversation = store.conversations.create()
    question = store.messages.add(conversation.id, "user", "count", parent_id=None, status="done")
    answer = store.messages.add(conversation.id, "assistant", "", parent_id=question.id, status="pending")
    say(answer.id, 0, "pending")
    tokens = 0
    for written in range(ROUNDS):
        if patient and written == ROUNDS // 2:
            sys.stdin.readline()
        tokens += TOKENS_PER_ROUND
        store.messages.checkpoint(answer.id, range(tokens), [True] * tokens, text_of(tokens))
        say(answer.id, tokens, "streaming")
    store.messages.finish(answer.id, range(tokens), [True] * tokens, text_of(tokens), "done", {"rounds": ROUNDS})
    say(answer.id, tokens, "done")


def main(database: str, mode: str) -> None:
    store = Store.open(Path(database))
    write_answer(store, mode == "patient")
    while mode == "endless":
        write_answer(store, False)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
