"""How an answer ends: what is said of it, and what is stored."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from app.events import Done, Failed, Judged
from app.reply import Reply
from app.task import Task
from drafter.text import ChatText
from storage import FinalStatus, StorageBusy, StorageError, Store

SAVE_TRIES = 6
"""To store a complete answer; each waits five seconds for its turn."""
SAVE_PAUSE_SECONDS = 0.2
"""Between two of them, for the screen."""


def outcome(reply: Reply) -> tuple[FinalStatus, Done]:
    """Of a reply that has come to its end."""
    assert reply.reason is not None
    stopped = reply.reason == "stopped"
    tokens, provenance = tuple(reply.answer.tokens), tuple(reply.answer.provenance)
    return "stopped" if stopped else "done", Done(stopped, reply.reason, tokens, provenance, reply.stats)


async def finish(
    store: Store,
    text: ChatText,
    task: Task,
    reply: Reply | None,
    status: FinalStatus,
    judged: Judged | None,
    settles: str | None,
) -> Failed | None:
    """Stores what there is, and how it came about; what went wrong where that is impossible.

    Another program may hold the database for longer than a call waits: a new version that brings its tables up to
    date, an import of a very long conversation. That is no reason to lose an answer.
    """
    stats = task.about
    answer = task.begin(text) if reply is None else reply.answer
    if reply is not None:
        stats |= {**asdict(reply.stats), "tau": reply.stats.tau, "reason": reply.reason}
    if judged is not None:
        stats |= {"kept": judged.kept, "of": judged.of}
    tries = SAVE_TRIES
    while True:
        try:
            store.finish(task.message.id, answer.tokens, answer.provenance, answer.text, status, stats, settles=settles)
            return None
        except StorageError as error:
            tries -= 1
            if not isinstance(error, StorageBusy) or not tries:
                return Failed(str(error), "internal")
        await asyncio.sleep(SAVE_PAUSE_SECONDS)
