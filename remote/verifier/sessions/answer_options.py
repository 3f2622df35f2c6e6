"""The options of one answer besides sampling: changed logits, log-probabilities, a predicted text.

Logits are changed before a token is chosen, at each node of a draft for the tokens that lead to it. So drafts stay
exact: they decide how many tokens a round yields, never which.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from models.engines.engine import Floats
from models.text.seam import Spellings
from remote.verifier.learning.likeliest import log_softmax
from remote.verifier.sessions.grammar import Grammar

LEAST_LOG_PROB = -9999.0
"""Stands for the logarithm of 0, which JSON cannot represent. OpenAI's API uses the same number."""
MOST_DRAFTED = 16
"""Most tokens of a draft that these options provide."""
FOUND_BY = 2
"""Consecutive tokens by which the place in a predicted text is found again."""


class LogitsProcessor(Protocol):
    """Changes the logits of an answer, and keeps track of the answer's tokens."""

    def process(self, logits: Floats, path: Sequence[int]) -> Floats:
        """The logits (V,) after the answer so far and the drafted tokens of `path`, changed; may be the array given."""

    def take(self, tokens: Sequence[int]) -> None:
        """Add committed tokens to the answer so far."""


class LogitBias:
    """Adds fixed numbers to the logits of some tokens."""

    def __init__(self, bias: Mapping[int, float]) -> None:
        self._tokens = np.array(list(bias), np.int64)
        self._added = np.array(list(bias.values()), np.float32)

    def process(self, logits: Floats, path: Sequence[int]) -> Floats:
        del path
        logits[self._tokens] += self._added
        return logits

    def take(self, tokens: Sequence[int]) -> None:
        del tokens


class Penalties:
    """Makes tokens that the answer already has less likely, as OpenAI's API defines it.

    `presence` is subtracted once from the logit of each, `frequency` once per occurrence. `before`: the answer so far.
    """

    def __init__(self, presence: float, frequency: float, before: Sequence[int] = ()) -> None:
        self._presence, self._frequency = presence, frequency
        self._counts = Counter(before)

    def process(self, logits: Floats, path: Sequence[int]) -> Floats:
        counts = self._counts + Counter(path) if path else self._counts
        tokens = np.fromiter(counts.keys(), np.int64, len(counts))
        often = np.fromiter(counts.values(), np.float32, len(counts))
        logits[tokens] -= self._presence + self._frequency * often
        return logits

    def take(self, tokens: Sequence[int]) -> None:
        self._counts.update(tokens)


class Forced:
    """Makes an answer begin with certain bytes, because they are the end of what is there already (token healing)."""

    def __init__(self, spellings: Spellings, forced: bytes) -> None:
        self._spellings, self._left = spellings, forced

    def process(self, logits: Floats, path: Sequence[int]) -> Floats:
        if left := self._spellings.after(self._left, path):
            fitting = self._spellings.fitting(left)
            allowed = logits[fitting]
            logits[:] = -np.inf
            logits[fitting] = allowed
        return logits

    def take(self, tokens: Sequence[int]) -> None:
        self._left = self._spellings.after(self._left, tokens)


class Noted(NamedTuple):
    """The natural logarithms of the probabilities of a committed token and of the likeliest ones at its position."""

    token: int
    log_prob: float
    likeliest: tuple[tuple[int, float], ...]


