"""How to install packages that only some parts of Outrider need.

Outrider is not in any package index yet, so a package of that name would be somebody else's.
"""

from __future__ import annotations

import sys
from typing import Literal

Extra = Literal["server", "train", "gguf", "server,gguf", "ray"]


def how_to_install(extra: Extra) -> str:
    """The command that installs extras of `pyproject.toml`, as part of a sentence."""
    command = f"run pip install '.[{extra}]' in Outrider's source folder"
    if extra != "gguf" and sys.platform == "linux":  # There, PyTorch's default build includes gigabytes of CUDA.
        command += f" (without an NVIDIA card: pip install -r requirements-cpu.txt '.[{extra}]')"
    return command
