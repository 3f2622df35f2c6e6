"""An EAGLE drafter in the app's edge mode: the target's features cross the wire as memory does, and are drafted from.

`FeatureEngine` is the verifier's half: an engine whose memory of a token is its encoded feature, in int8 with a scale
for each head's worth of numbers, like MoA's memory. `FeatureDrafter` is the device's half: what the app needs of a
drafter. So app, protocol, pace, calibration and line are the same, and only the drafter differs.

EAGLE makes each row from the output of the one before, so there are things that it cannot do here. It cannot run a
guessed chain in one call, so it has no second stage. It cannot continue from memory with a gap, so it fills the gap
with its own outputs. It cannot draft ahead of a verdict, because it would start from the verdict's features.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from benchmarks.baseline_drafters import Baseline, FeatureTap
from drafter.ahead import Halted
from drafter.coin import Coins
from drafter.multicandidate import DraftSampling
from drafter.search import Acceptance, Pace
from drafter.second_stage import SecondStage
from models.config import DIGEST_BYTES
from models.engines.engine import Floats, Forward, TargetContext
from models.engines.torch_engine import TorchContext, TorchEngine
from models.guide.prompt import Prompt
from models.memory import MemoryRow, dequantise, pack_memory, quantise_row
from models.text.chat_text import ChatText
from models.tree import DraftTree

ROUND = 40
"""Most rows that a round makes before its draft, for the tokens that the last round gained. More are a prompt."""


@dataclass(frozen=True)
class FeatureFormat:
    """Features on the wire: half of a token's numbers as the keys, half as the values of one memory row."""

    digest: bytes
    layers: tuple[tuple[int, int]]
    """(heads, size) of the row."""

    @classmethod
    def of(cls, baseline: Baseline) -> FeatureFormat:
        config = baseline.config
        half = config.hidden // 2
        size = config.head_size if half % config.head_size == 0 else half
        digest = hashlib.blake2b(msgspec.json.encode(config), digest_size=DIGEST_BYTES).digest()
        return cls(digest, ((half // size, size),))

    def pack(self, features: Tensor) -> bytes:
        """Pack features (n, H)."""
        halves = features.float().cpu().numpy().reshape(len(features), 2, *self.layers[0])
        return pack_memory([quantise_row(halves[:, 0], halves[:, 1])])

    def numbers(self, row: MemoryRow) -> Tensor:
        """The features (n, H) in a row of memory."""
        halves = dequantise(row.keys, row.key_scales), dequantise(row.values, row.value_scales)
        return torch.from_numpy(np.stack(halves, axis=1).reshape(len(row.keys), -1))


# ---- the verifier's half ---------------------------------------------------------------------------------------------


class Featured(TorchContext):
    """A conversation that keeps the target's features of its computed tokens."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers)
        self.features: Tensor | None = None
        """(computed, W). None before the first forward."""
        self.drafted: Tensor | None = None
        """(n, W): features of the last forward's nodes."""

    def commit(self, tree: DraftTree, accepted: Sequence[int], bonus: int | None) -> list[int]:
        assert self.features is not None and self.drafted is not None
        self.features = torch.cat((self.features, self.drafted[list(accepted)]))
        return super().commit(tree, accepted, bonus)


class FeatureEngine(TorchEngine):
    """An engine whose memory is the features that `baseline` reads. Others may use the model between its calls."""

    def __init__(self, model: PreTrainedModel, baseline: Baseline) -> None:
        self._baseline = baseline
        super().__init__(model)
        self.encoder = FeatureFormat.of(baseline)  # type: ignore[assignment]

    def context(self) -> Featured:
        return Featured(self._layers)

    def _run(self, requests: Sequence[Forward]) -> list[Floats]:
        if len(requests) > 1:
            return [self._run([request])[0] for request in requests]
        (request,) = requests
        context, past = request.context, request.context.computed
        assert isinstance(context, Featured)
        with FeatureTap(self.model, self._baseline.config.features) as tap:
            logits = super()._run(requests)
            rows = tap.take(0, ())
        before = rows[:0] if context.features is None else context.features[:past]
        context.features, context.drafted = torch.cat((before, rows[: request.pending])), rows[request.pending :]
        return logits

    @torch.no_grad()
    def memory(self, context: TargetContext, start: int, end: int) -> bytes:
        assert isinstance(context, Featured) and context.features is not None
        encoded = self._baseline.encode(context.features[start:end].float())
        return self.encoder.pack(encoded)  # type: ignore[union-attr, operator]


# ---- the device's half -----------------------------------------------------------------------------------------------


class FeatureDrafter:
    """Takes the place of `drafter.runtime.Drafter`, for greedy answers."""

    def __init__(self, baseline: Baseline, text: ChatText, prompt: Prompt | None = None) -> None:
        """`prompt`: the recipe by which the target is asked."""
        self.config = baseline.config
        self.text = text
        self.prompt = prompt
        self.format = FeatureFormat.of(baseline)
        self.memory_digest = self.format.digest
        self.memory_layers = self.format.layers
        self.version = 0  # It learns nothing from its user.
        self._baseline = baseline

    def context(self, second_stage: SecondStage | None = None) -> FeatureContext:
        assert second_stage is None
        return FeatureContext(self._baseline, self.format)


class FeatureContext:
    """Takes the place of `drafter.context.DraftContext`."""

    ready = None
    """No draft is made ahead."""

    def __init__(self, baseline: Baseline, form: FeatureFormat) -> None:
        self.taken: tuple[int, float] | None = None
        self._context = baseline.context()
        self._form = form
        self._features = torch.zeros(0, baseline.config.hidden)
        self._known = np.zeros(0, bool)

    @property
    def tokens(self) -> list[int]:
        return self._context.tokens

    def follow(self, tokens: Sequence[int]) -> int:
        """Replace the conversation's tokens, and return how many of the old ones stay."""
        old = self.tokens
        same = next((at for at, pair in enumerate(zip(old, tokens)) if pair[0] != pair[1]), min(len(old), len(tokens)))
        if same < len(old):
            self._context.rewind(same)
        self._context.commit(tokens[same:])
        added = len(tokens) - same
        self._features = torch.cat((self._features[:same], self._features.new_zeros(added, self._features.shape[1])))
        self._known = np.append(self._known[:same], np.zeros(added, bool))
        return same

    def remember(self, start: int, rows: Sequence[MemoryRow]) -> None:
        """Take features of the tokens from `start` on. Pieces may come in any order."""
        features = self._form.numbers(rows[0])
        end = start + len(features)
        self._features[start:end], self._known[start:end] = features, True
        if start < self._context.remembered:  # The drafter's own outputs stood in for them.
            self._context.rewind(len(self.tokens), start)

    @property
    def memory_length(self) -> int:
        """How many tokens, from the first one on without a gap, have their features here."""
        return int(np.argmin(np.append(self._known, False)))

    def draft(
        self,
        pace: Pace,
        sampling: DraftSampling | None = None,
        acceptance: Acceptance | None = None,
        coins: Coins | None = None,
        halted: Callable[[], bool] | None = None,
    ) -> DraftTree:
        assert sampling is None and coins is None  # It drafts for targets that take their best token.
        if halted is not None and halted():
            raise Halted
        begun, calls, waiting = time.perf_counter(), self._context.calls, self._context.waiting
        self._hand_over()
        tree = self._context.draft(pace, acceptance)
        self.taken = (self._context.calls - calls, time.perf_counter() - begun) if waiting <= ROUND else None
        return tree

    def generate(self, temperature: float, seed: int) -> Iterator[list[int]]:
        """Text by the drafter alone, greedily, one token at a time."""
        assert temperature == 0
        while True:
            tokens = self.draft(Pace(depth=1, breadth=1, nodes=1)).tokens.tolist()
            self.follow([*self.tokens, *tokens])
            yield tokens

    def _hand_over(self) -> None:
        """Give the context all features that are here, and its own outputs for missing ones before them."""
        context = self._context
        while self._known[context.remembered :].any():
            start = context.remembered + int(np.argmax(self._known[context.remembered :]))
            context.imagine(start)
            end = start + int(np.argmin(np.append(self._known[start:], False)))
            context.remember(start, self._features[start:end])
