"""Seconds per draft step: each quantisation scheme on ONNX Runtime, the float model in PyTorch, and the least possible.

    python -m benchmarks.draft_step [--drafter DIR] [--threads N] [--json OUT]
    python -m benchmarks.draft_step --shapes 8b [--first-layers 0,1,2] [--threads N] [--json OUT]

Each step sees 256 cached tokens and their memory, with 1 row (the first of a round) or 8 rows (a level of the tree). A
step reads every weight once, except the embedding, of which it reads only the rows of its tokens. So it cannot be
faster than these bytes divided by the read bandwidth. The bandwidth is measured at the same time, on as many threads:
the largest of 1 GiB of int64 (numpy) and their sum (PyTorch), whichever is faster; other kernels of both libraries and
`memchr` come within 5 %. All figures are medians of interleaved repetitions, so that other load slows all of them
equally: compare ratios.

`--shapes 8b` takes random weights in the shapes of a drafter for Llama 3 8B with a draft vocabulary of 32,000 tokens.
It needs 8 GB of memory, 6 GB in the temporary folder, and two minutes or more. The float model does not run. With
`--first-layers`, drafters with these numbers of first layers of the target are measured, one after another.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import onnx
import torch

from benchmarks.bundled import DRAFTER, machine_and_pair, write
from drafter.model import DraftModel, StepModule, load_draft_model
from drafter.step import Correction, StepGraph, cache_shapes, graph_names
from drafter.training.export import export_graph
from models.config import DrafterConfig, Scheme
from models.engines.quantise import quantise_graph
from models.ort import onnxruntime

CACHED, ROWS, REPEATS, LARGE_REPEATS = 256, (1, 8), 60, 15
STREAMED = 1 << 27
"""Numbers of 8 bytes that are read to measure the bandwidth: many times what any cache holds."""

LLAMA_8B = DrafterConfig(
    target="8b",
    vocabulary=32_000,  # The draft vocabulary's size; more rows would not be read anyway.
    hidden=4096,
    target_layers=32,
    target_kv_heads=8,
    target_head_size=128,
    heads=32,
    kv_heads=8,
    head_size=128,
    ffn=14_336,
    encoder_ffn=4096,
    inference_layers=0,
    target_heads=32,
    target_ffn=14_336,
    rope_theta=500_000.0,
    norm_eps=1e-5,
)


class Bandwidth:
    """Reads far more than a cache holds, on a number of threads."""

    def __init__(self, threads: int) -> None:
        self._numbers = np.ones(STREAMED, np.int64)
        self._tensor = torch.from_numpy(self._numbers)
        self._parts = np.array_split(self._numbers, threads)
        self._pool = ThreadPoolExecutor(threads)
        self._seconds: dict[str, list[float]] = {"numpy": [], "torch": []}

    def measure(self, repeats: int = 5) -> None:
        for _ in range(repeats):
            self._seconds["numpy"].append(seconds(lambda: list(self._pool.map(np.max, self._parts))))
            self._seconds["torch"].append(seconds(self._tensor.sum))

    @property
    def bytes_per_second(self) -> float:
        return self._numbers.nbytes / min(float(np.median(times)) for times in self._seconds.values())


@dataclass
class Quantised:
    """A graph under test."""

    session: onnxruntime.InferenceSession
    weights: int
    """Bytes that each step reads."""
    independent: bool

    @classmethod
    def make(cls, source: Path, path: Path, scheme: Scheme, config: DrafterConfig, threads: int) -> Quantised:
        quantise_graph(source, path, scheme)
        independent = StepGraph(path, config).independent_rows
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # As the drafter runs it.
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return cls(session, weight_bytes(path), independent)


def seconds(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def weight_bytes(path: Path) -> int:
    """Bytes of a graph's weights without the embedding, of which a step reads only a few rows."""
    graph = onnx.load(path).graph
    looked_up = {node.input[0] for node in graph.node if node.op_type == "Gather" and node.input[1] == "tokens"}
    return sum(len(tensor.raw_data) for tensor in graph.initializer if tensor.name not in looked_up)


