"""Teaches a newborn drafter what its target says, from conversations that the target has with itself.

A newborn drafter is its target without the layers between, and after most targets it guesses nothing right. So the
target talks (`self_talk.py`), and the drafter's own two layers learn (`distil.py`). Memory stays the target's own keys
and values, so what the target computed is kept for its newest conversations, and each of them is learnt from several
times. All of it is resumed after a kill from the last checkpoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from drafter.model import MemoryEncoder
from drafter.training.batches import AnsweredConversation, Batch, batches
from drafter.training.distil import Distiller
from drafter.training.precision import autocast, bfloat16_is_quick
from drafter.training.recipe import Recipe
from drafter.training.self_talk import SelfTalk
from drafter.training.target import Features, features
from models.config import DrafterConfig

RECIPE = Recipe(rows=1, row=512, rate=2e-3, warmup=20, gaps=(3, 8), local=0.0)
STOCK_BYTES = 512 << 20
"""Most bytes of what is kept of the target's computations."""
TALK = 0.5
"""Share of the time in which the target talks."""
AVERAGED = 0.995
"""The weights in use are a moving average: each step counts this much less than the next one."""


class Stock:
    """What a target computed for its newest conversations, in half precision."""

    def __init__(self, config: DrafterConfig, size: int = STOCK_BYTES) -> None:
        """`size`: bytes."""
        self._config = config
        layers, width = 1 + config.inference_layers, 2 * config.target_kv_heads * config.target_head_size
        states = 1 + bool(config.first_layers) + bool(config.inference_layers)
        room = max(1024, size // (2 * (layers * width + states * config.hidden)))
        self._ids = torch.zeros(room, dtype=torch.long)
        self._keys_values = torch.zeros(room, layers, width, dtype=torch.bfloat16)
        self._states = torch.zeros(room, states, config.hidden, dtype=torch.bfloat16)
        self._end = 0
        self.conversations: list[AnsweredConversation] = []
        """Oldest first. Instead of a token, `ids` has its place in the stock."""

    def add(self, model: PreTrainedModel, said: AnsweredConversation) -> None:
        """Compute and keep a conversation in place of the oldest ones."""
        config, count = self._config, len(said.ids)
        positions = torch.arange(count)
        seen = features(
            model, torch.tensor([said.ids]), positions[None], (positions[:, None] >= positions)[None, None], config
        )
        begin = self._end if self._end + count <= len(self._ids) else 0
        self._end = begin + count
        kept = (one for one in self.conversations if one.ids[-1] < begin or one.ids[0] >= self._end)
        self.conversations = [*kept, AnsweredConversation([*range(begin, self._end)], said.learn)]
        place = slice(begin, self._end)
        self._ids[place] = torch.tensor(said.ids)
        self._keys_values[place] = seen.keys_values[0, :, config.replaced :].bfloat16()
        entry = [seen.entry] if config.inference_layers else []
        start = [] if seen.start is None else [seen.start]
        self._states[place] = torch.stack([seen.last, *entry, *start], dim=2)[0].bfloat16()

    def said(self) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """The tokens of all conversations, and what is learnt of each."""
        return [(self._ids[one.ids].tolist(), one.learn) for one in self.conversations]

    def batch(self, drawn: Batch) -> tuple[Batch, Features]:
        """The tokens of a batch of places, and what the target computed for them."""
        states = self._states[drawn.ids].float().unbind(dim=2)
        entry = states[1] if self._config.inference_layers else states[0]
        start = states[-1] if self._config.first_layers else None
        seen = Features(self._keys_values[drawn.ids].float(), entry, states[0], start)
        return replace(drawn, ids=self._ids[drawn.ids]), seen

    def spread(self) -> Tensor:
        """The spread of the hidden states at the entry of the target's last layers, by dimension."""
        places = torch.tensor([place for one in self.conversations for place in one.ids])
        state = self._states[places, 1 if self._config.inference_layers else 0].float()
        return state.std(dim=0).clamp(min=1e-6)


class Growth:
    """A drafter that learns from its target's talk."""

    def __init__(self, model: Distiller, target: PreTrainedModel, talk: SelfTalk, checkpoint: Path) -> None:
        """`model` is untrained. A checkpoint is resumed if there is one, unless it is damaged."""
        self._model, self._target, self._talk, self._checkpoint = model, target, talk, checkpoint
        config, quick = model.config, torch.bfloat16 if bfloat16_is_quick() else torch.float32
        target.to(quick)
        # Only the layers that memory is made of are kept, and nothing is added to them.
        plain = MemoryEncoder(msgspec.structs.replace(config, target_layers=1 + config.inference_layers))
        self._encoder, model.encoder = model.encoder.requires_grad_(False), plain.requires_grad_(False)
        model.draft.requires_grad_(True).freeze()
        self._head = model.draft.head
        model.draft.head = nn.Linear(config.hidden, 1, bias=False)
        kept = self._head.weight[list(config.draft_vocabulary) or slice(None)].detach()
        model.draft.head.weight = nn.Parameter(kept.to(quick), requires_grad=False)
        self._learnt = [weight for weight in model.parameters() if weight.requires_grad]
        self._mean = [weight.detach().clone() for weight in self._learnt]
        # Muon gains more in a step, but with so few tokens in one, its steps take four times as long.
        self._learner = torch.optim.AdamW(self._learnt, lr=RECIPE.rate, betas=(0.9, 0.95), weight_decay=0.0)
        self._stock, self._talks, self._steps = Stock(config), 0, 0
        self.seconds, self._talked = 0.0, 0.0
        if (state := _loaded(checkpoint)) is not None:
            self._resume(state)

    def go_on(self, seconds: float) -> None:
        """Talk and learn for this much processor time, and save it."""
        ends, stream = self.seconds + seconds, self._drawn()
        while self.seconds < ends:
            begun = time.process_time()
            if talks := self._talked <= TALK * self.seconds:
                self._listen(self._talk.some(self._talks))
                self._talks, stream = self._talks + 1, self._drawn()
            else:
                self._learn(*self._stock.batch(next(stream)))
            spent = time.process_time() - begun
            self.seconds += spent
            self._talked += spent * talks
        self._save()

    @contextmanager
    def grown(self) -> Iterator[Distiller]:
        """The drafter as it is now, complete, while the block runs."""
        model, within = self._model, (self._model.encoder, self._model.draft.head)
        model.encoder, model.draft.head = self._encoder, self._head
        model.config = msgspec.structs.replace(model.config, steps=self._steps, seconds=round(self.seconds, 1))
        self._swap()
        try:
            yield model.eval()
        finally:
            self._swap()
            model.encoder, model.draft.head = within

    @torch.no_grad()
    def _swap(self) -> None:
        for weight, mean in zip(self._learnt, self._mean):
            weight.data, mean.data = mean.data, weight.data

    def _drawn(self) -> Iterator[Batch]:
        return batches(self._stock.conversations, RECIPE, self._steps)

    def _listen(self, said: Sequence[AnsweredConversation]) -> None:
        for one in said:
            self._stock.add(self._target, one)
        self._model.spread.copy_(self._stock.spread())

    def _learn(self, batch: Batch, seen: Features) -> None:
        for group in self._learner.param_groups:
            group["lr"] = RECIPE.rate * min(1.0, (self._steps + 1) / RECIPE.warmup)
        with autocast("cpu"):
            loss = self._model(batch, seen, RECIPE).total
        loss.backward()
        nn.utils.clip_grad_norm_(self._learnt, 1.0)
        self._learner.step()
        self._learner.zero_grad()
        self._steps += 1
        with torch.no_grad():
            for weight, mean in zip(self._learnt, self._mean):
                mean.lerp_(weight, max(1 - AVERAGED, 1 / self._steps))

    def _save(self) -> None:
        state = {
            "encoder": self._encoder.state_dict(),
            "learnt": self._learnt,
            "mean": self._mean,
            "learner": self._learner.state_dict(),
            "said": self._stock.said(),
            "counts": (self._talks, self._steps, self.seconds, self._talked),
        }
        partial = self._checkpoint.with_suffix(".partial")
        with partial.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, self._checkpoint)

    @torch.no_grad()
    def _resume(self, state: dict[str, Any]) -> None:
        self._encoder.load_state_dict(state["encoder"])
        for name, mine in (("learnt", self._learnt), ("mean", self._mean)):
            for weight, saved in zip(mine, state[name], strict=True):
                weight.copy_(saved)
        self._learner.load_state_dict(state["learner"])
        self._talks, self._steps, self.seconds, self._talked = state["counts"]
        self._listen([AnsweredConversation(ids, learn) for ids, learn in state["said"]])


def _loaded(checkpoint: Path) -> dict[str, Any] | None:
    """What was saved, or None if nothing was or it is damaged."""
    if not checkpoint.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(checkpoint, weights_only=True)
    except Exception:  # A damaged file makes PyTorch raise errors of many kinds.
        return None
    return state
