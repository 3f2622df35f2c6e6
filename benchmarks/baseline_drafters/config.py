"""What a baseline's folder says about it: method, shapes, the target it belongs to, and what its training took."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Method = Literal["eagle2", "eagle3", "independent"]

METHODS: tuple[Method, ...] = get_args(Method)


class BaselineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`config.json` of a baseline's folder."""

    method: Method
    target: str
    """The target's name, for people."""
    weights: str
    """Digest of the target's weights, hex: a drafter of another target drafts badly and says nothing."""
    vocabulary: int
    """Of the target."""
    hidden: int
    """Width of its layers; EAGLE's is the target's."""
    layers: int = 1
    """Decoder layers of its own."""
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    rope_theta: float
    norm_eps: float
    features: tuple[int, ...] = ()
    """Hidden states of the target that it reads: i is the input of layer i, L what the final norm gives."""
    own_head: bool = False
    """EAGLE only: the head is trained, from the target's, instead of being the target's."""
    draft_vocabulary: tuple[int, ...] = ()
    """Target ids that it can draft; empty: all of them."""
    stop_tokens: tuple[int, ...] = ()
    steps: int = 0
    seconds: float = 0.0
    """Of training, over all runs."""
