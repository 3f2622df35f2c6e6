"""Seconds per draft step: the int8 graph on ONNX Runtime against the float model in PyTorch, in one run.

    python -m benchmarks.draft_step [--drafter DIR] [--json OUT]

Each step sees 256 cached tokens and their memory, with 1 row (the first of a round) and 8 rows (a level of the tree).
Both run on one thread; the figure is the median of interleaved repetitions, and the ratio is what to compare.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from drafter.config import FLOAT, GRAPH, read_config
from drafter.model import load_draft_model
from drafter.training.export import StepGraph, graph_names

DRAFTER = Path(__file__).parents[1] / "drafter/pretrained/shell-guide"
CACHED, REPEATS = 256, 60


def seconds(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafter", type=Path, default=DRAFTER)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = read_config(arguments.drafter)
    exact = StepGraph(load_draft_model(arguments.drafter, arguments.drafter / FLOAT)).eval()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(arguments.drafter / GRAPH, options, providers=["CPUExecutionProvider"])
    names, outputs = graph_names(config.inference_layers)
    shapes = [(config.kv_heads, CACHED, config.head_size)] * 4
    shapes += [(config.target_kv_heads, CACHED, config.target_head_size)] * (2 * config.inference_layers)
    rows = []
    for count in (1, 8):
        tensors = [torch.arange(count) + 100, torch.arange(count) + CACHED, torch.zeros(count, CACHED + count)]
        tensors += [torch.randn(shape) for shape in shapes]
        feed = {name: tensor.numpy() for name, tensor in zip(names, tensors)}
        times: dict[str, list[float]] = {"int8 ONNX Runtime": [], "float PyTorch": []}
        with torch.inference_mode():
            for _ in range(REPEATS):
                times["int8 ONNX Runtime"].append(seconds(lambda feed=feed: session.run(outputs, feed)))  # type: ignore[misc]
                times["float PyTorch"].append(seconds(lambda tensors=tensors: exact(*tensors)))  # type: ignore[misc]
        quick, slow = (1000 * float(np.median(times[name])) for name in times)
        rows.append(
            {"rows": count, "int8_ms": round(quick, 3), "float_ms": round(slow, 3), "ratio": round(slow / quick, 2)}
        )
        print(f"{count} rows: int8 {quick:.2f} ms, float {slow:.2f} ms, {slow / quick:.2f} times as fast")
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": platform.platform(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
