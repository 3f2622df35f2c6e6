"""Which processors add products with signed 8-bit weights exactly.

ONNX Runtime multiplies unsigned inputs by signed weights in half the time that unsigned weights take. But x86 without
VNNI saturates the sum of two such products at 16 bits. There, the weights of graphs whose sums must be exact are made
unsigned when they are loaded (`models/graph_file.py`): a weight w and its zero point 0 become w + 128 and 128, which in
two's complement turns one bit of each byte. That is another form of the same numbers, with the same exact sums.
"""

from __future__ import annotations

import platform
from pathlib import Path

SIGNED = ".signed"
"""End of the names of such weights, and of their zero point."""
CPU = Path("/proc/cpuinfo")


def adds_exactly() -> bool:
    """Whether this processor is known to add up products with signed weights exactly."""
    if platform.machine().lower() not in ("x86_64", "amd64", "i386", "i686"):
        return True
    return CPU.exists() and "vnni" in CPU.read_text(errors="replace")
