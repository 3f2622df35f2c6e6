"""Exports the step graph of a trained drafter as ONNX."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import torch

from drafter.config import INLINE
from drafter.model.draft_model import DraftModel, StepModule
from drafter.step import cache_shapes, graph_names


def export_graph(model: DraftModel, path: Path) -> None:
    """Write the float step graph, in which M, P and T stay free. Large weights go into `*.data` beside it."""
    graph = StepModule(model).eval()
    # The exporter keeps only the graph's own head.
    size = sum(weight.nbytes for name, weight in graph.named_parameters() if name != "model.head.weight")
    config, rows, cached, seen = model.config, 3, 5, 7
    shapes = [(config.kv_heads, seen, config.head_size)]  # The shape of memory.
    shapes += [(heads, cached, size) for heads, size in cache_shapes(config)]
    arguments = (
        torch.arange(rows),
        torch.arange(cached, cached + rows),
        torch.zeros(rows, cached + rows),
        *(torch.randn(shape) for shape in shapes for _ in range(2)),
    )
    kept, rank = len(config.draft_vocabulary) or config.vocabulary, 9
    correction = (torch.randn(config.hidden, rank), torch.randn(rank, kept)) if config.correctable else ()
    inputs, outputs = graph_names(config)
    free = torch.export.Dim.DYNAMIC
    ranks = ({1: free}, {0: free}) if config.correctable else ()
    dynamic = ({0: free}, {0: free}, {0: free, 1: free}, (*({1: free} for _ in arguments[3:]), *ranks))
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph,
            (*arguments, *correction),
            path,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=dynamic,
            dynamo=True,
            external_data=size > INLINE,
            verbose=False,
        )
