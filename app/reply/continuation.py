"""What of a server's words is new, where an answer that broke off is gone on with.

A server that can go on is sent the text that there is. Any other is asked anew: then its words count from where it has
said again all that was there.
"""

from __future__ import annotations


class Diverged(Exception):
    """Asked again, the server says something else than it has said; the two cannot be joined."""


class Continuation:
    """`known`: the text that there is. `continues`: the server goes on with a text that it is sent."""

    def __init__(self, known: str, *, continues: bool) -> None:
        # Servers may cut white space off a message's end, and words begin with it: so that is to come again.
        self.sent = known.rstrip() if continues else ""
        """The text that the server is to go on with; empty: it begins anew."""
        self._again = known[len(self.sent) :]
        self._heard = ""

    def take(self, piece: str) -> str:
        """What of a piece is new. Raises `Diverged`."""
        if not self._again:
            return piece
        self._heard += piece
        if len(self._heard) < len(self._again) and self._again.startswith(self._heard):
            return ""
        if not self._heard.startswith(self._again) and not self.sent:
            raise Diverged
        # Of a text that was gone on with, only white space was to come again.
        new, self._again = self._heard[_common(self._heard, self._again) :], ""
        return new

    def finish(self) -> None:
        """The server has ended its answer. Raises `Diverged`."""
        if self._again and not self.sent:
            raise Diverged


def _common(one: str, other: str) -> int:
    """How many first characters are the same."""
    return next((at for at, (left, right) in enumerate(zip(one, other)) if left != right), min(len(one), len(other)))
