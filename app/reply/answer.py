"""One answer as it grows: its tokens, which of them are verified, and the events that show them.

Text is decoded from all tokens at once, because a character may need several, and sanitised; a character that is not
complete yet is held back. So what a screen adds up from the events is the text that is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.events import Drafted, Retracted, Verified
from app.sanitise import Sanitiser, sanitise
from drafter.text import ChatText

Shown = Drafted | Verified | Retracted
INCOMPLETE = "\ufffd"
"""What a decoder puts for bytes that are not, or not yet, a character."""


class Answer:
    """Verified tokens, then tokens that the drafter wrote alone, then guesses that are shown but not part of it."""

    def __init__(self, text: ChatText, tokens: Sequence[int] = (), verified: int = 0, told: str = "") -> None:
        """`told`: what a server had told of it before, which the tokens only spell."""
        self._text = text
        self.told = told
        self.tokens = list(tokens)
        self.verified = verified
        """How many of the tokens, from the first, the target has verified."""
        self.telling = False
        """It is text of a server that knows no tokens of ours; then there are none."""
        self._pieces: list[str] = []
        self.length = 0
        """Characters of that text."""
        self._sanitiser = Sanitiser()
        self._told_clean: list[str] = []
        """What `tell` has shown since `_solid` was made."""
        self._solid = ""
        self._ghost = ""
        self._ghost_tokens = 0

    @property
    def provenance(self) -> list[bool]:
        """Per token: True where the target verified it."""
        return [at < self.verified for at in range(len(self.tokens))]

    @property
    def suffix(self) -> list[int]:
        """The tokens that the target has not verified."""
        return self.tokens[self.verified :]

    @property
    def beyond(self) -> str:
        """The text that a server has told."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    @property
    def text(self) -> str:
        """The whole text, with what is still held back of it."""
        return sanitise(self.said(len(self.tokens)))

    def said(self, count: int) -> str:
        """What the first so many tokens say, as the models read it."""
        return self.beyond + self._text.decode(self.tokens[:count])

    def begin(self) -> list[Shown]:
        """Show the tokens that it was made with; call it first."""
        return self._show(verified=self.verified) if self.tokens else []

    def guess(self, tokens: Sequence[int]) -> list[Shown]:
        """Show tokens that may come next."""
        return self._show(tokens)

    def draft(self, token: int) -> list[Shown]:
        """Append a token that nobody will verify for now."""
        self.tokens.append(token)
        return self._show()

    def verify(self, tokens: Sequence[int], from_draft: int) -> list[Shown]:
        """Append tokens of the target after the verified ones; drafted tokens that continue them stay."""
        if self.suffix[: len(tokens)] != list(tokens):
            self.tokens[self.verified :] = tokens
        self.verified += len(tokens)
        return self._show(verified=len(tokens), from_draft=from_draft)

    def tell_from(self, text: str) -> list[Shown]:
        """From here on it is text, which begins with this and has no tokens: nobody verifies it."""
        self.telling, self.tokens, self.verified = True, [], 0
        self._pieces, self.length = [text], len(text)
        self._sanitiser.feed(text)
        return self._show()

    def tell(self, piece: str) -> list[Shown]:
        """Append text of a server. Takes no longer for a long answer than for a short one."""
        self._pieces.append(piece)
        self.length += len(piece)
        clean = self._sanitiser.feed(piece)
        self._told_clean.append(clean)
        return [Verified(clean, 0, 0)] if clean else []

    def finish(self) -> list[Shown]:
        """Nothing follows: take guesses back, and show what was held back."""
        return self._show(complete=True)

    def _show(
        self, guesses: Sequence[int] = (), *, verified: int = 0, from_draft: int = 0, complete: bool = False
    ) -> list[Shown]:
        """Events from what is shown to what is now."""
        events: list[Shown] = []
        self._solid += "".join(self._told_clean)
        self._told_clean.clear()
        everything = [*self.tokens, *guesses]
        solid = self._clean(self.tokens[: self.verified], complete and self.verified == len(everything))
        whole = self._clean(everything, complete)
        ghost, ghost_tokens = whole[len(solid) :], len(everything) - self.verified
        added = solid[len(self._solid) :]
        kept = max(0, self._ghost_tokens - verified)
        left = self._ghost[len(added) :] if added.startswith(self._ghost) or self._ghost.startswith(added) else None
        if left is None or not ghost.startswith(left):
            events.append(Retracted(self._ghost_tokens))
            left, kept = "", 0
        if verified or added:
            events.append(Verified(added, verified, from_draft))
        if len(ghost) > len(left) or ghost_tokens > kept:
            events.append(Drafted(ghost[len(left) :], max(0, ghost_tokens - kept)))
        self._solid, self._ghost, self._ghost_tokens = solid, ghost, ghost_tokens
        return events

    def _clean(self, tokens: Sequence[int], complete: bool) -> str:
        decoded = self.beyond + self._text.decode(tokens)
        return sanitise(decoded if complete else decoded.rstrip(INCOMPLETE))
