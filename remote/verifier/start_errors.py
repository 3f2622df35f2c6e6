"""Why a verifier cannot start, in sentences for a person."""

from __future__ import annotations

from drafter.config import DrafterError
from remote.verifier.engine import EngineError
from remote.verifier.security import SecurityError


class ServeError(Exception):
    """The verifier cannot start; the message says why and what to do.

    ServeError
    ├── UnknownModel        neither a folder nor a model that can be fetched, or of an unknown architecture
    ├── CorruptWeights      weights that are damaged or incomplete
    ├── MissingTokenizer    a model without `tokenizer.json`, which devices need
    ├── CannotBind          the address is taken or not ours
    ├── NoMemory            less memory than one session needs
    └── BadCertificate      a TLS certificate or key that cannot be used
    Besides, `serve` raises `EngineError`, `SecurityError` and `DrafterError`.
    """


class UnknownModel(ServeError):
    """Neither a folder nor a model that can be fetched, or of an unknown architecture."""


class CorruptWeights(ServeError):
    """Weights that are damaged or incomplete."""


class MissingTokenizer(ServeError):
    """A model without `tokenizer.json`, which devices need."""


class CannotBind(ServeError):
    """The address is taken or not ours."""


class NoMemory(ServeError):
    """Less memory than one session needs."""


class BadCertificate(ServeError):
    """A TLS certificate or key that cannot be used."""


START_ERRORS = (ServeError, EngineError, SecurityError, DrafterError)
"""Everything that `serve` raises for a person to read."""