def inputs(config: DrafterConfig, rows: int) -> list[torch.Tensor]:
    """The inputs of one step, in the graph's order."""
    shapes = [(config.kv_heads, config.head_size), *cache_shapes(config)]  # First the shape of memory.
    tensors = [torch.arange(rows) + 100, torch.arange(rows) + CACHED, torch.zeros(rows, CACHED + rows)]
    tensors += [torch.randn(heads, CACHED, size) for heads, size in shapes for _ in range(2)]
    return tensors + ([torch.from_numpy(part) for part in Correction.none(config)] if config.correctable else [])


def measure(
    config: DrafterConfig,
    graphs: dict[str, Quantised],
    exact: torch.nn.Module | None,
    threads: int,
    repeats: int = REPEATS,
) -> list[dict[str, object]]:
    """A row of figures for each graph and number of rows, and for the float model if it is given."""
    names, outputs = graph_names(config)
    bandwidth, rows = Bandwidth(threads), []
    for count in ROWS:
        tensors = inputs(config, count)
        feed = {name: tensor.numpy() for name, tensor in zip(names, tensors)}
        times: dict[str, list[float]] = {name: [] for name in graphs}
        exactly: list[float] = []
        bandwidth.measure()
        with torch.inference_mode():
            for _ in range(repeats):
                for name, graph in graphs.items():
                    times[name].append(seconds(lambda: graph.session.run(outputs, feed)))  # noqa: B023
                if exact is not None:
                    exactly.append(seconds(lambda: exact(*tensors)))  # noqa: B023
        bandwidth.measure()
        for name, graph in graphs.items():
            step, floor = float(np.median(times[name])), graph.weights / bandwidth.bytes_per_second
            row: dict[str, object] = {"shapes": config.target, "first_layers": config.first_layers, "rows": count}
            row |= {"scheme": name, "threads": threads}
            row |= {"ms": round(1000 * step, 3), "weight_bytes": graph.weights}
            row |= {"read_gb_s": round(bandwidth.bytes_per_second / 1e9, 1), "floor_ms": round(1000 * floor, 6)}
            row |= {"times_floor": round(step / floor, 2), "independent_rows": graph.independent}
            if exactly:
                slow = float(np.median(exactly))
                row |= {"float_ms": round(1000 * slow, 3), "times_as_fast_as_float": round(slow / step, 2)}
            rows.append(row)
    return rows


def measured(
    model: DraftModel, schemes: Sequence[Scheme], exact: torch.nn.Module | None, threads: int, repeats: int
) -> list[dict[str, object]]:
    """Quantise the model in each way, and measure."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "float.onnx"
        export_graph(model, source)
        graphs = {
            scheme: Quantised.make(source, Path(scratch) / f"{scheme}.onnx", scheme, model.config, threads)
            for scheme in schemes
        }
        return measure(model.config, graphs, exact, threads, repeats)


def whole_numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def show(row: dict[str, object]) -> str:
    told = "{shapes}, F = {first_layers}, {rows} rows, {scheme}: {ms:.2f} ms, ".format(**row)
    told += "{times_floor} times the floor of {floor_ms:.2f} ms".format(**row)
    told += " ({weight_bytes:,} bytes at {read_gb_s} GB/s)".format(**row)
    if "float_ms" in row:
        told += "; float {float_ms:.2f} ms, {times_as_fast_as_float} times as fast".format(**row)
    return told + ("" if row["independent_rows"] else "; rows touch one another")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafter", type=Path, default=DRAFTER)
    parser.add_argument("--shapes", choices=["8b"], help="random weights instead of a drafter's")
    parser.add_argument("--first-layers", type=whole_numbers, default=[0], metavar="F,...", help="with --shapes")
    parser.add_argument("--scheme", choices=get_args(Scheme), nargs="+", default=list(get_args(Scheme)))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    rows = []
    if arguments.shapes:
        for first in arguments.first_layers:
            config = msgspec.structs.replace(LLAMA_8B, first_layers=first, from_target=first > 0)
            model = DraftModel(config).eval().requires_grad_(False)
            rows += measured(model, arguments.scheme, None, arguments.threads, LARGE_REPEATS)
    else:
        model = load_draft_model(arguments.drafter)
        rows = measured(model, arguments.scheme, StepModule(model).eval(), arguments.threads, REPEATS)
    for row in rows:
        print(show(row))
    write(arguments.json, rows, machine_and_pair(arguments.drafter))


if __name__ == "__main__":
    main()
