"""Answers that must be JSON: tokens that would violate the grammar are never chosen.

llguidance, which comes with the extras `server` and `gguf`, tracks the grammar.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from models.engines.engine import Floats
from models.engines.llama_text import LlamaText
from models.extras import how_to_install
from models.text.chat_text import ChatText
from remote.verifier.refusals import BadRound

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
SPACE = " "
"""White space that is allowed between the parts of JSON. If more were allowed, a small model would write it for
ever."""
TOO_DEEP = (
    "The JSON schema cannot be followed: it is nested too deeply. Make it flatter, or move parts of it to $defs and "
    "name them by $ref."
)
NO_TEXT = (
    "The JSON schema cannot be followed: no text fits it. A $ref that leads back to itself does that, for example. "
    "Change the schema."
)
LONGEST_STRING = 4000
"""Characters of a constant, a name or a pattern in a schema. llguidance follows text that must come to its end in each
round, and everybody waits meanwhile: 0.3 s for 50,000 characters."""
LONGEST_FORCED = 4 * LONGEST_STRING
"""Tokens of text that must come."""
NOTES = frozenset({"$comment", "default", "description", "title"})
"""What in a schema is never written."""
TOO_LONG = (
    "The JSON schema cannot be followed: a constant, a name or a pattern in it spells more than "
    f"{LONGEST_STRING} characters. Make it shorter."
)
NEEDED = f"response_format needs llguidance on the server: {how_to_install('server')}"


class NoGrammar(Exception):
    """A grammar that cannot be followed here. The message says why."""


class GrammarBroken(BadRound):
    """A grammar that turned out, during an answer, to be impossible to follow."""

    param = "response_format"


class Grammars:
    """Makes the grammars of one vocabulary. `size`: tokens of the target's logits."""

    def __init__(self, text: ChatText, size: int, stop_tokens: Sequence[int]) -> None:
        self._text, self._size, self._stops = text, size, list(stop_tokens)
        self._tokenizer: LLTokenizer | None = None
        self._making = threading.Lock()

    def json(self, schema: Mapping[str, Any]) -> Grammar:
        """The grammar of JSON that fits a schema. Any thread may ask. Raises `NoGrammar`."""
        try:
            import llguidance
        except ImportError:
            raise NoGrammar(NEEDED) from None
        if _longest(schema) > LONGEST_STRING:
            raise NoGrammar(TOO_LONG)
        with self._making:
            if self._tokenizer is None:
                self._tokenizer = self._made(llguidance)
        try:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema), {"whitespace_pattern": SPACE})
        except RecursionError:
            raise NoGrammar(TOO_DEEP) from None
        except ValueError as error:
            raise NoGrammar(_told(str(error))) from None
        matcher = llguidance.LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise NoGrammar(_told(matcher.get_error()))
        return Grammar(matcher, self._size)

    def _made(self, llguidance: ModuleType) -> LLTokenizer:
        if isinstance(self._text, LlamaText):
            return self._text.grammar_tokenizer(self._size, self._stops)
        made: LLTokenizer = llguidance.LLTokenizer(
            self._text.tokenizer_json(), n_vocab=self._size, eos_token=self._stops
        )
        return made


class Grammar:
    """Follows one answer, and excludes every token that its grammar does not allow (a `LogitsProcessor`)."""

    def __init__(self, matcher: LLMatcher, size: int) -> None:
        self._matcher = matcher
        self._mask = np.zeros((size + 31) // 32, np.int32)
        self._size = size

    def process(self, logits: Floats, path: Sequence[int]) -> Floats:
        matcher = self._matcher
        followed = matcher.try_consume_tokens(list(path)) if path else 0
        matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        if followed:
            matcher.rollback(followed)
        self._check()
        allowed = np.unpackbits(self._mask.view(np.uint8), bitorder="little")[: self._size]
        logits[allowed == 0] = -np.inf
        return logits

    def take(self, tokens: Sequence[int]) -> None:
        self._matcher.try_consume_tokens(list(tokens))
        self._check()

    def draft(self) -> Sequence[int]:
        """Tokens that must come next; often none."""
        tokens = () if self._matcher.is_stopped() else self._matcher.compute_ff_tokens()
        if len(tokens) > LONGEST_FORCED:
            raise GrammarBroken(TOO_LONG)
        return tokens

    def _check(self) -> None:
        if self._matcher.is_error():
            raise GrammarBroken(_told(self._matcher.get_error()))


def _longest(schema: Mapping[str, Any]) -> int:
    """Characters of the longest string in a schema, apart from notes."""
    longest, left = 0, list[Any]([schema])
    while left:
        part = left.pop()
        if isinstance(part, str):
            longest = max(longest, len(part))
        elif isinstance(part, list):
            left += part
        elif isinstance(part, Mapping):
            left += part
            left += [value for name, value in part.items() if name not in NOTES or not isinstance(value, str)]
    return longest


def _told(said: str) -> str:
    """llguidance's message about a schema, for its author."""
    lines = said.partition("\n<state>")[0].strip().splitlines() or [""]
    if lines[0].startswith("recursion limit exceeded"):
        return TOO_DEEP
    if lines[0].startswith("NoExtension"):
        return NO_TEXT
    # For an invalid pattern, the message comes first, then the place, and the reason last.
    reason = f" {lines[-1].removeprefix('error: ')}" if len(lines) > 1 else ""
    return f"The JSON schema cannot be followed: {lines[0][:300]}{reason[:300]}"
