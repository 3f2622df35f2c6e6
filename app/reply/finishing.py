"""How an answer ends: what is said of it, and what is stored."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace

from app.events import Done, Failed, Judged
from app.reply.reply import Reply
from app.reply.request import Task
from drafter.text import ChatText
from storage import FinalStatus, StorageBusy, StorageError, Store

SAVE_TRIES = 6
"""To store a complete answer; each waits five seconds for its turn."""
SAVE_PAUSE_SECONDS = 0.2
"""Between two of them, for the screen."""


def queued(failed: Failed, reply: Reply | None) -> Failed:
    """What is said of an answer that waits for the server."""
    begun = reply is not None and bool(reply.answer.text)
    what = "What there is of the answer stays, and the rest is asked for" if begun else "The question waits and is sent"
    return replace(failed, message=f"{failed.message} {what} when the server is back.", queued=True)


def outcome(reply: Reply) -> tuple[FinalStatus, Done]:
    """Of a reply that has come to its end."""
    assert reply.reason is not None
    stopped = reply.reason == "stopped"
    tokens, provenance = tuple(reply.answer.tokens), tuple(reply.answer.provenance)
    done = Done(stopped, reply.reason, tokens, provenance, reply.stats, reply.cut, reply.full)
    return "stopped" if stopped else "done", done


async def finish(
    store: Store,
    text: ChatText,
    task: Task,
    reply: Reply | None,
    status: FinalStatus,
    judged: Judged | None,
    *,
    settles: str | None,
    waits: bool = False,
) -> Failed | None:
    """Stores what there is, and how it came about; what went wrong where that is impossible.

    `waits`: the question goes back into the queue, or what has begun of its answer waits there to be completed.

    Another program may hold the database for longer than a call waits: a new version that brings its tables up to
    date, an import of a very long conversation. That is no reason to lose an answer.
    """
    stats = task.about
    answer = task.begin(text) if reply is None else reply.answer
    if reply is not None:
        stats |= {**asdict(reply.stats), "tau": reply.stats.tau, "reason": reply.reason, **reply.told}
    if judged is not None:
        stats |= {"kept": judged.kept, "of": judged.of}
    tries = SAVE_TRIES
    while True:
        try:
            if waits:
                if not answer.text and store.queue.defer(task.message.id) is not None:
                    return None
                store.queue.add_verification(task.message.id)  # First: who dies in between has it completed, too.
            store.messages.finish(
                task.message.id, answer.tokens, answer.provenance, answer.text, status, stats, settles=settles
            )
            return None
        except StorageError as error:
            tries -= 1
            if not isinstance(error, StorageBusy) or not tries:
                return Failed(str(error), "internal")
        await asyncio.sleep(SAVE_PAUSE_SECONDS)
