"""A target of many layers that each change what it says, as in a model that was trained: little can be cut out of it.

The tiny pair's target is nearly a bigram table, so it says about the same without its middle layers. Here, what a layer
adds is larger than what comes in.
"""

from __future__ import annotations

from pathlib import Path

import torch

from tests.support.tiny import random_target, save_target
from tests.support.tiny_text import train_tokenizer

LAYERS = 12


def write_deep_target(folder: Path, *, seed: int = 0) -> Path:
    """Write the model's folder. It never ends an answer by itself. Returns `folder`."""
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": LAYERS, "head_dim": 16}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, fast = random_target(train_tokenizer(), initializer_range=0.2, **shape)
    save_target(model, fast, folder)
    return folder
