"""Text out of tokens as they come: whole characters only, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from drafter.text import ChatText

INCOMPLETE = "\ufffd"
"""What a decoder puts for bytes that are not, or not yet, a character."""
LONGEST_WAIT = 16
"""Tokens after which bytes that make no character are taken for what they are."""


class Detokenizer:
    """`before`: tokens of the same answer that were there already. `stops`: strings at the first of which it ends.

    Only what was added last is decoded again, so an answer costs its length and not its square.
    """

    def __init__(self, text: ChatText, stops: Sequence[str] = (), before: Sequence[int] = ()) -> None:
        self.stopped = False
        """A stop string came; nothing follows."""
        self._text = text
        self._stops = [stop for stop in stops if stop]
        self._tokens = list(before)
        self._start, self._whole = 0, len(self._tokens)
        self._given = len(text.decode(before))
        self._held = ""

    def add(self, tokens: Sequence[int]) -> str:
        """What can be shown now, which may be nothing."""
        self._tokens += tokens
        now = self._text.decode(self._tokens[self._start :])
        stable = now.rstrip(INCOMPLETE) if len(self._tokens) - self._whole < LONGEST_WAIT + len(tokens) else now
        piece, self._given = stable[self._given :], max(self._given, len(stable))
        if piece and stable == now:
            # The tokens of this piece stay in the window: some decoders drop a space in front of the first word.
            self._start, self._whole = self._whole, len(self._tokens)
            self._given = len(self._text.decode(self._tokens[self._start :]))
        return self._past_stops(piece)

    def finish(self) -> str:
        """What was held back, but for a character that never became whole."""
        held, self._held = self._held, ""
        return held

    def _past_stops(self, piece: str) -> str:
        text = self._held + piece
        if found := [at for stop in self._stops if (at := text.find(stop)) >= 0]:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        begun = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - begun :]
        return text[: len(text) - begun]


def _overlap(text: str, stop: str) -> int:
    """How many of the text's last characters are the first of `stop`."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)
