"""Distil a MoA drafter from a frozen target, on answers that the target itself gave; resumable.

One forward pass trains every draft step at once, by the T-step-bounded mask: a query sees the target's memory up to an
anchor only, so it learns to draft from memory that is 1 .. T tokens old. Most gaps are those of a draft tree; a heavy
tail (hundreds of tokens, whole last turns without memory) teaches it to go on alone while the line is down.
Source of the mask and of the two-part loss: arXiv 2410.03804 and its authors' training code.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from drafter.config import FLOAT, DrafterConfig
from drafter.model import NEVER, DraftModel, Exit, MemoryEncoder, load_draft_model
from drafter.training.answers import Conversation
from drafter.training.loop import Schedule, fit, means
from drafter.training.losses import Divergence, Losses, agrees, distances
from drafter.training.target import Features, borrow, copy_layers
from drafter.training.teacher import Recording, Teacher

OVERLAP = 3
"""Tokens before the anchor that a self-attention sees which sees little."""
LOCAL = 0.5
"""`Recipe.local` with random weights."""
DEPTHS = 8
"""Draft steps whose accuracy is logged."""
CHECKED, CHECKED_STEP = 3, 10**9
"""Batches of unseen answers that a drafter is checked on, and the number of the first: training never gets so far."""


@dataclass(frozen=True)
class Recipe(Schedule):
    """What can be varied in training; every field is a row of the ablation table or a fact of the machine."""

    rows: int = 16
    row: int = 256
    """Tokens a row; what a conversation has beyond them is cut."""
    loss: Divergence = "kl"
    """Distance from the target's distribution."""
    feature_weight: float = 1.0
    """Weight of the SmoothL1 feature loss beside it."""
    gaps: tuple[int, int] = (5, 11)
    """Anchors lie this many tokens apart, uniformly."""
    tail: float = 0.12
    """Share of conversations whose gaps are 12 .. 256 tokens, log-uniformly."""
    blank: float = 0.1
    """Share of conversations whose last turn, question included, is drafted without memory of it."""
    local: float | None = None
    """Share of the steps over which conversations whose self-attention sees little before the anchor fade out: one that
    begins with random weights and sees all tokens at once learns to do without memory. None: `for_start` chooses."""
    discount: float = 0.9
    """A query's loss weighs this to the power of its staleness - 1: it counts only if the earlier ones held."""

    def for_start(self, config: DrafterConfig, trained: bool = False) -> Recipe:
        """This recipe with `local` chosen by what the drafter's weights begin as, unless it was given.

        `trained`: an older drafter's.
        """
        chosen = 0.0 if config.from_target or trained else LOCAL
        return replace(self, local=chosen) if self.local is None else self


