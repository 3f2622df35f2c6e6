"""Makes a drafter without training: the unchanged parts of a target that run on the device, within a given size.

The device runs the target's first F and last N layers, and two of those between: one as self-attention, one as
cross-attention, whose keys and values arrive as memory (`from_target` in `models/config.py`). So the only choices are
the number of layers, the number of tokens that the head can draft, and the number of bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from transformers import PreTrainedModel

from drafter.training.batches import AnsweredConversation
from drafter.training.distil import Distiller
from drafter.training.target import UnsupportedTarget, copy_layers, drafter_config
from models.config import DrafterConfig, Scheme
from models.engines.quantise import BLOCK

SHARE = 3
"""The device runs at most one n-th of the target's layers, or `FEWEST` if that is more: a draft must cost less than the
target."""
FEWEST = 5
VOCABULARIES = (32_768, 16_384, 8_192)
"""Possible sizes of the draft vocabulary, the largest first."""
ENOUGH_LAYERS = 3
"""Number of layers besides self-attention and cross-attention from which on more tokens are worth more than more
layers."""
BESIDES = 1 << 20
"""Bytes of a graph besides matrices: norms, nodes, names."""


@dataclass(frozen=True)
class Shape:
    """Which parts of a target run on the device, and in how many bits."""

    first_layers: int
    inference_layers: int
    vocabulary: int
    """Tokens that the head can draft."""
    scheme: Scheme

    @property
    def bits(self) -> int:
        """Bits of a weight of its layers and its head."""
        return 4 if self.scheme == "nbits4" else 8


def graph_bytes(config: DrafterConfig, shape: Shape) -> int:
    """Upper estimate, within a few percent, of the bytes of the step graph of this shape."""
    attention = config.hidden * config.target_head_size * config.target_heads * 2
    keys_values = config.hidden * config.target_head_size * config.target_kv_heads * 2
    mlp = 3 * config.hidden * config.target_ffn
    whole = shape.first_layers + config.blocks + shape.inference_layers
    numbers = whole * (attention + keys_values + mlp) + attention + mlp + shape.vocabulary * config.hidden
    layers = numbers * (shape.bits / 8 + 4 / BLOCK[shape.bits])
    return int(layers + config.vocabulary * (config.hidden + 4)) + BESIDES


def shapes_within(target: PreTrainedModel, name: str, budget: int) -> list[Shape]:
    """The best shape of at most `budget` bytes for each number of bits, the most bits first.

    Raises `UnsupportedTarget` if the device cannot run this target's layers, or none of them fits.
    """
    config = drafter_config(target, name)
    if not config.from_target:
        drafter_config(target, name, inference_layers=1, first_layers=0)  # This raises the reason.
    depth = config.target_layers
    if depth < 2:
        raise UnsupportedTarget(f"{name} has one layer: there is nothing that a drafter could leave out.")
    most = max(0, min(depth - 2, max(FEWEST, depth // SHARE) - 2))
    schemes: tuple[Scheme, Scheme] = ("auto", "nbits4")
    vocabularies = [min(config.vocabulary, VOCABULARIES[0])]
    vocabularies += [count for count in VOCABULARIES[1:] if count < vocabularies[0]]
    found = []
    for scheme in schemes:
        fitting: list[Shape] = []
        for vocabulary in vocabularies:
            for layers in range(most, -1, -1):
                last = min(1, layers)
                shape = Shape(layers - last, last, vocabulary, scheme)
                if graph_bytes(config, shape) <= budget:
                    fitting.append(shape)
                    break
        enough = min(most, ENOUGH_LAYERS)
        fitting.sort(key=lambda shape: -min(enough, shape.first_layers + shape.inference_layers))
        found += fitting[:1]
    if not found:
        least = graph_bytes(config, Shape(0, 0, vocabularies[-1], "nbits4"))
        raise UnsupportedTarget(
            f"A drafter for {name} takes at least {least / 1e6:.0f} MB, and {budget / 1e6:.0f} MB are allowed. "
            "Give more with --budget."
        )
    return found


def born(target: PreTrainedModel, name: str, shape: Shape) -> Distiller:
    """Both halves of a drafter of this shape, untrained. Raises `UnsupportedTarget`."""
    config = drafter_config(target, name, first_layers=shape.first_layers, inference_layers=shape.inference_layers)
    config = msgspec.structs.replace(config, memory_bits=4, scheme=shape.scheme)
    model = Distiller(config, target)
    copy_layers(model.draft, target)
    return model.eval().requires_grad_(False)


def likely_tokens(
    data: Sequence[AnsweredConversation], count: int, also: Sequence[int], vocabulary: int
) -> tuple[int, ...]:
    """The tokens that the head can draft: those of the answers, those of `also`, and those with the lowest numbers.

    A byte-pair tokenizer numbers its tokens in the order in which it learnt them, the most frequent first. Empty if
    all of the `vocabulary` are to be kept.
    """
    if count >= vocabulary:
        return ()
    uses = Counter(token for sample in data for begin, end in sample.learn for token in sample.ids[begin:end])
    kept = dict.fromkeys([*also, *(token for token, _ in uses.most_common(count))])
    for token in range(vocabulary):
        if len(kept) >= count:
            break
        kept.setdefault(token)
    return tuple(sorted(kept))
