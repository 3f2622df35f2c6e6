"""Reads and writes the weights of both halves of a drafter."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from models.config import DrafterCorrupt
from models.graph_file import weights_inside
from models.packed import Floats, floats

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
        raise _unfit(path, error) from None


def set_weights(module: nn.Module, weights: Mapping[str, Floats], kept: Sequence[int], path: Path) -> None:
    """Give a draft model the weights of the graph `path`. Raises `DrafterCorrupt`.

    `kept`: the draft vocabulary. The head's other rows, which the graph lacks, become zero.
    """
    given = {name: torch.from_numpy(weight) for name, weight in weights.items() if name in module.state_dict()}
    if HEAD in given and kept:
        whole = torch.zeros(given[EMBEDDING].shape)
        whole[list(kept)] = given[HEAD]
        given[HEAD] = whole
    try:
        module.load_state_dict(given)
    except RuntimeError as error:
        raise _unfit(path, error) from None


def _unfit(path: Path, error: Exception) -> DrafterCorrupt:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return DrafterCorrupt(f"{path} cannot be loaded ({' '.join(lines[:2])}). Reinstall the drafter.")


def weights_in_graph(path: Path) -> dict[str, Floats]:
    """The weights of a packed step graph, by the names of a draft model's parameters, or nothing for another graph.

    The head has a row for each token that it can draft. Raises `DrafterCorrupt`.
    """
    try:
        found = {name.removeprefix("model."): np.array(floats(weight)) for name, weight in weights_inside(path).items()}
    except (OSError, ValueError) as error:
        raise DrafterCorrupt(f"{path} is not an ONNX graph ({error}).") from None
    if found:
        found.setdefault(HEAD, found[EMBEDDING])
        for row in ("null_key", "null_value"):
            found[f"cross_attention.{row}"] = found.pop(row)
    return found


def _floats(path: Path) -> dict[str, Tensor]:
    weights = {name: tensor.float() for name, tensor in load_file(path).items()}
    if EMBEDDING in weights:
        weights.setdefault(HEAD, weights[EMBEDDING])
    return weights
