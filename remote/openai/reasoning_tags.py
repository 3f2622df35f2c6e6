"""Separates reasoning in tags from an answer's text: `<think>…</think>` at its beginning.

Most servers send reasoning in a field of its own. Some leave the tags of the model's template in the text. Only a block
at the very beginning is reasoning. Later ones belong to the answer, for example to one about these tags.
"""

from __future__ import annotations

HELD = 64
"""Characters, white space included, within which a tag must begin."""
TAGS = {"<think>": "</think>", "<thinking>": "</thinking>", "<thought>": "</thought>", "[THINK]": "[/THINK]"}
"""Most models have the first, a few the second. The third is Gemini's, the last one Mistral's."""


class ThinkTags:
    """Splits a stream of text into reasoning and answer, wherever its pieces are cut."""

    def __init__(self) -> None:
        self._held = ""
        """Text that may be the beginning of a tag."""
        self._closing: str | None = ""
        """The tag that ends the reasoning. Empty: no reasoning has begun. None: only the answer follows."""
        self._gap = False
        """The reasoning has just ended. White space before the answer is left out."""

    def feed(self, piece: str) -> tuple[str, str]:
        """The reasoning and the text that are certain by now."""
        if self._closing is None:
            return "", self._after(piece)
        held, self._held = self._held + piece, ""
        if not self._closing:
            return self._begin(held)
        return self._inside(held)

    def end(self) -> tuple[str, str]:
        """The text that was held back, at the end of the stream: it is no tag."""
        held, self._held = self._held, ""
        return (held, "") if self._closing else ("", held)

    def _begin(self, held: str) -> tuple[str, str]:
        start = held.lstrip()
        for opening, closing in TAGS.items():
            if start.startswith(opening):
                self._closing = closing
                return self._inside(start[len(opening) :])
        if len(held) <= HELD and any(opening.startswith(start) for opening in TAGS):
            self._held = held
            return "", ""
        self._closing = None
        return "", held

    def _inside(self, held: str) -> tuple[str, str]:
        assert self._closing
        reasoning, tag, text = held.partition(self._closing)
        if tag:
            self._closing, self._gap = None, True
            return reasoning, self._after(text)
        keep = next((size for size in range(len(self._closing) - 1, 0, -1) if held.endswith(self._closing[:size])), 0)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep], ""

    def _after(self, text: str) -> str:
        if self._gap:
            text = text.lstrip()
            self._gap = not text
        return text
