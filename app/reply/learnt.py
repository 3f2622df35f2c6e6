"""Has each drafter draft with the newest version of what it learnt on this device, and keeps what it can learn from.

Another process learns (`outrider learn`), so before each answer it is looked whether the version in use is still the
same. A version counts only while every answer that it learnt from is there: whoever deletes a conversation deletes what
was learnt from it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from app.reply.generation import Generation
from drafter.learning.distributions import Distributions
from drafter.learning.versions import Versions
from drafter.runtime import Drafter
from models.config import DrafterCorrupt
from storage import StorageError, Store


class Learnt:
    """What the drafters of one program have learnt. `folder`: their versions, or None to disable learning."""

    def __init__(self, store: Store, folder: Path | None) -> None:
        self._store = store
        self._folder = folder
        self._stamps: dict[int, tuple[int, int]] = {}

    def refresh(self, drafter: Drafter) -> bool:
        """Have this drafter draft with the version in use. Returns whether it drafts with another one now.

        May read files. A version that cannot be read, or that learnt from what is gone, counts as none.
        """
        if self._folder is None or not self.learns(drafter):
            return False
        versions, before = Versions.of(self._folder, drafter.config), drafter.version
        if versions.stamp == (0, 0) and not before:
            return False
        version = versions.in_use
        if version is not None and (version.number != before or self._stamps.get(id(drafter)) != versions.stamp):
            try:
                drafter.correct(versions.load(version, drafter.config), version.number, versions.graph(version))
            except DrafterCorrupt:
                version = None
        gone = True
        if version is not None:
            with contextlib.suppress(StorageError):
                gone = not self._store.replays.holds(version.messages)
        if version is None or gone:
            drafter.correct(None, 0)
        self._stamps[id(drafter)] = versions.stamp
        return drafter.version != before

    def learns(self, drafter: Drafter) -> bool:
        """Whether this drafter can learn, and may."""
        return self._folder is not None and drafter.correctable

    def keep(self, message_id: str, generation: Generation) -> None:
        """Keep how a finished answer was drafted, if each of its tokens is checked.

        While drafts do not pay, none is made; then it is kept as if the whole answer had been drafted at once, without
        memory. What the target might have said in the last round may come later; it is kept then.
        """
        drafting, answer = generation.drafting, generation.answer
        prompt, end = len(generation.prompt), len(generation.tokens)
        rounds = [one for one in drafting.rounds if one[0] < end]
        if not rounds and generation.own_target and prompt < end:
            rounds = [(prompt, 0)]
        if self._folder is None or not rounds or not all(answer.provenance):
            return

        def save(heard: Distributions) -> None:
            packed = heard.within(prompt, end).pack()
            with contextlib.suppress(StorageError):  # It is a loss to nobody but the learner.
                self._store.replays.save(message_id, drafting.memory_digest, prompt, rounds, packed)

        drafting.keep(save)
