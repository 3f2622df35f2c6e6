"""One answer as it grows: its tokens, which of them are verified, and the events that show them.

Text is decoded from all tokens at once, because a character may need several, and it is sanitised. A character that is
not complete yet is held back. So the text that a screen adds up from the events is the text that is stored.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from app.events import Drafted, Reasoned, Retracted, Stretch, Verified
from app.sanitise import Sanitiser, sanitise
from models.guide.names import Marks, NoMarks
from models.text.chat_text import ChatText
from models.text.seam import following
from remote.openai.stream import KEPT_REASONING

Shown = Drafted | Verified | Retracted
INCOMPLETE = "\ufffd"
"""A decoder's output for bytes that are not, or not yet, a character."""
SMALL_MODEL = "small model"
"""A drafter whose name is not known."""


class Answer:
    """Verified tokens, then tokens that the drafter wrote alone. Guesses are shown after them, and are no part of it.

    An OpenAI-compatible server knows none of our tokens: its answer is text (`is_text`) without any tokens.
    """

    def __init__(
        self,
        text: ChatText,
        tokens: Sequence[int] = (),
        verified: int = 0,
        sent: str = "",
        marks: Marks | None = None,
    ) -> None:
        """`sent`: text that such a server sent earlier; `tokens` only spell it. `marks`: of names in the tokens."""
        self._text = text
        self._marks = marks or NoMarks()
        self.sent = sent
        self.tokens = list(tokens)
        self._spelt = len(self.tokens)
        """How many tokens it was made with."""
        self.verified = verified
        """How many of the tokens, from the first, the target has verified."""
        self.model = ""
        """The model that wrote, or checked, last; empty while only the drafter has."""
        self.drafter = ""
        """The drafter that wrote alone, by its name for people; empty if none did."""
        self.local = ""
        """The whole model on this device that wrote unverified tokens, by the person's name for it, or empty."""
        self._local_from = 0, 0
        """How many tokens and characters precede what it wrote."""
        self._joined, self._since = 0, ""
        """How many tokens precede what it has written since it took over last, and that text."""
        self.withdrawn: list[tuple[int, str]] = []
        """Each time that the target did not keep what such a model had written: where that began, and the whole text
        until then."""
        self._stretches: list[Stretch] = []
        """Who wrote which part of a text."""
        self._told = 0
        """How many of them were returned."""
        self.reasoning = ""
        """The thoughts of a server's model before its answer, as far as they are kept."""
        self.reasoning_seconds = 0.0
        self._thoughts = Sanitiser()
        self.is_text = False
        self._pieces: list[str] = []
        self.length = 0
        """Characters that arrived as text."""
        self._sanitiser = Sanitiser()
        self._clean_pieces: list[str] = []
        """Text that `add_text` has shown since `_solid` was made."""
        self._solid = ""
        self._ghost = ""
        self._ghost_tokens = 0

    # ---- what is there -----------------------------------------------------------------------------------------------

    @property
    def provenance(self) -> list[bool]:
        """Per token: True if the target verified it."""
        return [at < self.verified for at in range(len(self.tokens))]

    @property
    def suffix(self) -> list[int]:
        return self.tokens[self.verified :]

    @property
    def stretches(self) -> list[Stretch]:
        """Who wrote which part, as far as models on this device stood in for a server's, and nobody has checked it."""
        if self.is_text or not self.tokens:
            return self._stretches
        if not self.suffix:
            return []
        if self.local:
            return self._unchecked_after(self._local_from[0], self.local)
        if not (known := self._stretches):
            return []
        checked = len(self._clean(self.tokens[: self.verified], False))
        ends = [*(one.at for one in known[1:]), sys.maxsize]
        rest = [replace(one, at=max(one.at, checked)) for one, end in zip(known, ends) if end > checked]
        return [Stretch(0, self.model), *rest] if checked and rest else rest

    @property
    def drafted_by(self) -> str:
        """Who wrote the tokens that were not checked; empty if all are checked."""
        return self.drafter if self.suffix else ""

    @property
    def server_text(self) -> str:
        """The text of a server, as it came."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    @property
    def text(self) -> str:
        """The whole sanitised text, with what is still held back of it."""
        return sanitise(self.decoded(len(self.tokens)))

    def decoded(self, count: int) -> str:
        """The text of the first `count` tokens, as the models read it."""
        return self.server_text + self._marks.shown(self._text.decode(self.tokens[:count]))

    # ---- what changes it ---------------------------------------------------------------------------------------------

    def name(self, marks: Marks) -> None:
        """Set which names the marks in later tokens stand for."""
        self._marks = marks

    def recall(self, stretches: Sequence[Stretch]) -> None:
        """Take over who wrote which part of the text that it was made with."""
        here = next((stretch for stretch in stretches if stretch.here), None)
        if not self.tokens or self.sent:
            self._stretches = list(stretches)
        elif here is not None:
            self.local, self._local_from = here.writer, (self.verified, len(self.decoded(self.verified)))

    def begin(self) -> list[Shown]:
        """Show the tokens that it was made with. Call it first."""
        return self._show(verified=self.verified) if self.tokens else []

    def guess(self, tokens: Sequence[int]) -> list[Shown]:
        """Show tokens that may come next."""
        return self._show(tokens)

    def draft(self, token: int) -> list[Shown]:
        """Append a token that nobody will verify for now."""
        self.tokens.append(token)
        return self._show()

    def verify(self, tokens: Sequence[int], from_draft: int, *, ends: bool = False) -> list[Shown]:
        """Append tokens of the target after the verified ones. Drafted tokens stay if these begin them.

        Text of another model also stays if it begins with theirs: its tokens are spelt anew. `ends`: they end the
        answer, so nothing stays after them.
        """
        if self.suffix[: None if ends else len(tokens)] != list(tokens):
            rest = self._respelt(tokens) if self.local and not ends else []
            if self.local and self.suffix and not rest:
                self.withdrawn.append((self._local_from[1], self.decoded(len(self.tokens))))
            self.tokens[self.verified :] = [*tokens, *rest]
        self.verified += len(tokens)
        return self._show(verified=len(tokens), from_draft=from_draft)

    def _respelt(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that spell what the unverified text says after `tokens`; none if it begins in another way."""
        said, begun = self._text.decode(self.tokens), [*self.tokens[: self.verified], *tokens]
        known = self._text.decode(begun)
        return (following(self._text, begun, said[len(known) :]) or []) if said.startswith(known) else []

    def join(self, writer: str) -> str:
        """Let a model on this device, with its own tokenizer, draft the rest. Returns the text to continue.

        Tokens that do not make a whole character yet are taken back.
        """
        while self.tokens and self.decoded(len(self.tokens)).endswith(INCOMPLETE):
            self.tokens.pop()
        self.verified = min(self.verified, len(self.tokens))
        begun = self.decoded(len(self.tokens))
        if not self.suffix or not self.local:
            self._local_from = len(self.tokens), len(begun)
        self.local, self._joined, self._since = writer, len(self.tokens), ""
        return begun

    def draft_text(self, piece: str, most: int = sys.maxsize) -> list[Shown | Stretch]:
        """Append text of such a model, in tokens of the target, up to `most` tokens of the answer.

        If the target's tokenizer cannot spell it there, the answer becomes text, which nobody verifies.
        """
        begun, self._since = self.decoded(self._joined), self._since + piece
        self.length += len(piece)
        spelt = following(self._text, self.tokens[: self._joined], self._marks.said(self._since))
        self.tokens[self._joined :] = spelt or []
        if spelt is not None and self.decoded(len(self.tokens)) == begun + self._since:
            del self.tokens[most:]
            return [*self._show()]
        self._stretches = self._unchecked_after(self._local_from[0], self.local)
        shown = self.begin_text(begun + self._since)
        return [*self.written_by(self.local, here=True), *shown]

    def written_by(self, writer: str, *, here: bool) -> list[Stretch]:
        """Record who writes the text that follows. Returns the new stretches; none without models on this device."""
        if not here and not self._stretches:
            return []
        if here and not self._stretches and (self.model or self.drafter or self.sent):
            self._stretches.append(Stretch(0, self.model or self.drafter))
        last = self._stretches[-1] if self._stretches else None
        if last is None or (last.writer, last.here) != (writer, here):
            self._stretches.append(Stretch(len(self.text), writer, here))
        new, self._told = self._stretches[self._told :], len(self._stretches)
        return new

    def begin_text(self, text: str) -> list[Shown]:
        """Become text that begins with `text`, in place of the tokens. Nobody verifies it."""
        if not self.local:
            self._stretches = self.stretches
        if self.suffix and not self._stretches and len(text) > len(self.decoded(self.verified)):
            self._stretches = self.stretches
            if not self._stretches and (self.drafter or not self.sent):
                self._stretches = self._unchecked_after(self.verified, self.drafter or SMALL_MODEL)
        self.is_text, self.tokens, self.verified = True, [], 0
        self._pieces, self.length = [text], len(text)
        self._sanitiser.feed(text)
        return self._show()

    def add_text(self, piece: str) -> list[Shown]:
        """Append text of a server. It takes no longer for a long answer than for a short one."""
        self._pieces.append(piece)
        self.length += len(piece)
        clean = self._sanitiser.feed(piece)
        self._clean_pieces.append(clean)
        return [Verified(clean, 0, 0)] if clean else []

    def add_reasoning(self, piece: str, seconds: float) -> Reasoned:
        """Append what a server's model thinks before its answer, `seconds` after it began to."""
        self.reasoning_seconds = seconds
        shown = self._thoughts.feed(piece)
        self.reasoning += shown[: KEPT_REASONING - len(self.reasoning)]
        return Reasoned(shown, seconds)

    def finish(self) -> list[Shown]:
        """Take guesses back and show what was held back. Call it last.

        What a server sent is text again, if nobody has continued it.
        """
        idle = self.sent and not (self.is_text or self.verified) and len(self.tokens) == self._spelt
        return [*(self.begin_text(self.sent) if idle else ()), *self._show(complete=True)]

    def _show(
        self, guesses: Sequence[int] = (), *, verified: int = 0, from_draft: int = 0, complete: bool = False
    ) -> list[Shown]:
        """Events that lead from what is shown to what is there now."""
        events: list[Shown] = []
        self._solid += "".join(self._clean_pieces)
        self._clean_pieces.clear()
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

    def _unchecked_after(self, count: int, writer: str) -> list[Stretch]:
        """The stretches of an answer that `writer` continued after `count` tokens, without what is verified by now."""
        at = len(self._clean(self.tokens[: max(count, self.verified)], False))
        return [*([Stretch(0, self.model or self.drafter)] if at else []), Stretch(at, writer, here=True)]

    def _clean(self, tokens: Sequence[int], complete: bool) -> str:
        """The shown text of the server's text and `tokens`."""
        decoded = self.server_text + self._marks.shown(self._text.decode(tokens))
        return sanitise(decoded if complete else decoded.rstrip(INCOMPLETE))
