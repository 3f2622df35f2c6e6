"""Peers: the server that answered on a connection, a verifier or an OpenAI-compatible one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.model_names import short_model
from remote import CompletionsClient, VerifierClient
from remote.errors import quoted
from remote.openai.model_list import find_model, unlisted_model
from remote.openai.schema import Model, UnlistedModel
from remote.protocol import Card

LISTED_MODELS = 5
"""Most models of a server that a sentence names."""


@dataclass(frozen=True)
class Verifier:
    """A verifier that answered and fits this device."""

    client: VerifierClient
    card: Card
    name: str | None = None
    """The person's name for it."""

    checks = True
    """It checks drafts."""

    @property
    def model_name(self) -> str:
        """The server's name for its model."""
        return self.card.target

    @property
    def most_read(self) -> int | None:
        """Most tokens of a conversation that its model reads."""
        return self.card.limits.max_tokens

    @property
    def why(self) -> str:
        """Who verifies, for the status bar."""
        return f"checked by {short_model(self.card.target)}" + (f" at {self.name}" if self.name else "")


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible server that answered."""

    client: CompletionsClient
    model: Model
    name: str | None = None
    """The person's name for it."""
    listed: str = ""
    """The models that the server lists, for a sentence."""

    checks = False
    """It checks no drafts."""

    @property
    def model_name(self) -> str:
        """The server's name for the model that is asked."""
        return self.model.id

    @property
    def most_read(self) -> int | None:
        """Most tokens of a conversation that its model reads; None: it does not say."""
        return self.model.max_model_len

    @property
    def why(self) -> str:
        """Who answers, for the status bar."""
        return f"answered by {short_model(self.model.id)} at {self.name or self.client.host}"


Peer = Verifier | Endpoint


def choose_model(models: Sequence[Model], name: str | None) -> Model:
    """The model of this name; None: the first. The server may not list it: then only its answer tells."""
    return find_model(models, name) or unlisted_model(models, name or "")


def list_of(models: Sequence[Model]) -> str:
    """The names of the models that a server lists, for a sentence. Empty: none."""
    names = [model.id for model in models if not isinstance(model, UnlistedModel)]
    others = " and others" if len(names) > LISTED_MODELS else ""
    return quoted(", ".join(names[:LISTED_MODELS])) + others
