"""What a verifier says to the person who starts it, and why it cannot start."""

from __future__ import annotations

import contextlib
import sys

from models.config import DrafterError
from models.engines.engine import EngineError
from models.errors import ModelError
from remote.verifier.holders import SecurityError


class ServeError(Exception):
    """The verifier cannot start. The message says why and what to do."""


class CannotBind(ServeError):
    """The address is in use or not this machine's."""


class NoMemory(ServeError):
    """There is less memory than one session needs."""


class NoReplicas(ServeError):
    """Ray does not start, or the replicas on it do not."""


class BadCertificate(ServeError):
    """A TLS certificate or key cannot be used."""


START_ERRORS = (ModelError, ServeError, EngineError, SecurityError, DrafterError)
"""All errors that `serve` raises for a person to read."""


def say(sentence: str) -> None:
    """Print on stderr, if anybody can read it. Loading may take minutes, and background work is not awaited."""
    with contextlib.suppress(OSError):
        print(f"outrider: {sentence}", file=sys.stderr, flush=True)
