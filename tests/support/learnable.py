"""Tiny pairs whose drafter can be trained, and drafters that guess wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from drafter.training.adaptation import LEARNT
from drafter.training.graph_weights import read_weights, write_weights
from drafter.training.pipeline import requantise
from models.config import FLOAT, GRAPH, read_config, write_config
from tests.support.tiny import build_pair


def build_learnable(folder: Path, *, seed: int = 0) -> Path:
    """Write a pair as `build_pair` does, whose drafter's layers can be trained."""
    build_pair(folder, seed=seed)
    distinct_norms(folder / "drafter")
    requantise(folder / "drafter", "int8")
    return folder


def distinct_norms(drafter: Path) -> None:
    """Give each norm of a drafter other numbers: the exporter keeps equal weights once."""
    weights = load_file(drafter / FLOAT)
    torch.manual_seed(5)
    for name, weight in weights.items():
        if "norm" in name:
            weights[name] = weight + 0.1 * torch.randn(weight.shape).to(weight.dtype)
    save_file(weights, drafter / FLOAT)
    write_config(drafter, read_config(drafter))


def bewilder(drafter: Path, out: Path, seed: int = 0) -> None:
    """Write the graph of a drafter to `out` with layers of its own that guess wrong."""
    random, weights = np.random.default_rng(seed), read_weights(drafter / GRAPH, read_config(drafter))
    own = [name for name in weights if name.startswith(LEARNT) and "o_proj" in name]
    noise = {name: 3 * random.normal(size=weights[name].shape).astype(np.float32) for name in own}
    write_weights(drafter / GRAPH, out, noise)
