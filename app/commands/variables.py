"""The variables that a script sets itself: `x=rm; $x notes.txt` is `rm notes.txt`.

A variable has the value that the text assigned last. Loops and branches are not followed.
"""

from __future__ import annotations

import re
from dataclasses import replace

from app.commands.script import Word

_NAME = re.compile(r"\$(?:(?P<name>[A-Za-z_]\w*)|\{(?P<braces>[A-Za-z_]\w*)\})")
LONGEST = 1_000
"""Most characters of a substituted value. Doubling a value repeatedly would fill the memory."""


class Variables:
    """Values by name, as far as they are in the text."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def assign(self, assignment: Word) -> None:
        """Store the value of `name=value`; forget the name if its value is not in the text."""
        name, _, value = self._filled(assignment).value.partition("=")
        known = "$" not in value and "`" not in value and not assignment.substitutions
        if name.isidentifier() and known and len(value) <= LONGEST:
            self._values[name] = value
        else:
            self._values.pop(name.rstrip("+"), None)

    def resolved(self, words: list[Word]) -> list[Word]:
        """The words with names replaced by values. The first word may become several: a program and its options."""
        if not self._values:
            return words
        filled = [self._filled(word) for word in words]
        first = filled[0] if filled else None
        if first is not None and first is not words[0] and len(pieces := first.value.split()) > 1:
            return [*(replace(first, value=piece) for piece in pieces), *filled[1:]]
        return filled

    def _filled(self, word: Word) -> Word:
        if word.plain or "$" not in word.value:
            return word
        value = _NAME.sub(lambda found: self._values.get(found["name"] or found["braces"], found[0]), word.value)
        return word if value == word.value else replace(word, value=value, verbatim=None)
