"""Reads and writes the weights of both halves of a drafter."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from models.config import DrafterCorrupt

EMBEDDING, HEAD = "embedding.weight", "head.weight"


def weights_digest(weights: dict[str, Tensor]) -> bytes:
    """16 bytes over named weights, rounded to bfloat16."""
    running = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(weights.items()):
        running.update(name.encode())
        running.update(tensor.detach().to("cpu", torch.bfloat16).float().numpy().tobytes())
    return running.digest()


def save_weights(module: nn.Module, path: Path) -> None:
    """Write a module's weights as bfloat16. A head that is the embedding (tied weights) is written once."""
    weights = {k: v.detach().to("cpu", torch.bfloat16).contiguous() for k, v in module.state_dict().items()}
    if HEAD in weights and torch.equal(weights[HEAD], weights[EMBEDDING]):
        del weights[HEAD]
    save_file(weights, path)


def load_weights(module: nn.Module, path: Path) -> None:
    """Read weights into a module, as float32. If the head is missing, it is the embedding. Raises `DrafterCorrupt`."""
    try:
        module.load_state_dict(_floats(path))
    except (SafetensorError, RuntimeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise DrafterCorrupt(f"{path} cannot be loaded ({' '.join(lines[:2])}). Reinstall the drafter.") from None


def _floats(path: Path) -> dict[str, Tensor]:
    weights = {name: tensor.float() for name, tensor in load_file(path).items()}
    if EMBEDDING in weights:
        weights.setdefault(HEAD, weights[EMBEDDING])
    return weights
