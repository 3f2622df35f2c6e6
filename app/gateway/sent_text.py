"""The text that a client has been sent, which cannot be withdrawn, and which model vouches for each part of it.

A screen can withdraw guesses; a client of OpenAI's API concatenates what it gets. So text is sent only when it is
final: the model's own text always, and the small model's if nobody else writes. The model's later check of the latter
is recorded here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from os.path import commonprefix
from typing import Literal

import msgspec

from models.text.detokenizer import overlap
from remote.openai.schema import ToolCallDelta

By = Literal["verified", "drafted", "hosted", "local"]
"""Which model vouches for a text. verified: the model wrote or confirmed it. drafted: a model on this device wrote it,
and it waits for a check. hosted: a server that checks no drafts wrote it. local: a model on this device wrote it while
that server was away, and nobody checks it."""


class Span(msgspec.Struct, frozen=True, omit_defaults=True):
    """Characters of the text, from `start` to before `end`, counted in Unicode code points."""

    start: int
    end: int
    source: By
    model: str = ""
    """The model that wrote them, if `source` is `local`."""


class Piece(msgspec.Struct, frozen=True):
    """Text to be sent now, or tool calls instead."""

    text: str
    span: Span
    calls: tuple[ToolCallDelta, ...] = ()


class SentText:
    """One answer as the client knows it. It ends before the first of `stops`."""

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = stops
        self._longest_stop = max(map(len, stops), default=0)
        self.text = ""
        self.checked = 0
        """Number of characters, from the first, that the model has written or confirmed."""
        self.drafted: list[tuple[int, int]] = []
        """Ranges that were only drafted when they were sent."""
        self.hosted = False
        """Whether a server that checks no drafts wrote it."""
        self._here: list[tuple[int, str]] = []
        """From which characters on a model on this device stands in for the server, by name, or empty for the
        server."""
        self.stop: str | None = None
        """The stop string that has occurred, after which nothing follows."""
        self.read = 0
        """Characters of the answer up to the end of the first stop string, or 0 if there was none."""
        self.end_drafted = False
        """Whether only the drafter says that the answer ends here: it wrote the end, or part of the stop string."""
        self.parted = False
        """Whether the model says something other than what was sent."""

    @property
    def stopped(self) -> bool:
        return self.stop is not None

    @property
    def spans(self) -> list[Span]:
        """Which model vouches for each part now, in order, without gaps."""
        spans: list[Span] = []
        at = 0
        for start, end in self.drafted:
            start = max(start, self.checked)
            if start >= end:
                continue
            spans += [*self._own(at, start), Span(start, end, "drafted")]
            at = end
        return [*spans, *self._own(at, len(self.text))]

    @property
    def source(self) -> By:
        """Which model vouches for the whole: `drafted` if any of it, or its end, is only drafted, or else `local` if a
        model on this device wrote any of it.
        """
        sources = {span.source for span in self.spans}
        if self.end_drafted or "drafted" in sources:
            return "drafted"
        return "local" if "local" in sources else "hosted" if self.hosted else "verified"

    def written_by(self, at: int, writer: str) -> None:
        """Note that this model on this device stands in for the server from a character on. Empty: the server again."""
        self._here.append((at, writer))

    def _own(self, start: int, end: int) -> list[Span]:
        """The parts of a range that is not drafted."""
        own: By = "hosted" if self.hosted else "verified"
        spans = []
        for (begin, writer), (after, _) in pairwise([(0, ""), *self._here, (end, "")]):
            if max(begin, start) < min(after, end):
                spans.append(Span(max(begin, start), min(after, end), "local" if writer else own, writer))
        return spans

    def take(
        self, solid: str, alone: str = "", *, hosted: bool = False, complete: bool = False, end_drafted: bool = False
    ) -> list[Piece]:
        """What to send if the model's text is `solid` and the drafter continues with `alone`.

        `hosted`: a server that checks no drafts wrote `solid`. `complete`: nothing follows, so nothing is held back.
        `end_drafted`: the drafter wrote the end. Nothing more is sent once the model has `parted` from what was sent.
        """
        self.hosted = self.hosted or (hosted and bool(solid))
        whole = self._before_stop(solid + alone, complete=complete)
        self.end_drafted = self.read > len(solid) if self.stopped else end_drafted
        self._check(solid)
        agrees = whole.startswith(self.text) or (self.text.startswith(whole) and not complete)
        if not agrees:
            self.parted = True
        if self.parted or len(whole) <= len(self.text):
            return []
        pieces: list[Piece] = []
        middle = min(max(len(self.text), len(solid)), len(whole))
        drafted = [Span(middle, len(whole), "drafted")] if middle < len(whole) else []
        for span in (*self._own(len(self.text), middle), *drafted):
            pieces.append(Piece(whole[span.start : span.end], span))
            if span.source == "drafted":
                start = span.start
                if self.drafted and self.drafted[-1][1] == start:
                    start = self.drafted.pop()[0]
                self.drafted.append((start, span.end))
        self.text = whole
        self._check(solid)
        return pieces

    def cut(self, text: str) -> str:
        """Another text of this answer, ended where this one would end."""
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        return text[: min(found)] if found else text

    def _check(self, solid: str) -> None:
        """Record how much of the text the model's own text confirms."""
        solid = solid[: next((at for at, writer in self._here if writer), None)]
        if solid.startswith(self.text) or self.text.startswith(solid):
            kept = min(len(solid), len(self.text))
        else:
            kept = len(commonprefix((solid, self.text)))
        self.checked = max(self.checked, kept)

    def _before_stop(self, whole: str, *, complete: bool) -> str:
        """The text up to a stop string, without what may be the beginning of one."""
        begin = max(0, len(self.text) - self._longest_stop)
        if found := [(at, at + len(stop)) for stop in self._stops if (at := whole.find(stop, begin)) >= 0]:
            first, self.read = min(found)
            self.stop = whole[first : self.read]
            return whole[:first]
        if complete:
            return whole
        held = max((overlap(whole, stop) for stop in self._stops), default=0)
        return whole[: len(whole) - held]
