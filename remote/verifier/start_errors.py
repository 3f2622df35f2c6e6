"""Why a verifier cannot start, in sentences for a person."""

from __future__ import annotations

from drafter.config import DrafterError
from remote.verifier.engine import EngineError
from remote.verifier.holders import SecurityError


class ServeError(Exception):
    """The verifier cannot start. The message says why and what to do.

    ServeError
    ├── UnknownModel        neither a folder nor a model that can be fetched, or an unknown architecture
    ├── CorruptWeights      the weights are damaged or incomplete
    ├── MissingTokenizer    the model has no `tokenizer.json`, which devices need
    ├── CannotBind          the address is taken or not ours
    ├── MissingPackage      a package that only some engines need is not installed
    ├── NoMemory            there is less memory than one session needs
    ├── BadTemplate         a chat template of one's own cannot be used
    ├── NoReplicas          Ray does not start, or the replicas on it do not
    └── BadCertificate      a TLS certificate or key cannot be used
    Besides, `serve` raises `EngineError`, `SecurityError` and `DrafterError`.
    """


class UnknownModel(ServeError):
    """Neither a folder nor a model that can be fetched, or an unknown architecture."""


class CorruptWeights(ServeError):
    """The weights are damaged or incomplete."""


class MissingTokenizer(ServeError):
    """The model has no `tokenizer.json`, which devices need."""


class BadTemplate(ServeError):
    """A chat template of one's own cannot be used."""


class CannotBind(ServeError):
    """The address is taken or not ours."""


class MissingPackage(ServeError):
    """A package that only some engines need is not installed."""


class NoMemory(ServeError):
    """There is less memory than one session needs."""


class NoReplicas(ServeError):
    """Ray does not start, or the replicas on it do not."""


class BadCertificate(ServeError):
    """A TLS certificate or key cannot be used."""


START_ERRORS = (ServeError, EngineError, SecurityError, DrafterError)
"""All errors that `serve` raises for a person to read."""
