"""What can be varied when a drafter is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace

from drafter.config import DrafterConfig
from drafter.training.loop import Schedule
from drafter.training.losses import Divergence

LOCAL = 0.5
"""`Recipe.local` with random weights."""


@dataclass(frozen=True)
class Recipe(Schedule):
    """What can be varied in training; every field is a row of the ablation table or a fact of the machine."""

    rows: int = 16
    row: int = 256
    """Tokens a row; what a conversation has beyond them is cut."""
    loss: Divergence = "kl"
    """Distance from the target's distribution."""
    feature_weight: float = 1.0
    """Weight of the SmoothL1 feature loss beside it."""
    gaps: tuple[int, int] = (5, 11)
    """Anchors lie this many tokens apart, uniformly."""
    tail: float = 0.12
    """Share of conversations whose gaps are 12 .. 256 tokens, log-uniformly."""
    blank: float = 0.1
    """Share of conversations whose last turn, question included, is drafted without memory of it."""
    local: float | None = None
    """Share of the steps over which conversations whose self-attention sees little before the anchor fade out: one that
    begins with random weights and sees all tokens at once learns to do without memory. None: `for_start` chooses."""
    discount: float = 0.9
    """A query's loss weighs this to the power of its staleness - 1: it counts only if the earlier ones held."""

    def for_start(self, config: DrafterConfig, trained: bool = False) -> Recipe:
        """This recipe with `local` chosen by what the drafter's weights begin as, unless it was given.

        `trained`: an older drafter's.
        """
        chosen = 0.0 if config.from_target or trained else LOCAL
        return replace(self, local=chosen) if self.local is None else self
