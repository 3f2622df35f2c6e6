"""How well a drafter must guess to be useful: to draft at all, and to write alone while no target answers.

Below the first floor, drafts cost more than they gain, whatever the line is like. Below the second, what a drafter
writes alone is noise, so a question should wait for the target.
"""

from __future__ import annotations

import msgspec

from models.config import DrafterConfig, Measured

LEAST_TAU = 1.5
"""Tokens per round, bonus included, that a drafter must gain."""
LEAST_ALONE = 0.6
"""Share of the target's tokens that a drafter must choose first without memory, to write alone."""
MOST_PERPLEXITY = 20.0
"""Perplexity under the target up to which what a drafter writes alone is readable."""
MOST_REPEATED = 0.5
"""Share of repeated four-grams up to which it is readable."""
UNMEASURED = "it was never measured: outrider drafter eval --record does so"


def why_no_drafts(config: DrafterConfig) -> str | None:
    """Why this drafter is useless to its target, as the end of a sentence, or None if it is useful."""
    measured = config.measured
    if isinstance(measured, msgspec.UnsetType):
        return UNMEASURED
    if measured.tau < LEAST_TAU:
        return f"it gains {measured.tau:.1f} tokens a round, and fewer than {LEAST_TAU} do not pay off"
    return None


def why_not_alone(config: DrafterConfig) -> str | None:
    """Why this drafter must not write without its target, as the end of a sentence, or None if it may."""
    measured = config.measured
    if isinstance(measured, msgspec.UnsetType):
        return UNMEASURED
    return why_no_drafts(config) or (None if readable(measured) else "what it writes alone is not readable")


def readable(measured: Measured) -> bool:
    """Whether what a drafter writes alone can be read."""
    likely = measured.perplexity is None or measured.perplexity <= MOST_PERPLEXITY
    return likely and measured.alone >= LEAST_ALONE and measured.repeated <= MOST_REPEATED
