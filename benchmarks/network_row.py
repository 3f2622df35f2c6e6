"""One row of the network benchmark: the result of all samples of a mode, on one line and with one target."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.answering import Sample
from benchmarks.journal import Key


def row(key: Key, samples: Sequence[Sample]) -> dict[str, Any]:
    """The result of all prompts of one mode."""
    tokens = np.array([len(sample.tokens) for sample in samples])
    seconds = np.array([sample.seconds for sample in samples])
    picks = np.random.default_rng(0).integers(len(samples), size=(2000, len(samples)))
    low, high = np.quantile(tokens[picks].sum(1) / seconds[picks].sum(1), (0.025, 0.975))
    total, rounds = max(1, int(tokens.sum())), sum(sample.rounds for sample in samples)
    verified = sum(sample.verified for sample in samples)

    def per_token(name: str) -> float:
        return sum(getattr(sample, name) for sample in samples) / total

    def per_round(value: float) -> float | None:
        return round(value / rounds, 3) if rounds else None

    def median(times: Sequence[float | None]) -> float | None:
        known = [each for each in times if each is not None]
        return round(statistics.median(known), 4) if known else None

    tries, hits = (sum(sample.counts.get(f"ahead_{name}", 0) for sample in samples) for name in ("tries", "hits"))
    first = [(sample.first_drafted, sample.first_verified) for sample in samples]
    parts = {
        name: sum(getattr(sample, f"{name}_seconds") for sample in samples) for name in ("draft", "server", "line")
    }
    parts["rest"] = float(seconds.sum()) - sum(parts.values())
    return {
        **key._asdict(),
        "prompts": len(samples),
        "tokens": int(tokens.sum()),
        "tokens_per_second": round(float(tokens.sum() / seconds.sum()), 2),
        "ci95": [round(float(low), 2), round(float(high), 2)],
        "passes_per_100_tokens": round(100 * per_token("passes"), 2),
        "tau": per_round(verified),
        "bytes_up": round(per_token("bytes_up"), 1),
        "bytes_down": round(per_token("bytes_down"), 1),
        "first_drafted_seconds": median([drafted for drafted, _ in first]),
        "first_verified_seconds": median([verified for _, verified in first]),
        "first_token_seconds": median([min(filter(None, times), default=None) for times in first]),
        "unverified_tokens": int(tokens.sum()) - verified,
        "failed": sum(bool(sample.failed) for sample in samples),
        "levels": per_round(sum(sample.levels for sample in samples)),
        "nodes": per_round(sum(sample.nodes for sample in samples)),
        "ahead_hits": round(hits / tries, 3) if tries else None,
        "ms_per_round": {name: per_round(1000 * part) for name, part in parts.items()},
        "dimmed": _dimmed(samples, picks),
        "chose": dict(Counter(sample.chose for sample in samples)),
        "why": samples[-1].why,
    }


def _dimmed(samples: Sequence[Sample], picks: np.ndarray) -> dict[str, Any]:
    """What became of the text that was shown dimmed. `picks`: numbers of samples, one row for each bootstrap draw."""
    confirmed, withdrawn = (np.array([getattr(each, name) for each in samples]) for name in ("confirmed", "withdrawn"))
    found = {"shown": sum(each.dimmed for each in samples)}
    found |= {"confirmed": int(confirmed.sum()), "withdrawn": int(withdrawn.sum())}
    decided = (confirmed + withdrawn)[picks].sum(1)
    if not confirmed.sum() + withdrawn.sum():
        return {**found, "share": None, "ci95": None}
    low, high = np.quantile(withdrawn[picks].sum(1)[decided > 0] / decided[decided > 0], (0.025, 0.975))
    share = withdrawn.sum() / (confirmed.sum() + withdrawn.sum())
    return {**found, "share": round(float(share), 4), "ci95": [round(float(low), 4), round(float(high), 4)]}
