"""Measures drafters that came without figures, on the person's own checked answers, and keeps or retires them.

A retired one stays on its shelf until the person deletes it, and is not used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from app.drafting.prompt import replayed_tokens
from app.remotes.notes import origins
from app.remotes.substitute import name_of
from drafter.fitness import measure_alone
from drafter.floors import UNMEASURED, why_no_drafts
from drafter.runtime import Drafter
from drafter.shelf import Drafters, keep_figures
from models.config import DrafterConfig, DrafterError
from storage import NotFound, StorageError, Store

MOST_ANSWERS = 16
"""Number of newest answers on which a drafter is measured."""
SHORT = 12
"""Letters of a digest that name a drafter."""
MOST_PROMPT = 1_024
"""Longest conversation, in tokens, that is read for that."""


@dataclass(frozen=True)
class Judged:
    """The result for one drafter."""

    folder: Path
    config: DrafterConfig
    """With the figures, if it could be measured."""
    fetched: bool
    """Whether it came from a server; otherwise it was made on this device."""

    @property
    def news(self) -> tuple[str, str] | None:
        """A notice to show once if it is not used: a key for the notice, and a sentence with advice."""
        why = why_no_drafts(self.config)
        if why is None or not self.fetched:
            return None
        name, digest = name_of(self.config), self.folder.name
        if why == UNMEASURED:
            server = next(iter(origins(self.folder)), "NAME")
            why = "it was never measured, and this device has no checked answers to measure it with"
            what = f"fetch it again: outrider drafter fetch {server}"
        else:
            what = f"delete it: outrider drafter rm {digest[:SHORT]}"
        return f"{digest}: {why}", f"The {name} is not used: {why}. To {what}"


def judge_unmeasured(store: Store, drafters: Drafters, halted: Callable[[], bool]) -> list[Judged]:
    """Measure the drafters without known figures, and store the figures next to them. It takes some seconds.

    `halted`: checked between answers; the rest is then left for the next time.
    """
    judged = []
    for folder, config in drafters.unmeasured():
        # Useless, or left for the next time. `ValueError`: tokens that are not in its vocabulary.
        with contextlib.suppress(DrafterError, StorageError, OSError, ValueError):
            if store.replays.all(config.memory_digest, 1):  # Otherwise there is no reason to load it.
                drafter = Drafter.load(folder)
                measured = measure_alone(drafter, _answers(store, drafter), halted)
                if halted():
                    break
                if measured is not None:
                    keep_figures(folder, measured)
                    config = msgspec.structs.replace(config, measured=measured)
            judged.append(Judged(folder, config, folder.parent == drafters.shelf))
    return judged


def _answers(store: Store, drafter: Drafter) -> Iterator[tuple[list[int], list[int]]]:
    """The newest greedy answers that the drafter's target has checked: the tokens before each, and its own."""
    for replay in reversed(store.replays.all(drafter.memory_digest, MOST_ANSWERS)):
        if replay.prompt > MOST_PROMPT:
            continue
        with contextlib.suppress(NotFound, ValueError):  # Changed or deleted since then.
            if store.messages.get(replay.message_id).stats.get("temperature"):
                continue
            tokens = replayed_tokens(store, drafter.text, drafter.prompt, replay)
            yield tokens[: replay.prompt], tokens[replay.prompt :]
