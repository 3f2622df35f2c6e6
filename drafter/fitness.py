"""Measures how well a drafter guesses by itself, on stored answers of its target, so that no target is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from drafter.runtime import Drafter
from models.config import WRITTEN, Measured

LEAST_TOKENS = 48
"""Tokens of answers that suffice to judge a drafter."""
MOST_TOKENS = 600
"""Tokens of answers that are read at most."""
TEXTS = 4
"""Texts that the drafter writes alone, at most."""
GRAM = 4


def measure_alone(
    drafter: Drafter,
    answers: Iterable[tuple[Sequence[int], Sequence[int]]],
    halted: Callable[[], bool] = lambda: False,
) -> Measured | None:
    """Measure a drafter without memory of what it reads. Returns None if there are too few answers or if it was halted.

    `answers`: the tokens before each greedy answer of its target, and those of the answer. `tau` is what a chain of
    first choices would gain. There is no perplexity, because the target is not at hand to judge the drafter's text.
    """
    tokens = hits = texts = 0
    shares: list[float] = []
    for prompt, answer in answers:
        if halted():
            return None
        context = drafter.context()
        context.commit(prompt)
        said = answer[: MOST_TOKENS - tokens]
        if not said:
            break
        guesses = context.likeliest_after(said[:-1])
        tokens, hits = tokens + len(said), hits + sum(map(int.__eq__, guesses, said))
        if texts < TEXTS:
            texts += 1
            shares += repeated(written_alone(drafter, prompt))
    if tokens < LEAST_TOKENS:
        return None
    share = sum(shares) / len(shares) if shares else 0.0
    return Measured(tau=tokens / max(1, tokens - hits), alone=hits / tokens, repeated=share)


def repeated(text: Sequence[int]) -> list[float]:
    """For each run of four tokens: 1 if it occurred earlier in the text, else 0."""
    grams = [tuple(text[at : at + GRAM]) for at in range(len(text) - GRAM + 1)]
    return [float(gram in grams[:at]) for at, gram in enumerate(grams)]


def written_alone(drafter: Drafter, prompt: Sequence[int]) -> list[int]:
    """The drafter's own text after a prompt, at most `WRITTEN` tokens."""
    context, text, stops = drafter.context(), list[int](), frozenset(drafter.config.stop_tokens)
    context.commit(prompt)
    for step in context.generate(0.0, 0):
        text += step
        if len(text) >= WRITTEN or stops & set(step):
            break
    return text[:WRITTEN]
