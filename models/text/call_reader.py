"""Finds tool calls in the text of an answer, in the format of the model's chat template."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

from models.text.detokenizer import overlap
from models.text.tool_format import MAX_CALLS, SHORT_ID, ToolFormat

MAX_HEAD = 1024
"""Characters of a call within which its name must be."""
LETTERS = string.ascii_letters + string.digits


class Called(NamedTuple):
    """A call that a model has written."""

    id: str
    name: str
    arguments: str
    """JSON."""


class CallReader:
    """Separates the calls of one answer from its text, piece by piece.

    A call counts once it is complete. `begun`: the prompt ends with the format's opening. `several`: whether more than
    the first call counts.
    """

    def __init__(self, form: ToolFormat, names: Sequence[str], *, begun: bool = False, several: bool = True) -> None:
        self.form = form
        self._names, self._several = names, several
        self._text = ""
        """Text that is not shown yet."""
        self._inside = begun
        """Whether it belongs to a call."""
        self._before = ""
        """Text before that call, shown if it turns out not to be a call."""
        self._fresh = True
        """Whether nothing has been shown."""
        self.calls: list[Called] = []

    def feed(self, piece: str) -> tuple[str, list[Called]]:
        """Add text; returns what can be shown now, and the calls that are complete."""
        self._text += piece
        shown, called = "", list[Called]()
        while True:
            if not self._inside:
                shown += self._before_call()
                if not self._inside:
                    return shown, called
            if not self.form.closing or (at := self._text.find(self.form.closing)) < 0:
                return shown, called
            inner, self._text = self._text[:at], self._text[at + len(self.form.closing) :]
            self._inside = False
            if (found := self._read(inner)) is None:
                shown += self._shown(f"{self._before}{inner}{self.form.closing}")
            else:
                called += found

    def end(self, *, cut: bool) -> tuple[str, list[Called]]:
        """The text left at the end of the answer. `cut`: at a limit, so a call may be incomplete and is left out."""
        text, inside = self._text, self._inside
        self._text, self._inside = "", False
        if not inside:
            return ("" if self.calls and not text.strip() else text), []
        if (found := self._read(text)) is None:
            return ("" if cut else f"{self._before}{text}"), []
        return "", found

    def _before_call(self) -> str:
        """The text that is certainly not part of a call; sets `_inside` where one begins."""
        text, held = self._text, 0
        if self._fresh and (begun := self._begins_bare(text)) is not None:
            self._inside = begun
            return ""
        if self.form.form != "bare":
            marker = self.form.opening.rstrip()
            if (at := text.find(marker)) >= 0:
                shown = text[:at].rstrip()
                self._before, self._text, self._inside = (
                    text[len(shown) : at + len(marker)],
                    text[at + len(marker) :],
                    True,
                )
                return self._shown(shown)
            held = overlap(text, marker)
        held = max(held, len(text) - len(text[: len(text) - held].rstrip()))
        self._text = text[len(text) - held :]
        return self._shown(text[: len(text) - held])

    def _begins_bare(self, text: str) -> bool | None:
        """Whether an answer begins with the JSON of a call, or None if it does not; False while it may.

        Some models leave out the marker that their template writes, Qwen's coders for example.
        """
        begun = "".join(text[: text.find("{") + MAX_HEAD].split())
        heads = [f'{{"name":"{"".join(name.split())}"' for name in self._names]
        if any(begun.startswith(head) for head in heads):
            return True
        return False if any(head.startswith(begun) for head in heads) else None

    def _shown(self, text: str) -> str:
        if self.calls and not text.strip():
            return ""
        self._fresh = self._fresh and not text.strip()
        return text

    def _read(self, text: str) -> list[Called] | None:
        """The calls that a text consists of and that count, or None if it is something else."""
        found, decoder, rest = list[Called](), json.JSONDecoder(), text.strip()
        while rest:
            try:
                value, end = decoder.raw_decode(rest)
            except (ValueError, RecursionError):
                return None
            for one in value if isinstance(value, list) else [value]:
                if (call := self._call(one)) is None or len(found) == MAX_CALLS:
                    return None
                found.append(call)
            rest = rest[end:].lstrip("; \t\r\n")
        if not found:
            return None
        if not self._several:
            found = found[: 1 - len(self.calls[:1])]
        self.calls += found
        return found

    def _call(self, value: Any) -> Called | None:
        if not isinstance(value, dict) or value.get("name") not in self._names:
            return None
        given = value.get("arguments", value.get("parameters", {}))
        if not isinstance(given, dict):
            return None
        if self.form.form == "listed":
            name = "".join(secrets.choice(LETTERS) for _ in range(SHORT_ID))
        else:
            name = f"call_{secrets.token_hex(12)}"
        return Called(name, value["name"], json.dumps(given, ensure_ascii=False))
