"""What can be varied in training a baseline; the data, their packing and the schedule are those of MoA."""

from __future__ import annotations

from dataclasses import dataclass

from drafter.training.recipe import Recipe


@dataclass(frozen=True)
class BaselineRecipe(Recipe):
    """Defaults are the papers' where they give a number. Anchors are in the batches, but no baseline looks at them."""

    feature_weight: float = 10.0
    """EAGLE-2: weight of the SmoothL1 feature loss beside the cross-entropy, which the paper weighs 1 to 0.1."""
    noise: float = 0.1
    """EAGLE-2: to the features it learns from, uniform noise of at most this is added."""
    unroll: int = 7
    """EAGLE-3: steps of the training-time test, so that draft depths 1 .. `unroll` are learnt."""
    discount: float = 0.8
    """EAGLE-3: the loss of depth d weighs this to the power of d - 1."""
