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
        self._read = 0

    def with_verifier(self, verifier: Verifier) -> RemoteSession:
        """The session with this verifier; a new one if there is none, or if it was with another verifier."""
        if self._session is None or self._client is not verifier.client:
            session = verifier.client.session(ReplyLimits.of(verifier.card))
            self._client, self._session, self._read = verifier.client, session, 0
        return self._session

    def unread(self, tokens: Sequence[int]) -> int:
        """How many of the conversation's tokens the verifier has not read."""
        return max(0, len(tokens) - self._read)

    def record(self, length: int) -> None:
        """Note that the verifier has read so many tokens of the conversation."""
        self._read = length

    def drop(self) -> None:
        """Begin a new session with the next request."""
        self._client = None
