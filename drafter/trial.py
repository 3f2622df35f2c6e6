"""`python -m drafter.trial FOLDER`: draft once with a drafter from elsewhere, within limited memory and time.

Exits with 0 if that worked. Otherwise it prints the reason, or is killed by the system.
"""

from __future__ import annotations

import sys
from pathlib import Path

from drafter.runtime import Drafter
from drafter.search import Pace
from models.config import DrafterError
from models.telemetry import switch_off

try:
    import resource
except ImportError:  # Windows has no such limits.
    resource = None  # type: ignore[assignment]

SPARE_BYTES = 3 << 30
"""Memory in addition to a few times the files' size: Python, ONNX Runtime and its threads."""
SECONDS = 60
"""Processor time."""


def main() -> int:
    """Try the drafter in the folder that the command line names."""
    folder = Path(sys.argv[1])
    switch_off()
    if resource is not None:
        size = sum(file.stat().st_size for file in folder.iterdir())
        resource.setrlimit(resource.RLIMIT_AS, (SPARE_BYTES + 4 * size,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    try:
        drafter = Drafter.load(folder)
        context = drafter.context()
        context.commit(drafter.asked_as("hello"))
        tree = context.draft(Pace(depth=2, breadth=2, nodes=4))
        drafter.text.decode(tree.tokens.tolist())
    except (DrafterError, MemoryError) as error:
        print(str(error) or "it takes too much memory")
        return 1
    except Exception as error:  # The runtime's errors have no narrower common class.
        print(f"{type(error).__name__}: {error}"[:300])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
