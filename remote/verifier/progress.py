"""What `outrider serve` tells on stderr while it starts, so that minutes of loading are not silent."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def tell(sentence: str) -> None:
    print(f"outrider: {sentence}", file=sys.stderr, flush=True)


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Say what begins, and then how long it took."""
    begun = time.monotonic()
    tell(f"{what} ...")
    yield
    tell(f"{what}: done in {time.monotonic() - begun:.1f} s")
