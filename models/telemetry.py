"""Switches off the usage reports of libraries, before these are imported.

ONNX Runtime's wheels report by default since 1.29: a device id, the processor, the name and hashes of the graph. It
reads its switch when it is imported, and what it has queued by then stays queued. So every program that may import one
of these libraries calls `switch_off` first, and `models/ort.py` is the only module that imports ONNX Runtime.
"""

from __future__ import annotations

import os

OFF = {
    "ORT_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_SAFETENSORS_CONVERSION": "1",  # transformers would ask a public service to convert a model's weights.
    "RAY_USAGE_STATS_ENABLED": "0",
    "DO_NOT_TRACK": "1",
}
"""Environment variables that the libraries read. Child processes inherit them."""


def switch_off() -> None:
    """Set the variables, whatever the environment says. Nothing is sent unasked, and nobody has to know these names."""
    os.environ.update(OFF)
