"""The only module that imports ONNX Runtime: `from drafter.ort import onnxruntime`. It cannot report its use."""

from __future__ import annotations

from drafter.telemetry import switch_off

switch_off()  # Before the import: that is when ONNX Runtime starts to report.

import onnxruntime  # noqa: E402

onnxruntime.disable_telemetry_events()  # On Windows no variable does it.

__all__ = ["onnxruntime"]
