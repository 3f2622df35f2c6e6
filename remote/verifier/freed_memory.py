"""Gives memory that nobody uses any more back to the system.

The C library of most Linux systems keeps what a program has freed, for each thread apart, and gives back only what lies
at the end. Blocks that live for as long as a session then hold the memory around them: after 27 minutes of clients that
came and went, 130 of a server's 477 resident megabytes were such memory.

So large blocks get pages of their own, which go back at once, all threads take small ones from one place, and what is
free there is given back once a minute. Elsewhere nothing is done. See mallopt(3) and malloc_trim(3).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

SECONDS = 60.0
"""Time between two looks. One takes some milliseconds, in which the other threads go on."""
LARGE_BYTES = 128 << 10
"""Blocks of at least this size get pages of their own. It is where the C library begins, too, but it goes up to 32 MiB
as soon as such a block is freed."""
OPTIONS = {"MALLOC_MMAP_THRESHOLD_": (-3, LARGE_BYTES), "MALLOC_ARENA_MAX": (-8, 1)}
"""For each variable by which somebody may choose: the number of its option in glibc's `malloc.h`, and our value."""


def give_back_at_once() -> None:
    """Have the C library keep as little as it can of what is freed from now on. Call it before there are threads.

    What the environment says counts more.
    """
    if _function("malloc_trim") is None or (mallopt := _function("mallopt")) is None:
        return
    for variable, (option, value) in OPTIONS.items():
        if variable not in os.environ:
            mallopt(option, value)


def start_giving_back(seconds: float = SECONDS) -> None:
    """Give freed memory back from now on, in a thread that ends with the program."""
    trim = _function("malloc_trim")
    if trim is not None:
        threading.Thread(target=_give_back, args=(trim, seconds), name="freed memory", daemon=True).start()


def _give_back(trim: Callable[[int], int], seconds: float) -> None:
    pause = threading.Event()
    while not pause.wait(seconds):
        trim(0)


def _function(name: str) -> Callable[..., int] | None:
    """This function of glibc; None: this system has another C library."""
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return found
