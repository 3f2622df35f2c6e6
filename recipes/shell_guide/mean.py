"""The mean of the weights of several checkpoints of one training, which often answers better than any of them.

    python -m recipes.shell_guide.mean CHECKPOINT CHECKPOINT ... --out DIR

All must descend from the same weights. The tokenizer and the settings are those of the last one. ("Model soups",
arXiv 2203.05482.)
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

WEIGHTS = "model.safetensors"


def mean(checkpoints: Sequence[Path]) -> dict[str, torch.Tensor]:
    """The mean of each tensor, in the last checkpoint's number type. Raises `ValueError` if their shapes differ."""
    *others, last = (load_file(checkpoint / WEIGHTS) for checkpoint in checkpoints)
    for other in others:
        if {name: part.shape for name, part in other.items()} != {name: part.shape for name, part in last.items()}:
            raise ValueError("the checkpoints have different shapes: give those of one training")
    return {
        name: torch.stack([each[name].float() for each in (*others, last)]).mean(dim=0).to(part.dtype)
        for name, part in last.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", type=Path, nargs="+", metavar="CHECKPOINT")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        weights = mean(arguments.checkpoints)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    shutil.copytree(arguments.checkpoints[-1], arguments.out, dirs_exist_ok=True)
    save_file(weights, arguments.out / WEIGHTS, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
