"""The shapes of a baseline for a target: as many trained parameters as MoA has, or as many in a draft step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import msgspec
import torch
from transformers import PreTrainedModel

from benchmarks.baseline_drafters.config import BaselineConfig, Method
from benchmarks.baseline_drafters.eagle2 import Eagle2
from benchmarks.baseline_drafters.eagle3 import Eagle3
from benchmarks.baseline_drafters.independent import Independent, LayerSkip
from benchmarks.baseline_drafters.model import Baseline
from drafter.model import DraftModel, MemoryEncoder, weights_digest
from drafter.training.loop import trained_parameters
from drafter.training.target import INFERABLE, UnsupportedTarget, drafter_config
from models.config import DrafterConfig

CLASSES: dict[Method, Callable[[BaselineConfig], Baseline]] = {
    "eagle2": Eagle2,
    "eagle3": Eagle3,
    "independent": Independent,
    "layer-skip": LayerSkip,
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
    config = msgspec.structs.replace(_smallest(target, shapes, method), own_head=own_head)
    wanted = moa_parameters(shapes) if parameters is None else parameters
    if method == "independent":
        config = _nearest(_independents(config), wanted, own_parameters)
    return _nearest(_with_mlps(config), wanted, own_parameters)


def _smallest(target: PreTrainedModel, shapes: DrafterConfig, method: Method) -> BaselineConfig:
    """A baseline of one layer with the narrowest MLP."""
    return BaselineConfig(
        method=method,
        target=shapes.target,
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
    )


def _nearest(
    candidates: Iterator[BaselineConfig], parameters: int, count: Callable[[BaselineConfig], int]
) -> BaselineConfig:
    """The candidate whose `count` of parameters is nearest. The candidates grow from one to the next."""
    best = next(candidates)
    while abs(count(candidate := next(candidates)) - parameters) <= abs(count(best) - parameters):
        best = candidate
    return best


def _with_mlps(config: BaselineConfig, least: int = STEP) -> Iterator[BaselineConfig]:
    for ffn in itertools.count(least, STEP):
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


def equal_config(
    target: PreTrainedModel, moa: DrafterConfig, method: Method, copied: tuple[int, ...], first_layers: int = 0
) -> BaselineConfig:
    """A baseline on MoA's terms: it begins as layers of the target, and reads as much in a draft step as `moa` does.

    `copied`: the target's layers that its own ones begin as. The width of their MLPs makes up the parameters of a step;
    it is not below the target's. A layer-skip, which learns nothing, has the target's. Features cross the wire in as
    many bits a number as memory does. Raises `UnsupportedTarget` if the device cannot run the target's layers.
    """
    family = INFERABLE.get(target.config.model_type)
    if family is None or family.qkv_bias or family.qk_norm or not moa.from_target:
        raise UnsupportedTarget("Baselines begin as layers of a Llama or a Mistral only.")
    config = msgspec.structs.replace(
        _smallest(target, moa, method),
        layers=len(copied),
        first_layers=first_layers,
        first_ffn=moa.target_ffn,
        copied=copied,
        ffn=moa.target_ffn,
        state_norms=method == "eagle3",
        wire_bits=moa.memory_bits,
    )
    if method == "layer-skip":
        return config
    return _nearest(_with_mlps(config, moa.target_ffn), moa_step_parameters(moa), step_parameters)


def step_parameters(config: BaselineConfig) -> int:
    """Numbers that a draft step of a baseline multiplies by: layers, norms and the head, of which only drafted tokens
    count."""
    with torch.device("meta"):
        model = build(config)
    elsewhere = {"embedding", "head", *model.on_the_verifier}
    own = sum(part.numel() for name, part in model.named_parameters() if name.split(".")[0] not in elsewhere)
    return own + config.hidden * (len(config.draft_vocabulary) or config.vocabulary)


def moa_step_parameters(config: DrafterConfig) -> int:
    """Numbers that a draft step of a MoA drafter multiplies by, counted in this way."""
    with torch.device("meta"):
        model = DraftModel(config)
    own = sum(
        part.numel() for name, part in model.named_parameters() if name.split(".")[0] not in ("embedding", "head")
    )
    return own + config.hidden * (len(config.draft_vocabulary) or config.vocabulary)


def own_parameters(config: BaselineConfig) -> int:
    """Trained parameters of a baseline of these shapes."""
    with torch.device("meta"):
        return trained_parameters(build(config))
