"""Gives memory that nobody uses any more back to the system.

The C library of most Linux systems keeps what a program has freed, for each thread apart, and gives back only what lies
at the end. After 27 minutes of clients that came and went (benchmarks/churn.py), 130 of a server's 477 resident
megabytes were such memory. Elsewhere nothing is done.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

SECONDS = 60.0
"""Time between two looks. One takes some milliseconds, in which the other threads go on."""


def start_giving_back(seconds: float = SECONDS) -> None:
    """Give freed memory back from now on, in a thread that ends with the program."""
    trim = _trimmer()
    if trim is not None:
        threading.Thread(target=_give_back, args=(trim, seconds), name="freed memory", daemon=True).start()


def _give_back(trim: Callable[[int], int], seconds: float) -> None:
    pause = threading.Event()
    while not pause.wait(seconds):
        trim(0)


def _trimmer() -> Callable[[int], int] | None:
    """`malloc_trim(pad)` of glibc; None: this system has another C library."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim
