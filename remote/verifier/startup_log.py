"""What `outrider serve` tells on stderr while it starts, so that minutes of loading are not silent."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def say(sentence: str) -> None:
    print(f"outrider: {sentence}", file=sys.stderr, flush=True)


@contextmanager
def timed_step(what: str) -> Iterator[None]:
    """Say what begins, and then how long it took."""
    begun = time.monotonic()
    say(f"{what} ...")
    yield
    say(f"{what}: done in {time.monotonic() - begun:.1f} s")
