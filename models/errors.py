"""Why a model cannot be run, in sentences for a person."""

from __future__ import annotations


class ModelError(Exception):
    """The model cannot be run. The message says why and what to do."""


class UnknownModel(ModelError):
    """Neither a folder nor a model that can be fetched, or an unknown architecture."""


class CorruptWeights(ModelError):
    """The weights are damaged or incomplete."""


class MissingTokenizer(ModelError):
    """The model has no `tokenizer.json`, which devices need."""


class MissingPackage(ModelError):
    """A package that only some engines need is not installed."""


class BadTemplate(ModelError):
    """A chat template that was given cannot be used."""
