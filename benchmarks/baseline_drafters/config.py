"""What a baseline's folder says about it: method, shapes, the target it belongs to, and the cost of its training."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from models.config import Rope

Method = Literal["eagle2", "eagle3", "independent", "layer-skip"]

METHODS: tuple[Method, ...] = tuple(method for method in get_args(Method) if method != "layer-skip")
"""The methods that are trained."""

WireBits = Literal[4, 8, 16]


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
    first_layers: int = 0
    """EAGLE only: F, how many of the target's first layers run on the tokens before its own, as in MoA."""
    first_ffn: int = 0
    """Width of the MLPs of these."""
    copied: tuple[int, ...] = ()
    """The target's layers that its own layers begin as, one for each; empty: random weights."""
    state_norms: bool = False
    """EAGLE-3 only: EAGLE-3.1's norms of the states that are fused, and of the output that is fed back."""
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    rope_theta: float
    norm_eps: float
    features: tuple[int, ...] = ()
    """Hidden states of the target that it reads: i is the input of layer i, L the result of the final norm."""
    files: dict[str, str] = {}
    """None are checked. The app asks a drafter's config for them."""
    measured: msgspec.UnsetType = msgspec.UNSET
    """It never writes alone."""
    own_head: bool = False
    """EAGLE only: the head is trained, starting from the target's."""
    wire_bits: WireBits = 16
    """Bits of each number of a feature on the wire: float16, or whole numbers with a scale for every `head_size`."""
    draft_vocabulary: tuple[int, ...] = ()
    """Target ids that it can draft; empty: all."""
    stop_tokens: tuple[int, ...] = ()
    steps: int = 0
    seconds: float = 0.0
    """Seconds of training, over all runs."""

    @property
    def taught(self) -> tuple[int, ...]:
        """Hidden states of the target that training reads: the features, then the output of the first F layers."""
        return (*self.features, self.first_layers) if self.first_layers else self.features

    @property
    def rope(self) -> Rope:
        """How queries and keys are rotated."""
        return Rope(self.rope_theta)
