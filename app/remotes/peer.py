"""Peers: the server that answered on a connection, a verifier or an OpenAI-compatible one, and sessions with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix

from app.model_names import short_model
from remote import CompletionsClient, RemoteSession, VerifierClient
from remote.errors import quoted
from remote.openai.model_list import find_model, unlisted_model
from remote.openai.schema import Model, UnlistedModel
from remote.protocol import Card
from remote.reply_limits import ReplyLimits

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

    @property
    def model_name(self) -> str:
        """The server's name for the model that is asked."""
        return self.model.id

    @property
    def most_read(self) -> int | None:
        """Most tokens of a conversation that its model reads, or None if it does not say."""
        return self.model.max_model_len

    @property
    def why(self) -> str:
        """Who answers, for the status bar."""
        return f"answered by {short_model(self.model.id)} at {self.name or self.client.host}"


Peer = Verifier | Endpoint


class VerifierSession:
    """The session of one conversation with its verifier, and how much of the conversation the verifier has read."""

    def __init__(self) -> None:
        self._client: VerifierClient | None = None
        self._session: RemoteSession | None = None
        self._read: list[int] = []

    def with_verifier(self, verifier: Verifier) -> RemoteSession:
        """The session, or a new one if it was with another verifier."""
        if self._session is None or self._client is not verifier.client:
            session = verifier.client.session(ReplyLimits.of(verifier.card))
            self._client, self._session, self._read = verifier.client, session, []
        return self._session

    def stop(self) -> None:
        """Want no more of what the verifier may be writing on although its line has broken."""
        if self._session is not None:
            self._session.stop()

    def unread(self, tokens: Sequence[int]) -> int:
        """How many of the conversation's tokens the verifier has not read: all from the first that has changed."""
        return len(tokens) - len(commonprefix((self._read, list(tokens))))

    def record(self, tokens: Sequence[int]) -> None:
        """Record that the verifier has read these tokens of the conversation, and holds no others."""
        self._read = list(tokens)

    def drop(self) -> None:
        """Start a new session with the next request."""
        self._client = None


def choose_model(models: Sequence[Model], name: str | None) -> Model:
    """The model with this name, or the first one. Only an answer shows whether an unlisted model exists."""
    return find_model(models, name) or unlisted_model(models, name or "")


def list_of(models: Sequence[Model]) -> str:
    """The names of the models that a server lists, for a sentence; may be empty."""
    names = [model.id for model in models if not isinstance(model, UnlistedModel)]
    others = " and others" if len(names) > LISTED_MODELS else ""
    return quoted(", ".join(names[:LISTED_MODELS])) + others
