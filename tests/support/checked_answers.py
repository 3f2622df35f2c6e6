"""Checked answers in a store, as a drafter's target might have given them, without a target."""

from __future__ import annotations

import numpy as np

from app.drafting.prompt import conversation_tokens
from drafter.runtime import Drafter
from storage import Store

QUESTIONS = ("what is it", "how do I find it", "and who knows it")


def own_words(drafter: Drafter, prompt: list[int], count: int) -> list[int]:
    context, text = drafter.context(), list[int]()
    context.commit(prompt)
    for step in context.generate(0.0, 0):
        text += step
        if len(text) >= count:
            break
    return text[:count]


def answered(store: Store, drafter: Drafter, *, well: bool, temperature: float = 0.0) -> None:
    """Store checked answers, which say what the drafter would say, or anything else."""
    random = np.random.default_rng(0)
    for question in QUESTIONS:
        conversation = store.conversations.create(question).id
        asked = store.messages.add(conversation, "user", question, parent_id=None, status="done")
        pending = store.messages.add(conversation, "assistant", "", parent_id=asked.id, status="pending")
        thread = store.branches.path(pending.id)[:-1]
        prompt = conversation_tokens(drafter.text, thread)
        words = own_words(drafter, prompt, 24) if well else [int(one) for one in random.integers(10, 200, 24)]
        text = drafter.text.decode(words)
        stats = {"temperature": temperature}
        store.messages.finish(pending.id, words, (True,) * len(words), text, "done", stats)
        store.replays.save(pending.id, drafter.memory_digest, len(prompt), [(len(prompt), 0)])
