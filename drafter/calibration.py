"""Turns the drafter's probabilities into the chances that the target accepts its tokens, learnt online from verdicts.

This is a logistic regression with four weights. The logit of a node's acceptance, once its parent is accepted, is
linear in three features: the logit of the drafter's own probability, the log of the node's depth (deep nodes are
drafted from older memory), and the log of its attempt (what is left after a refusal is harder to hit). Before any
verdict it is the identity.

Learning is Bayesian. The weights have a Gaussian prior around the identity. Each verdict moves them to the best
explanation of its outcomes under that prior, and adds its curvature to the prior. Steps use the largest curvature of
the logistic loss (Boehning 1992), so they never overshoot. Old experience fades, because topics change and drafters are
trained further.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drafter.multicandidate import confidence
from models.tree import ROOT, DraftTree

Floats = NDArray[np.float64]

IDENTITY: Floats = np.array([0.0, 1.0, 0.0, 0.0])
"""Weights of: one, the drafter's logit, log depth, log attempt."""
PRIOR: Floats = 4.0 * np.eye(4)
"""Inverse covariance around the identity: a standard deviation of 0.5 for each weight."""
MEMORY = 0.998
"""Share of the experience that is kept from one verdict to the next: about 500 verdicts count."""
LEAST_SLOPE = 0.05
"""Lowest slope of acceptance over the drafter's logit. It is above 0, so a likelier node never counts as less
acceptable."""
STEPS = 8
_UPPER = np.triu_indices(4)


class Calibration:
    """Chances of acceptance, learnt from verdicts.

    One object serves one way of drafting and sampling: the chances at temperature 0 are not those at 1. A call never
    sees half of an update, so one thread may draft while another learns.
    """

    def __init__(self) -> None:
        self._learnt: tuple[Floats, Floats] = IDENTITY, PRIOR

    def __call__(
        self, log_probs: NDArray[np.floating], depth: int | NDArray[np.int64], attempt: int | NDArray[np.int64] = 1
    ) -> Floats:
        """The log of the chance that such nodes are accepted if their parents are; see `drafter.search.Acceptance`.

        At most 0. Never falls where `log_probs` rises.
        """
        weights, precision = self._learnt
        if precision is PRIOR:
            return np.asarray(log_probs, np.float64)
        logits = _features(log_probs, depth, attempt) @ weights
        return np.where(np.isneginf(log_probs), -np.inf, -np.logaddexp(0.0, -logits))

    def learn(self, tree: DraftTree, accepted: Sequence[int], bonus: int | None) -> None:
        """Learn from the verdict on a drafted tree: the accepted nodes, from the root's child down, and the bonus."""
        features, outcomes = judged(tree, accepted, bonus)
        if not len(outcomes):
            return
        before, precision = self._learnt
        precision = PRIOR + MEMORY * (precision - PRIOR)
        weights, scale = before, np.linalg.inv(precision + features.T @ features / 4)
        for _ in range(STEPS):
            gradient = features.T @ (outcomes - _sigmoid(features @ weights)) - precision @ (weights - before)
            weights = weights + scale @ gradient
            # This is the optimum within the bound. Raising the slope of the unbounded optimum would not be.
            weights = weights + scale[1] / scale[1, 1] * max(0.0, LEAST_SLOPE - weights[1])
        spread = _sigmoid(features @ weights)
        self._learnt = weights, precision + features.T @ (features * (spread * (1 - spread))[:, None])

    # ---- as a few numbers --------------------------------------------------------------------------------------------

    def dump(self) -> list[float]:
        """The state as numbers: 4 weights, then the 10 numbers of their inverse covariance."""
        weights, precision = self._learnt
        return [*weights.tolist(), *precision[_UPPER].tolist()]

    @classmethod
    def load(cls, numbers: Sequence[float]) -> Calibration:
        """The calibration that `dump` wrote. Raises `ValueError` for other numbers."""
        values = np.array(numbers, np.float64)
        if values.shape != (14,) or not np.isfinite(values).all() or values[1] <= 0:
            raise ValueError("not the numbers of a calibration")
        precision = np.zeros((4, 4))
        precision[_UPPER] = values[4:]
        precision += np.triu(precision, 1).T
        if np.linalg.eigvalsh(precision)[0] <= 0:
            raise ValueError("not the numbers of a calibration: no covariance has this inverse")
        made = cls()
        if values.tolist() != made.dump():
            made._learnt = values[:4], precision
        return made


def judged(tree: DraftTree, accepted: Sequence[int], bonus: int | None) -> tuple[Floats, Floats]:
    """The lessons of a verdict: the features of the judged nodes (n, 4), and (n,) 1 for accepted, 0 for refused.

    Only children of accepted nodes are judged, and in a sampled tree only those that were tried. Nothing is judged
    after a stop token. A tree without log-probabilities teaches nothing.
    """
    children = tree.children()
    chosen = [*(int(tree.tokens[node]) for node in accepted), *([] if bonus is None else [bonus])]
    features, outcomes = [np.zeros((0, 4))], [np.zeros(0)]
    for depth, (parent, token) in enumerate(zip([ROOT, *accepted], chosen), 1):
        siblings = list(children.get(parent, {}))
        if tree.candidates is not None and siblings:
            siblings = siblings[: siblings.index(token) + 1] if token in siblings else siblings
            candidates = tree.candidates[parent]
            drawn = candidates.weights[candidates.places(siblings)]
            log_probs = np.log(confidence(candidates.weights[None], drawn[None])[0])
            features.append(_features(log_probs, depth, np.arange(1, len(siblings) + 1)))
        elif tree.log_probs is not None and siblings:
            features.append(_features(tree.log_probs[list(children[parent].values())], depth, 1))
        else:
            continue
        outcomes.append((np.array(siblings) == token).astype(np.float64))
    return np.concatenate(features), np.concatenate(outcomes)


def _features(
    log_probs: NDArray[np.floating], depth: int | NDArray[np.int64], attempt: int | NDArray[np.int64]
) -> Floats:
    """The features of nodes, (..., 4). Probabilities closer than 1e-7 to 0 or 1 count as that far away."""
    clipped = np.clip(np.asarray(log_probs, np.float64), -16.0, -1e-7)
    columns = np.broadcast_arrays(1.0, clipped - np.log(-np.expm1(clipped)), np.log(depth), np.log(attempt))
    return np.stack(columns, axis=-1)


def _sigmoid(logits: Floats) -> Floats:
    chances: Floats = np.exp(-np.logaddexp(0.0, -logits))
    return chances
