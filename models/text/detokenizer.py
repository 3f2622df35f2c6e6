"""Turns tokens into text as they come: whole characters only, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from models.text.chat_text import ChatText

INCOMPLETE = "\ufffd"
"""The decoder's replacement for bytes that are not, or not yet, a character."""
LONGEST_WAIT = 16
"""After this many tokens, bytes that make no character are shown as they are."""


def overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` may be the beginning of `stop`. The whole of `stop` does not count."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)


class Detokenizer:
    """The text of one answer, token by token.

    `before`: tokens that the answer already has. `known`: characters after them that it has too, whose tokens are still
    to come. `stops`: the answer ends at the first of these strings. Only the most recent tokens are decoded again, so
    the cost grows linearly with the answer's length.
    """

    def __init__(self, text: ChatText, stops: Sequence[str] = (), before: Sequence[int] = (), known: int = 0) -> None:
        self.stopped = False
        """Whether a stop string has occurred, after which nothing follows."""
        self.stops = [stop for stop in stops if stop]
        self._text = text
        self._tokens = list(before)
        self._start, self._whole = 0, len(self._tokens)
        self._given = len(text.decode(before))
        self._held, self._known = "", known

    def add(self, tokens: Sequence[int]) -> str:
        """Add tokens, and return the text that can be shown now; it may be empty."""
        self._tokens += [token for token in tokens if not self._text.is_special(token)]  # These have no text.
        now = self._text.decode(self._tokens[self._start :])
        stable = now.rstrip(INCOMPLETE) if len(self._tokens) - self._whole < LONGEST_WAIT + len(tokens) else now
        piece, self._given = stable[self._given :], max(self._given, len(stable))
        if piece and stable == now:
            # This piece's tokens stay in the window, because some decoders drop a space before the first word.
            self._start, self._whole = self._whole, len(self._tokens)
            self._given = len(self._text.decode(self._tokens[self._start :]))
        fresh, self._known = piece[self._known :], max(0, self._known - len(piece))
        return self._past_stops(fresh)

    def finish(self) -> str:
        """The text that was held back, without an incomplete last character."""
        held, self._held = self._held, ""
        return held

    def _past_stops(self, piece: str) -> str:
        text = self._held + piece
        if found := [at for stop in self.stops if (at := text.find(stop)) >= 0]:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        begun = max((overlap(text, stop) for stop in self.stops), default=0)
        self._held = text[len(text) - begun :]
        return text[: len(text) - begun]
