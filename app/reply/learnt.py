"""Makes each drafter use its newest learnt version, and stores what it can learn from.

Another process learns (`outrider learn`), so before each answer it is checked whether the version in use has changed. A
version is valid only while every answer that it learnt from exists: deleting a conversation deletes what was learnt
from it.
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
    """The learnt versions of all drafters. `folder`: where they are, or None to disable learning."""

    def __init__(self, store: Store, folder: Path | None) -> None:
        self._store = store
        self._folder = folder
        self._stamps: dict[int, tuple[int, int]] = {}

    def refresh(self, drafter: Drafter) -> bool:
        """Make this drafter use the current version. Returns whether that has changed.

        May read files. A version that cannot be read, or that learnt from deleted answers, counts as none.
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
        return self._folder is not None and drafter.correctable

    def keep(self, message_id: str, generation: Generation) -> None:
        """Store how a finished answer was drafted, if each of its tokens is checked.

        While drafts do not pay off, none is made; the answer is then stored as if it had been drafted at once, without
        memory. What the target might have said in the last round may arrive later, and is stored then.
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
            with contextlib.suppress(StorageError):  # Only the learner loses by it.
                self._store.replays.save(message_id, drafting.memory_digest, prompt, rounds, packed)

        drafting.arrivals.keep(save)
