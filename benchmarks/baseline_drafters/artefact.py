"""A baseline's folder: its config, and its own weights in bfloat16. Weights of the target are borrowed again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from benchmarks.baseline_drafters.config import BaselineConfig
from benchmarks.baseline_drafters.model import Baseline
from benchmarks.baseline_drafters.shapes import build
from drafter.model import weights_digest
from models.config import CONFIG, FLOAT, DrafterCorrupt, DrafterError, DrafterMissing


class ForeignTarget(DrafterError):
    """The baseline was trained for another target, or for other weights of it."""


def save_baseline(model: Baseline, folder: Path) -> None:
    """Write `config.json` and `model.safetensors`. The model is as training left it, before its weights are frozen."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: part.detach().to("cpu", torch.bfloat16).contiguous() for name, part in _own(model).items()}
    save_file(tensors, folder / FLOAT)
    (folder / CONFIG).write_bytes(msgspec.json.format(msgspec.json.encode(model.config), indent=1))


def load_baseline(folder: Path, target: PreTrainedModel) -> Baseline:
    """Load the float model of a folder to the target's device, with what it borrows from the target.

    Raises `DrafterMissing`, `DrafterCorrupt`, `ForeignTarget`.
    """
    for name in (CONFIG, FLOAT):
        if not (folder / name).is_file():
            raise DrafterMissing(f"No baseline in {folder}: {name} is missing.")
    try:
        config = msgspec.json.decode((folder / CONFIG).read_bytes(), type=BaselineConfig)
        weights = load_file(folder / FLOAT)
    except (msgspec.DecodeError, SafetensorError) as error:
        raise DrafterCorrupt(f"The baseline in {folder} cannot be read ({error}).") from None
    if config.weights != weights_digest(target.state_dict()).hex():
        raise ForeignTarget(f"The baseline in {folder} was trained for other weights of {config.target}.")
    model = build(config)
    own = _own(model)
    if {name: weight.shape for name, weight in own.items()} != {name: part.shape for name, part in weights.items()}:
        raise DrafterCorrupt(f"The weights in {folder} are not those that its {CONFIG} describes.")
    model.borrow(target)
    with torch.no_grad():
        for name, weight in own.items():
            weight.copy_(weights[name])
    return model.to(target.device).eval().requires_grad_(False)


def _own(model: Baseline) -> dict[str, Tensor]:
    """What it does not borrow: what is learnt, and what it took from the first batch."""
    learnt = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    return {**learnt, **dict(model.named_buffers())}
