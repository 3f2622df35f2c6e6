"""The choices for training a drafter."""

from __future__ import annotations

from dataclasses import dataclass, replace

from drafter.training.loop import Schedule
from models.config import DrafterConfig

LOCAL = 0.5
"""`Recipe.local` for random weights."""


@dataclass(frozen=True)
class Recipe(Schedule):
    """The choices of one training run."""

    rows: int = 16
    row: int = 256
    """Tokens in a row. Longer conversations are cut."""
    gaps: tuple[int, int] = (5, 11)
    """Distance between anchors in tokens, uniform in this range."""
    tail: float = 0.12
    """Share of conversations with gaps of 12 .. 256 tokens, log-uniform."""
    blank: float = 0.1
    """Share of conversations whose last turn, question included, is drafted without memory of it."""
    local: float | None = None
    """Share of the steps over which conversations with a limited self-attention fade out. In these, the self-attention
    sees little before the anchor. With random weights and all tokens in sight, it would learn to do without memory. By
    default, `for_start` chooses."""
    discount: float = 0.9
    """A query's loss is weighted by this to the power of its staleness - 1: a guess counts only if the earlier ones
    were right."""

    def for_start(self, config: DrafterConfig, trained: bool = False) -> Recipe:
        """This recipe with `local` chosen by the drafter's starting weights, unless it was given.

        `trained`: whether they are those of an older drafter.
        """
        chosen = 0.0 if config.from_target or trained else LOCAL
        return replace(self, local=chosen) if self.local is None else self
