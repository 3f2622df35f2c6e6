"""What a baseline's folder says about it: method, shapes, the target it belongs to, and the cost of its training."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from drafter.config import Rope

Method = Literal["eagle2", "eagle3", "independent"]

METHODS: tuple[Method, ...] = get_args(Method)


class BaselineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `config.json` of a baseline's folder."""

    method: Method
    target: str
    """Name of the target, for people."""
    weights: str
    """Digest of the target's weights, hex. A drafter for another target drafts badly without a message."""
    vocabulary: int
    """Size of the target's vocabulary."""
    hidden: int
    """Width of its layers. EAGLE's is the target's."""
    layers: int = 1
    """Decoder layers of its own."""
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    rope_theta: float
    norm_eps: float
    features: tuple[int, ...] = ()
    """Hidden states of the target that it reads: i is the input of layer i, L the result of the final norm."""
    own_head: bool = False
    """EAGLE only: the head is trained, starting from the target's."""
    draft_vocabulary: tuple[int, ...] = ()
    """Target ids that it can draft; empty: all."""
    stop_tokens: tuple[int, ...] = ()
    steps: int = 0
    seconds: float = 0.0
    """Seconds of training, over all runs."""

    @property
    def rope(self) -> Rope:
        """How queries and keys are rotated."""
        return Rope(self.rope_theta)
