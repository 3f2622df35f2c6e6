"""How to install packages that only some parts of Outrider need.

Outrider is not in any package index yet, so a package of that name would be somebody else's.
"""

from __future__ import annotations

import sys
from typing import Literal

Extra = Literal["server", "train", "gguf", "server,gguf", "ray", "tools"]
WITH_PYTORCH: tuple[Extra, ...] = ("server", "train", "server,gguf")
"""Those that install PyTorch."""


def how_to_install(extra: Extra) -> str:
    """The command that installs extras of `pyproject.toml`, as part of a sentence."""
    command = f"run pip install '.[{extra}]' in Outrider's source folder"
    if extra in WITH_PYTORCH and sys.platform == "linux":  # There, its default build includes gigabytes of CUDA.
        command += f" (without an NVIDIA card: pip install -r requirements-cpu.txt '.[{extra}]')"
    return command
