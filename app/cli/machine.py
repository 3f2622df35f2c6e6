"""Describes the machine that figures were measured on, for `outrider drafter eval` and the benchmarks."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

VERSIONS = ("torch", "transformers", "onnxruntime", "numpy")
"""Packages whose version a figure can depend on."""


def machine() -> dict[str, object]:
    """Processor, cores that this process may use, system, and versions."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in VERSIONS},
    }


def _processor() -> str:
    """The processor's name. Linux has it in a file; Python provides it only on Windows."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor()
