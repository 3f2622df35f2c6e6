"""Switches off the libraries' usage reports before they are imported.

ONNX Runtime's wheels report by default since 1.29: a device id, the processor, the name and hashes of the graph. It
reads the opt-out when it is imported, and what it has queued by then stays queued. So every program that may import one
of these libraries calls `switch_off` first, and only `models/ort.py` imports ONNX Runtime.
"""

from __future__ import annotations

import os

OFF = {
    "ORT_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_SAFETENSORS_CONVERSION": "1",  # Otherwise transformers asks a public service to convert a model's weights.
    "RAY_USAGE_STATS_ENABLED": "0",
    "DO_NOT_TRACK": "1",
}
"""Environment variables that the libraries read. Child processes inherit them."""


def switch_off() -> None:
    """Set the variables, whatever the environment says, so that nothing is sent unasked and nobody has to know them."""
    os.environ.update(OFF)
