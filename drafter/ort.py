"""The only module that imports ONNX Runtime, with its reports switched off: `from drafter.ort import onnxruntime`."""

from __future__ import annotations

from drafter.telemetry import switch_off

switch_off()  # Before the import, because that is when ONNX Runtime starts to report.

import onnxruntime  # noqa: E402

onnxruntime.disable_telemetry_events()  # On Windows there is no environment variable for it.

__all__ = ["onnxruntime"]
