"""Uses freed memory again, and returns it to the system once a minute.

The C library of most Linux systems returns large blocks at once, and of the others only those at the end of an arena.
Both are wrong for a server. New pages for the logits of each token take 0.4 ms, and 7 ms at temperature 1 (with a
vocabulary of 152,000). And blocks that live as long as a session pin the free memory around them: after 27 minutes of
clients coming and going, 130 of a server's 477 resident megabytes were such memory.

So all threads allocate from one arena, which keeps what is freed for at most a minute. With other C libraries nothing
is done. See mallopt(3) and malloc_trim(3).
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable

SECONDS = 60.0
"""Time between two trims. One takes a few milliseconds, during which the other threads keep running."""
LARGE_BYTES = 32 << 20
"""Blocks of at least this size get their own pages, which are returned at once. No larger limit is allowed."""
OPTIONS = {
    "MALLOC_TRIM_THRESHOLD_": (-1, 2 * LARGE_BYTES),
    "MALLOC_MMAP_THRESHOLD_": (-3, LARGE_BYTES),
    "MALLOC_ARENA_MAX": (-8, 1),
}
"""For each environment variable that sets the option: its number in glibc's `malloc.h`, and our value."""


def use_again() -> None:
    """Make the C library reuse freed memory, for any thread. Call this before there are threads.

    Environment variables take precedence.
    """
    if _function("malloc_trim") is None or (mallopt := _function("mallopt")) is None:
        return
    for variable, (option, value) in OPTIONS.items():
        if variable not in os.environ:
            mallopt(option, value)


def start_giving_back(seconds: float = SECONDS) -> None:
    """Return freed memory now and at regular intervals, in a thread that ends with the program."""
    if (trim := _function("malloc_trim")) is None:
        return

    def give_back() -> None:
        while True:  # At once too: loading a model leaves tens of megabytes.
            trim(0)
            time.sleep(seconds)

    threading.Thread(target=give_back, name="freed memory", daemon=True).start()


def _function(name: str) -> Callable[..., int] | None:
    """This function of glibc, or None with another C library."""
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return found
