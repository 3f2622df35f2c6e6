"""Answers that must be JSON: tokens that would break its grammar are never chosen.

The grammar is followed by llguidance, which comes with the extras `server` and `gguf`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drafter.extras import how_to_install
from drafter.text import ChatText
from remote.verifier.engine import Floats
from remote.verifier.refusals import BadRound

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
SPACE = " "
"""What may stand between the parts of JSON. Where more is allowed, a small model writes white space for ever."""
NEEDED = f"response_format needs llguidance on the server: {how_to_install('server')}"


class NoGrammar(Exception):
    """A grammar that cannot be followed here. The message says why."""


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
        with self._making:
            if self._tokenizer is None:
                tokenizer = self._text.tokenizer_json()
                self._tokenizer = llguidance.LLTokenizer(tokenizer, n_vocab=self._size, eos_token=self._stops)
        told = json.dumps(schema)
        matcher = llguidance.LLMatcher(
            self._tokenizer,
            llguidance.LLMatcher.grammar_from_json_schema(told, {"whitespace_pattern": SPACE}),
            log_level=0,
        )
        if matcher.is_error():
            raise NoGrammar(f"The JSON schema cannot be followed: {_first_line(matcher.get_error())}")
        return Grammar(matcher, self._size)


class Grammar:
    """Follows one answer, and leaves it no token that its grammar does not allow (a `LogitsProcessor`)."""

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
        return () if self._matcher.is_stopped() else self._matcher.compute_ff_tokens()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise BadRound(f"The answer's grammar cannot be followed: {_first_line(self._matcher.get_error())}")


def _first_line(said: str) -> str:
    return said.strip().partition("\n")[0][:300]
