"""Write the bundled target as a graph for ONNX Runtime, with weights in 8 bits.

    python -m recipes.shell_guide.graph --target DIR [--float32]

`DIR` is the target's folder (default: the bundled one). The graph is written there as target.int8.onnx, or as
target.onnx with weights in float32. A server then uses it instead of PyTorch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from app.config import BUNDLED_TARGET
from models.engines.onnx_graph import write_graph
from models.files import GRAPHS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, default=BUNDLED_TARGET)
    parser.add_argument("--float32", action="store_true")
    arguments = parser.parse_args()
    path = arguments.target / GRAPHS[arguments.float32]
    write_graph(arguments.target, path, int8=not arguments.float32)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