@dataclass
class Batch:
    """`(rows, row)` arrays; `segments` are conversation numbers within a row, 0 is padding."""

    ids: Tensor
    positions: Tensor
    segments: Tensor
    learn: Tensor
    """bool: the target's next-token distribution *after* this token is learnt."""
    start: Tensor
    """Index within the row of the newest token whose memory this query sees; before its segment: none."""
    near: Tensor
    """Index of the first token that the self-attention sees."""
    source: Tensor
    """Where the token stands in all training data, conversation after conversation; 0 for padding."""

    @property
    def causal(self) -> Tensor:
        """(rows, row, row) bool: a token sees its own conversation up to itself."""
        index = torch.arange(self.ids.shape[1], device=self.ids.device)
        return (self.segments[:, :, None] == self.segments[:, None, :]) & (index[:, None] >= index)

    def to(self, device: torch.device | str) -> Batch:
        return Batch(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


def anchors(
    length: int, learn: Sequence[tuple[int, int]], opening: int, recipe: Recipe, rng: np.random.Generator
) -> np.ndarray:
    """For each token the index of the newest one whose memory it sees, -1 for none; always before the token itself.

    `opening` is the length of what all conversations begin with: its memory is there even for one begun offline.
    """
    anchored = np.ones(length, bool)
    for begin, end in learn:
        draw = rng.random()
        if draw < recipe.tail:
            gap = int(np.exp(rng.uniform(np.log(12), np.log(256))))
        else:
            gap = int(rng.integers(recipe.gaps[0], recipe.gaps[1] + 1))
        anchored[begin:end] = (np.arange(end - begin) + int(rng.integers(gap))) % gap == 0
    if rng.random() < recipe.blank:
        anchored[learn[-2][1] if len(learn) > 1 else opening :] = False
    newest = np.maximum.accumulate(np.where(anchored, np.arange(length), -1))
    return np.concatenate(([-1], newest[:-1]))


def batches(
    data: list[Conversation], recipe: Recipe, first: int = 0, stride: int = 1, *, before: int = 0
) -> Iterator[Batch]:
    """An endless stream of packed batches, each a function of its number: first, first + stride, ...

    So a killed run skips what it has seen, and processes that train together learn from different ones. `before` is
    the number of tokens that lie before these data in all training data.
    """
    step, opening = first, len(os.path.commonprefix([sample.ids for sample in data[:200]]))
    fade = (recipe.local or 0.0) * recipe.steps
    offsets = np.cumsum([before, *(len(sample.ids) for sample in data)])
    while True:
        rng = np.random.default_rng([recipe.seed, step])
        shape = (recipe.rows, recipe.row)
        ids, positions, segments, source, near = (np.zeros(shape, np.int64) for _ in range(5))
        learn, start = np.zeros(shape, bool), np.zeros(shape, np.int64)
        used, count, misses = [0] * recipe.rows, [0] * recipe.rows, 0
        while misses < 4:
            number = int(rng.integers(len(data)))
            sample = data[number]
            length = min(len(sample.ids), recipe.row)
            fitting = [row for row in range(recipe.rows) if used[row] + length <= recipe.row]
            if not fitting:
                misses += 1
                continue
            row = max(fitting, key=lambda r: used[r])
            at, used[row], count[row] = used[row], used[row] + length, count[row] + 1
            span = slice(at, at + length)
            ids[row, span], positions[row, span] = sample.ids[:length], np.arange(length)
            segments[row, span], source[row, span] = count[row], offsets[number] + np.arange(length)
            start[row, span] = anchors(len(sample.ids), sample.learn, opening, recipe, rng)[:length] + at
            if rng.random() * fade < fade - step // stride:
                near[row, span] = np.maximum(start[row, span] - OVERLAP, 0)
            for begin, end in sample.learn:
                learn[row, at + begin - 1 : min(at + end - 1, at + length)] = True
        yield Batch(*(torch.from_numpy(array) for array in (ids, positions, segments, learn, start, near, source)))
        step += stride


class Distiller(nn.Module):
    """Both halves of the drafter, trained together against one target."""

    def __init__(self, config: DrafterConfig, target: PreTrainedModel) -> None:
        super().__init__()
        self.config = config
        self.encoder = MemoryEncoder(config)
        self.draft = DraftModel(config)
        borrow(self.draft, target)
        self.spread: Tensor
        self.register_buffer("spread", torch.ones(config.hidden))
        """Of the target's hidden states where the drafter leaves off, by dimension."""
        if not config.cross_attention:
            self.encoder.requires_grad_(False)

    def forward(self, batch: Batch, seen: Features, recipe: Recipe) -> Losses:
        """Losses of one batch, given what the target computed for it."""
        rows, length = batch.ids.shape
        index = torch.arange(length, device=batch.ids.device)
        causal = batch.causal
        remembered = causal & (index[None, None, :] <= batch.start[:, :, None])

        memory = [
            tuple(side.unflatten(0, (rows, length)).transpose(1, 2) for side in pair)
            for pair in self.encoder(
                seen.keys_values.flatten(0, 1),
                batch.positions.flatten(),
            )
        ]
        draft = self.draft
        x = draft.embedding(batch.ids) if seen.start is None else seen.start.float()  # A recording's is bfloat16.
        near = additive(causal & (index[None, None, :] >= batch.near[:, :, None]))
        for layer in draft.self_attention:
            x = layer.finish(x, *layer.project(x, batch.positions), near)  # type: ignore[operator]
        x = draft.exit(draft.cross_attention(x, batch.positions, memory[0], additive(remembered)))
        guessed_entry = x
        # A query sees the target's own rows up to its anchor, and rows made from the drafter's guesses after it.
        both = additive(torch.cat((remembered, causal & ~remembered), dim=-1))
        for layer, (true_keys, true_values) in zip(draft.target_layers, memory[1:]):
            query, key, value = layer.project(x, batch.positions)  # type: ignore[operator]
            keys, values = torch.cat((true_keys, key), dim=-2), torch.cat((true_values, value), dim=-2)
            x = layer.finish(x, query, keys, values, both)  # type: ignore[operator]
        hidden = draft.norm(x)

        learn = batch.learn
        staleness = (index[None, :] - batch.start)[learn]
        weight = recipe.discount ** (staleness - 1).clamp(max=DEPTHS).to(hidden.dtype)
        with torch.no_grad():
            wanted = torch.log_softmax(draft.head(seen.last[learn]).float(), dim=-1)
        guessed = torch.log_softmax(draft.head(hidden[learn]).float(), dim=-1)
        away, kl = distances(wanted, guessed, recipe.loss)
        ends = hidden[learn].float(), seen.last[learn].float()
        distance = nn.functional.smooth_l1_loss(*ends, reduction="none").mean(-1)
        if self.config.inference_layers:
            entries = (guessed_entry[learn].float() / self.spread, seen.entry[learn].float() / self.spread)
            distance = (distance + nn.functional.smooth_l1_loss(*entries, reduction="none").mean(-1)) / 2
        total = ((away + recipe.feature_weight * distance) * weight).sum() / weight.sum()
        right = agrees(wanted, guessed)
        by_depth = [
            right[staleness == s].mean().item() if (staleness == s).any() else 0.0 for s in range(1, DEPTHS + 1)
        ]
        return Losses(total, kl.mean().item(), by_depth, right.mean().item())


def additive(mask: Tensor) -> Tensor:
    """A bool mask (..., M, P) as an additive one over heads (..., 1, M, P)."""
    return torch.where(mask, 0.0, NEVER).unsqueeze(-3)


def train(
    config: DrafterConfig,
    target: PreTrainedModel,
    data: list[Conversation],
    out: Path,
    recipe: Recipe,
    device: str = "cpu",
    init: Path | None = None,
    recording: Recording | None = None,
) -> Distiller:
    """Train for `recipe.steps` and return the model, whose config counts them and their seconds on top of its own.

    A checkpoint in `out` is resumed from.

    `init`, a drafter's folder, gives the weights to begin with: an older drafter's, for a target that has learnt on.
    `recording`, of this target and these data, stands in for the target's forwards.
    """
    torch.manual_seed(recipe.seed)
    recipe = recipe.for_start(config, trained=init is not None)
    target = target.to(device).eval().requires_grad_(False)
    model = Distiller(config, target).to(device)
    if init is not None:
        model.encoder.load_state_dict(MemoryEncoder.load(init).state_dict())
        model.draft.load_state_dict(load_draft_model(init, init / FLOAT).state_dict())
        borrow(model.draft, target)
    elif config.from_target:
        copy_layers(model.draft, target)

    teacher = recording or Teacher(target)

    with torch.autocast(device.split(":")[0], torch.bfloat16):
        first = next(batches(data, recipe)).to(device)
        entry = teacher.features(first, config).entry[first.segments > 0].float()
    model.spread.copy_(entry.std(dim=0).clamp(min=1e-6))
    if init is None and isinstance(model.draft.exit, Exit):
        model.draft.exit.fit(entry)

    def losses(batch: Batch) -> Losses:
        batch = batch.to(device)
        return model(batch, teacher.features(batch, config), recipe)  # type: ignore[no-any-return]

    learnt, unseen = split(data)
    near, alone = (unseen_batches(learnt, unseen, replace(recipe, tail=0.0, blank=blank)) for blank in (0.0, 1.0))

    def check() -> dict[str, object]:
        """What it reaches on answers that it does not learn from: near to memory, and without any."""
        here, away = ([losses(batch) for batch in some] for some in (near, alone))
        return {**means(here), "alone": round(float(np.mean([one.overall for one in away])), 3)}

    stream = partial(batches, learnt, recipe)
    seconds = fit(model, stream, losses, out, recipe, device, check if unseen else None)
    taken = {"steps": config.steps + recipe.steps, "seconds": round(config.seconds + seconds, 1)}
    model.config = msgspec.structs.replace(config, **taken)
    return model


def split(data: list[Conversation]) -> tuple[list[Conversation], list[Conversation]]:
    """What is learnt from, and the last fiftieth, on which it is checked; none of fewer than 100."""
    unseen = len(data) // 50 if len(data) >= 100 else 0
    return data[: len(data) - unseen], data[len(data) - unseen :]


def unseen_batches(learnt: list[Conversation], unseen: list[Conversation], recipe: Recipe) -> list[Batch]:
    """The same few batches each time."""
    before = sum(len(sample.ids) for sample in learnt)
    return list(itertools.islice(batches(unseen, recipe, CHECKED_STEP, before=before), CHECKED)) if unseen else []
