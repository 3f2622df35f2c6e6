"""The process that `OwnServer` starts: what `outrider serve` does, without a command line, which takes 0.3 s to build.

    python -m app.cli.own_server MODEL DRAFTER TOKEN-FILE THREADS

It serves on a free port of loopback until its stdin ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

from app.cli.settings import settings_with
from app.exits import FAILED, fail, guarded
from models.cores import keep_cores_free
from models.extras import how_to_install
from models.telemetry import switch_off


def main() -> None:
    switch_off()
    keep_cores_free()
    guarded(_serve)


def _serve() -> None:
    model, drafter, token_file, threads = sys.argv[1:]
    _, folders = settings_with()  # Opens the log.
    try:
        from remote.verifier.holders import read_tokens
        from remote.verifier.serve import serve
        from remote.verifier.start_errors import START_ERRORS
    except ImportError as error:
        fail(f"The server needs {error.name}, which is missing: {how_to_install('server')}", FAILED)
    try:
        tokens = read_tokens(Path(token_file))
        serve(
            model,
            drafter=Path(drafter),
            tokens=tokens,
            watch_stdin=True,
            threads=int(threads),
            log_format="off",
            kept_texts=folders.texts,
        )
    except START_ERRORS as error:
        fail(str(error), FAILED)


if __name__ == "__main__":
    main()
