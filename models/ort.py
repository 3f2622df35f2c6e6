"""The only module that imports ONNX Runtime, with its reports switched off.

Import it where a graph is loaded: it takes 150 ms, which `outrider --help` does not need.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from models.telemetry import switch_off

switch_off()  # Before the import, because that is when ONNX Runtime starts to report.

import onnxruntime  # noqa: E402

onnxruntime.disable_telemetry_events()  # On Windows there is no environment variable for it.

__all__ = ["graph_session", "onnxruntime"]


def graph_session(
    graph: Path | bytes, weights: Mapping[str, NDArray[Any]] = {}, *, threads: int, spin: bool = False
) -> Any:
    """A session (`onnxruntime.InferenceSession`) that runs a graph on the CPU, tuned for a laptop that does other work.

    `weights`: those that the graph's file leaves out. `spin`: threads busy-wait for one another while the graph runs,
    which is faster but takes cores from others. Raises the runtime's own errors, which have no narrower common class
    than `Exception`.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Threads that spin between runs make a busy laptop three to ten times slower.
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spin)))
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.log_severity_level = 3
    if weights:
        values = map(onnxruntime.OrtValue.ortvalue_from_numpy, weights.values())  # Without copying.
        options.add_external_initializers(list(weights), list(values))
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
