"""What can be varied in training a baseline. Data, packing and schedule are those of MoA."""

from __future__ import annotations

from dataclasses import dataclass

from drafter.training.recipe import Recipe


@dataclass(frozen=True)
class BaselineRecipe(Recipe):
    """The choices of one training run.

    Defaults are the papers' if they give a number. Anchors are in the batches but not used.
    """

    feature_weight: float = 10.0
    """EAGLE-2: weight of the SmoothL1 feature loss beside the cross-entropy, which the paper weights 1 to 0.1."""
    noise: float = 0.1
    """EAGLE-2: largest uniform noise that is added to the features it learns from."""
    unroll: int = 7
    """EAGLE-3: steps of the training-time test, so that draft depths 1 .. `unroll` are learnt."""
    discount: float = 0.8
    """EAGLE-3: the loss of depth d is weighted by this to the power of d - 1."""
