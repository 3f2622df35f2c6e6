"""The process that `OwnServer` starts: what `outrider serve` does, without a command line, which takes 0.3 s to build.

    python -m app.cli.own_server MODEL DRAFTER TOKEN-FILE THREADS

It serves on a free port of loopback until its stdin ends. Without a drafter (an empty string) it stands in for other
servers: its priority is low, and it makes no drafts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from app.cli.settings import settings_with
from app.exits import FAILED, USAGE, fail, guarded
from models.cores import keep_cores_free
from models.extras import how_to_install
from models.telemetry import switch_off
from remote.verifier.options import ServeOptions

NICENESS = 5
"""By how much the priority of a model that reads along is below that of other programs."""
MOST_MB, MOST_SESSIONS = 320, 8
"""Most memory for conversations with the bundled model, and most conversations that are kept: enough for a whole one of
2,048 tokens, or for the last short ones. Nobody has asked the bundled model to fill the memory of the device."""


def main() -> None:
    switch_off()
    keep_cores_free()
    guarded(_serve)


def _serve() -> None:
    from app.config import BUNDLED_TARGET
    from models.free_memory import CACHE_SHARE, free_bytes

    model, drafter, token_file, threads = sys.argv[1:]
    _, folders = settings_with()  # Opens the log.
    if not drafter and hasattr(os, "nice"):
        os.nice(NICENESS)
    bundled = model == str(BUNDLED_TARGET)
    options = ServeOptions(
        model=model,
        drafter=Path(drafter) if drafter else None,
        no_drafter=not drafter,
        port=0,
        cache_mb=min(MOST_MB, int(free_bytes() * CACHE_SHARE) >> 20) if bundled else None,
        max_sessions=MOST_SESSIONS if bundled else ServeOptions.max_sessions,
        token_file=Path(token_file),
        threads=int(threads),
        no_batch_invariance=not drafter,  # A model alone: its drafts are checked, its text is compared with none.
        log_format="off",
        texts=folders.texts,
        watch_stdin=True,
    )
    run_server(options)


def run_server(options: ServeOptions) -> None:
    """Serve until a signal to end, or fail with a sentence for a person."""
    try:
        from remote.verifier.holders import SecurityError
        from remote.verifier.serve import serve as listen
        from remote.verifier.start_errors import START_ERRORS

        if options.replicas:
            from remote.verifier.replicas.replicas import serve_replicas as listen
    except ImportError as error:
        fail(f"The server needs {error.name}, which is missing: {how_to_install('server')}", FAILED)
    try:
        listen(options)
    except START_ERRORS as error:
        fail(str(error), USAGE if isinstance(error, SecurityError) else FAILED)


if __name__ == "__main__":
    main()
