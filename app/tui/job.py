"""Ctrl+Z: this program as a job of the shell that started it (POSIX, "Job control")."""

from __future__ import annotations

import os
import signal
import sys
import time


def has_shell() -> bool:
    """Whether a shell waits that can bring this program back. A shell gives each job a process group of its own."""
    return sys.platform != "win32" and os.getpgrp() != os.getsid(0)


def stop_job() -> None:
    """Stop the whole job, and return when the shell has continued it. The terminal must be as it was before.

    Not with SIGTSTP: the rest of the job (`make`) would stop first, and this program then as one in the background.
    """
    if sys.platform == "win32":
        return
    continued = False

    def go_on(*_: object) -> None:
        nonlocal continued
        continued = True

    before = signal.signal(signal.SIGCONT, go_on)
    try:
        os.killpg(os.getpgrp(), signal.SIGSTOP)
        # Another thread may get the signal, so this one can still run for a moment.
        while not continued:
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGCONT, before)
