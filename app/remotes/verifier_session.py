"""What one conversation shares with its verifier, from answer to answer."""

from __future__ import annotations

from collections.abc import Sequence

from app.remotes.peer import Verifier
from remote import RemoteSession, VerifierClient
from remote.reply_limits import ReplyLimits


class VerifierSession:
    """The session of one conversation with its verifier, and how much of the conversation the verifier has read."""

    def __init__(self) -> None:
        self._client: VerifierClient | None = None
        self._session: RemoteSession | None = None
        self._read: list[int] = []

    def with_verifier(self, verifier: Verifier) -> RemoteSession:
        """The session with this verifier; a new one if there is none, or if it was with another verifier."""
        if self._session is None or self._client is not verifier.client:
            session = verifier.client.session(ReplyLimits.of(verifier.card))
            self._client, self._session, self._read = verifier.client, session, []
        return self._session

    def unread(self, tokens: Sequence[int]) -> int:
        """How many of the conversation's tokens the verifier has not read: all from the first that has changed."""
        same = zip(self._read, tokens)
        known = next((at for at, (read, token) in enumerate(same) if read != token), min(len(self._read), len(tokens)))
        return len(tokens) - known

    def record(self, tokens: Sequence[int]) -> None:
        """Note that the verifier has read these tokens of the conversation, and keeps no others."""
        self._read = list(tokens)

    def drop(self) -> None:
        """Begin a new session with the next request."""
        self._client = None
