"""The shapes of a baseline for a target, with a given number of trained parameters: by default as many as MoA's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import msgspec
import torch
from transformers import PreTrainedModel

from benchmarks.baseline_drafters.config import BaselineConfig, Method
from benchmarks.baseline_drafters.eagle2 import Eagle2
from benchmarks.baseline_drafters.eagle3 import Eagle3
from benchmarks.baseline_drafters.independent import Independent
from benchmarks.baseline_drafters.model import Baseline
from drafter.config import DrafterConfig
from drafter.model import DraftModel, MemoryEncoder, weights_digest
from drafter.training.loop import trained_parameters
from drafter.training.target import drafter_config

CLASSES: dict[Method, Callable[[BaselineConfig], Baseline]] = {
    "eagle2": Eagle2,
    "eagle3": Eagle3,
    "independent": Independent,
}

STEP = 32
"""The width of an MLP is a multiple of this."""

INDEPENDENT_LAYERS = 4
INDEPENDENT_HEAD_SIZE = 32


def build(config: BaselineConfig) -> Baseline:
    """The untrained model of a config."""
    return CLASSES[config.method](config)


def features_of(method: Method, depth: int) -> tuple[int, ...]:
    """The hidden states that a method reads from a target with so many layers."""
    if method == "eagle2":
        return (depth,)
    if method == "eagle3":  # In proportion to 2, 16 and 29 of 32.
        return max(1, round(depth / 16)), depth // 2, depth - max(1, round(3 * depth / 32))
    return ()


def moa_parameters(config: DrafterConfig) -> int:
    """Trained parameters of a MoA drafter of these shapes.

    The number of the target's layers that it runs does not matter.
    """
    with torch.device("meta"):
        draft, encoder = DraftModel(config), MemoryEncoder(config)
    draft.freeze()
    return trained_parameters(draft) + (trained_parameters(encoder) if config.cross_attention else 0)


def baseline_config(
    target: PreTrainedModel, name: str, method: Method, *, parameters: int | None = None, own_head: bool = False
) -> BaselineConfig:
    """A baseline for this target, called `name`, with about so many trained parameters; None: as many as MoA's.

    EAGLE has the target's width and heads. The independent model has four layers, heads of 32, and a width that goes
    with an MLP of 8/3 of it. In all of them, the width of the MLP then makes up the number. An `own_head` counts.
    """
    shapes = drafter_config(target, name, inference_layers=0)
    config = BaselineConfig(
        method=method,
        target=name,
        weights=weights_digest(target.state_dict()).hex(),
        vocabulary=shapes.vocabulary,
        hidden=shapes.hidden,
        heads=shapes.heads,
        kv_heads=shapes.kv_heads,
        head_size=shapes.head_size,
        ffn=STEP,
        rope_theta=shapes.rope_theta,
        norm_eps=shapes.norm_eps,
        features=features_of(method, shapes.target_layers),
        own_head=own_head,
    )
    wanted = moa_parameters(shapes) if parameters is None else parameters
    if method == "independent":
        config = _nearest(_independents(config), wanted)
    return _nearest(_with_mlps(config), wanted)


def _nearest(candidates: Iterator[BaselineConfig], parameters: int) -> BaselineConfig:
    """The candidate whose number of trained parameters is nearest. The candidates grow from one to the next."""
    best = next(candidates)
    while abs(own_parameters(candidate := next(candidates)) - parameters) <= abs(own_parameters(best) - parameters):
        best = candidate
    return best


def _with_mlps(config: BaselineConfig) -> Iterator[BaselineConfig]:
    for ffn in itertools.count(STEP, STEP):
        yield msgspec.structs.replace(config, ffn=ffn)


def _independents(config: BaselineConfig) -> Iterator[BaselineConfig]:
    for heads in itertools.count(1):
        width = heads * INDEPENDENT_HEAD_SIZE
        yield msgspec.structs.replace(
            config,
            layers=INDEPENDENT_LAYERS,
            hidden=width,
            heads=heads,
            kv_heads=heads,
            head_size=INDEPENDENT_HEAD_SIZE,
            ffn=round(8 / 3 * width / STEP) * STEP,
        )


def own_parameters(config: BaselineConfig) -> int:
    """Trained parameters of a baseline of these shapes."""
    with torch.device("meta"):
        return trained_parameters(build(config))