class PredictedText:
    """A text that the answer will probably contain. Drafts are what follows the point that the answer has reached.

    `given`: how many of its first tokens are no prediction of the client's, and are not counted. Copies made before its
    use are for other answers, and share the text.
    """

    def __init__(self, tokens: Sequence[int], given: int = 0) -> None:
        self._tokens, self._given = tokens, given
        self._next: int | None = 0
        """The place of the answer's next token, or None if the answer has left the text."""
        self._places: dict[tuple[int, ...], list[int]] = {}
        for at in range(FOUND_BY, len(tokens) + 1):
            self._places.setdefault(tuple(tokens[at - FOUND_BY : at]), []).append(at)
        self._last: tuple[int, ...] = ()
        self._furthest = 0
        self.accepted = 0
        """Counted tokens of the text that the answer has used."""

    @property
    def counted(self) -> int:
        return len(self._tokens) - self._given

    @property
    def rejected(self) -> int:
        """Counted tokens of the text that are not in the answer."""
        return self.counted - self.accepted

    def draft(self) -> Sequence[int]:
        """The tokens that come next if the answer continues along the text."""
        return () if self._next is None else self._tokens[self._next : self._next + MOST_DRAFTED]

    def take(self, tokens: Iterable[int]) -> None:
        """Follow committed tokens of the answer."""
        for token in tokens:
            self._last = (*self._last, token)[-FOUND_BY:]
            if self._next is not None and self._next < len(self._tokens) and self._tokens[self._next] == token:
                self._next += 1
                self.accepted += self._next > self._given
                self._furthest = max(self._furthest, self._next)
            else:
                self._next = self._found()

    def _found(self) -> int | None:
        """The first place after the accepted text at which the answer's last tokens occur."""
        return next((at for at in self._places.get(self._last, ()) if at > self._furthest), None)


class AnswerOptions:
    """The options of one answer, applied by the engine's thread.

    `top_logprobs`: how many of the likeliest tokens to record at each position besides the token itself, or None to
    record nothing. Log-probabilities are those of the target's own distribution, before processors and sampling. If a
    predicted text or the grammar determines what comes next, that is the draft.
    """

    def __init__(
        self,
        processors: Sequence[LogitsProcessor] = (),
        top_logprobs: int | None = None,
        predicted: PredictedText | None = None,
        grammar: Grammar | None = None,
    ) -> None:
        self._processors = processors if grammar is None else [*processors, grammar]
        self._top_logprobs, self._grammar = top_logprobs, grammar
        self.predicted = predicted
        self.noted = deque[Noted]()
        """Records of committed tokens, in order. The reader removes them."""

    @property
    def notes(self) -> bool:
        """Whether log-probabilities are recorded."""
        return self._top_logprobs is not None

    @property
    def changes(self) -> bool:
        return bool(self._processors)

    def processed(self, logits: Floats, path: Sequence[int]) -> Floats:
        """The changed logits (V,) from which the token after the drafted tokens of `path` is chosen."""
        changed = logits.copy()
        for processor in self._processors:
            changed = processor.process(changed, path)
        return changed

    @property
    def nodes(self) -> int:
        """Most tokens of a draft that these options provide."""
        return 0 if self.predicted is None and self._grammar is None else MOST_DRAFTED

    def draft(self) -> Sequence[int]:
        """Tokens that probably come next; often none."""
        tokens = () if self.predicted is None else self.predicted.draft()
        if not tokens and self._grammar is not None:
            tokens = self._grammar.draft()
        return tokens[:MOST_DRAFTED]

    def take(self, tokens: Sequence[int], before: Callable[[], Floats]) -> None:
        """Take committed tokens (n,). `before`: gives the logits before each of them, (n, V)."""
        for processor in self._processors:
            processor.take(tokens)
        if self.predicted is not None:
            self.predicted.take(tokens)
        if self._top_logprobs is not None:
            self.noted += [_noted(token, row, self._top_logprobs) for token, row in zip(tokens, before())]


def _noted(token: int, logits: Floats, count: int) -> Noted:
    log_probs = np.maximum(log_softmax(logits), LEAST_LOG_PROB)
    best = np.argpartition(-log_probs, min(count, len(log_probs) - 1))[:count] if count else np.empty(0, np.int64)
    best = best[np.lexsort((best, -log_probs[best]))]
    return Noted(token, float(log_probs[token]), tuple((int(one), float(log_probs[one])) for one in best))
