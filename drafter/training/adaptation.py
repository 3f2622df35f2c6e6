"""Trains a drafter's own attention layers on the checked answers of its user (arXiv 2310.07177).

The self-attention and the cross-attention are trained. The target's own parts stay unchanged, and so does the memory
encoder, which runs at the verifier, so stored and arriving memory stays valid. The training goal is what the target
might have said, as far as that is known, and otherwise the token that it chose. One forward pass trains every draft
step of an answer: a query sees the memory that had arrived when its token was drafted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from drafter.learning.comparison import Hits
from drafter.learning.distributions import MOST, NOTHING, Distributions, Ids
from drafter.learning.samples import Chunk, Round
from drafter.model import DraftModel
from drafter.training.batches import additive
from drafter.training.graph_weights import matrices_in_blocks, read_weights, round_weights, write_weights
from models.config import DrafterConfig, DrafterCorrupt, DrafterError
from models.cores import draft_threads
from models.memory import dequantise

LEARNT = ("self_attention.", "cross_attention.")
EMPTY_ROWS = ("cross_attention.null_key", "cross_attention.null_value")
"""Constants of a graph, which are not trained."""
LEAST = 1e-6
"""The least probability of all other tokens, so that its logarithm stays finite."""


@dataclass(frozen=True)
class Labels:
    """The weights of what the target might have said."""

    branches: float = 1.0
    """The weight of what it might have said after a rejected token. With 0, such tokens are not run."""
    few: int = 256
    """Number of answers from which on rejected tokens are not run. They take 2.6 times the processor time. With 128
    answers they gained 7 % tokens per round; with 410, nothing (2.95 and 2.96)."""


DEFAULT = Labels()


@dataclass(frozen=True)
class Pace:
    """The training schedule."""

    rows: int = 8
    """Answers in a step."""
    epochs: int = 5
    """Passes through the answers."""
    steps: int = 180
    """The fewest steps. With few answers there are more passes: 128 answers gain 7.6 % with 65 steps, 12.4 % with
    208."""
    rate: float = 1e-3
    """Largest step size of AdamW; it falls to zero over the last two thirds."""
    warmup: int = 10
    """Steps until the rate is reached."""


@dataclass(frozen=True)
class Replayed:
    """An answer, with what the drafter knew when it drafted it."""

    tokens: Sequence[int]
    """The token ids of the conversation, to the end of the answer."""
    rounds: Sequence[Round]
    read: Callable[[], Sequence[Chunk]]
    """Reads the chunks of memory, which are too large to hold those of all answers at once."""
    target: Distributions = NOTHING
    """What the target might have said at tokens of the answer, and after rejected ones."""


def adapt(
    graph: Path,
    config: DrafterConfig,
    newer: Sequence[Replayed],
    older: Sequence[Replayed],
    judged: Sequence[Replayed],
    out: Path,
    pace: Pace = Pace(),
    seed: int = 0,
    labels: Labels = DEFAULT,
    progress: Callable[[int, int], None] = lambda done, of: None,
    halted: Callable[[], bool] = lambda: False,
) -> bool:
    """Write a copy of `graph` to `out` that guesses more of the `judged` answers right, or return False.

    If there are `older` answers, which were learnt from before, they make up half of each step. `progress` receives how
    many steps of how many are done; `halted` is checked before each step, and once it holds, nothing is written. Raises
    `DrafterCorrupt`.
    """
    if not newer or not judged:
        return False
    if len(newer) + len(older) >= labels.few:
        labels = replace(labels, branches=0.0)
    torch.set_num_threads(draft_threads())  # One core stays free for the chat.
    model = _Adapted(graph, config)
    best, most = None, model.right(judged)
    steps = -(-len(newer) // (pace.rows if not older else -(-pace.rows // 2)))
    epochs = max(pace.epochs, -(-pace.steps // steps))
    total = steps * epochs
    learner = torch.optim.AdamW(model.learnt, lr=pace.rate, weight_decay=0.01)
    random = np.random.default_rng(seed)
    for epoch in range(epochs):
        for at, answers in enumerate(_batches(newer, older, pace.rows, random), start=epoch * steps):
            if halted():
                return False
            for group in learner.param_groups:
                group["lr"] = pace.rate * min(1.0, (at + 1) / pace.warmup, (total - at) / (total * 2 / 3))
            loss = model.loss(answers, labels)
            if loss is not None:
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(model.learnt, 1.0)
                learner.step()
                learner.zero_grad()
            progress(at + 1, total)
        if (right := model.right(judged)) > most:
            best, most = model.state(), right
    if best is None:
        return False
    write_weights(graph, out, best)
    return True


def _batches(
    newer: Sequence[Replayed], older: Sequence[Replayed], rows: int, random: np.random.Generator
) -> Iterator[list[Replayed]]:
    """Every newer answer once, in random order; half of a batch is drawn from the older ones, if there are any."""
    order, fresh = random.permutation(len(newer)), rows if not older else -(-rows // 2)
    for begin in range(0, len(order), fresh):
        batch = [newer[at] for at in order[begin : begin + fresh]]
        if older:
            batch += [older[at] for at in random.integers(len(older), size=rows - fresh)]
        yield batch


class _Adapted:
    """A graph's weights as a trainable model."""

    def __init__(self, graph: Path, config: DrafterConfig) -> None:
        self._config = config
        self._model = DraftModel(config)
        weights = {name: torch.from_numpy(weight) for name, weight in read_weights(graph, config).items()}
        self._head = weights.pop("head.weight")
        del self._model.head
        wanted = self._model.state_dict()
        # Whole blocks of inputs are stored, so the last one may be longer than the matrix is wide.
        fitted = {name: one[..., : wanted[name].shape[-1]] for name, one in weights.items() if name in wanted}
        if set(fitted) != set(wanted):
            # Traced graphs keep equal weights once, so it is unknown where they belong.
            raise DrafterError(f"the layers of {graph} share weights, so it cannot be learnt deeply")
        try:
            self._model.load_state_dict(fitted)
        except RuntimeError as error:
            raise DrafterCorrupt(f"{graph} is not the graph that its config describes ({error}).") from None
        order = list(config.draft_vocabulary) or list(range(config.vocabulary))
        self._head = self._head[:, : config.hidden]
        self._places = torch.full((config.vocabulary + 1,), -1)  # The last entry is for non-tokens.
        self._places[order] = torch.arange(len(order))
        self._model.eval().requires_grad_(False)
        renamed = round_weights(self._model, {name for name in matrices_in_blocks(graph) if name.startswith(LEARNT)})
        self._learnt = {
            renamed.get(name, name): parameter.requires_grad_()
            for name, parameter in self._model.named_parameters()
            if name.startswith(LEARNT) and name not in EMPTY_ROWS
        }

    @property
    def learnt(self) -> list[Tensor]:
        """The trained parameters."""
        return list(self._learnt.values())

    def state(self) -> dict[str, np.ndarray]:
        """The weights learnt so far, by name, before rounding."""
        return {name: weight.detach().numpy().copy() for name, weight in self._learnt.items()}

    def loss(self, answers: Sequence[Replayed], labels: Labels) -> Tensor | None:
        """Mean loss of the tokens with known labels, or None if there are none."""
        batch = _Padded.of(answers, self._config, branches=labels.branches > 0)
        log_probs, chosen = self._run(batch)
        said = self._places[batch.said]
        known = (chosen >= 0) | (batch.chances * (said >= 0) > 0).any(dim=-1)
        if not known.any():
            return None
        weight = torch.where(batch.branch[batch.asked], labels.branches, 1.0)[known]
        each = label_losses(log_probs[known], chosen[known], said[known], batch.chances[known])
        return (weight * each).sum() / weight.sum()

    @torch.no_grad()
    def right(self, answers: Sequence[Replayed]) -> float:
        """Share of these answers' tokens that it guesses right."""
        hits: list[Hits] = []
        for begin in range(0, len(answers), 8):
            log_probs, chosen = self._run(_Padded.of(answers[begin : begin + 8], self._config))
            hits.append((log_probs.argmax(dim=-1) == chosen).numpy())
        return float(np.concatenate(hits).mean())

    def _run(self, batch: _Padded) -> tuple[Tensor, Tensor]:
        """Log-probabilities (n, V) at the answers' tokens, and the target's choices there (n,), -1: not draftable."""
        draft, positions, causal = self._model, batch.positions, batch.seen
        index = torch.arange(batch.ids.shape[1])
        remembered = causal & (index <= batch.start[:, :, None])
        x, seen = draft.embedding(batch.ids), additive(causal)
        for layer in (*draft.first_layers, *draft.self_attention):
            x = layer.finish(x, *layer.project(x, positions), seen)
        x = draft.exit(draft.cross_attention(x, positions, batch.memory[0], additive(remembered)))
        both = additive(torch.cat((remembered, causal & ~remembered), dim=-1))
        for layer, (true_keys, true_values) in zip(draft.target_layers, batch.memory[1:]):
            query, key, value = layer.project(x, positions)  # type: ignore[operator]
            keys, values = torch.cat((true_keys, key), dim=-2), torch.cat((true_values, value), dim=-2)
            x = layer.finish(x, query, keys, values, both)  # type: ignore[operator]
        logits = nn.functional.linear(draft.norm(x)[batch.asked], self._head)
        return torch.log_softmax(logits, dim=-1), self._places[batch.next[batch.asked]]


@dataclass(frozen=True)
class _Padded:
    """A batch of B answers with at most M rows each. Rejected tokens follow the text."""

    ids: Tensor
    """(B, M)"""
    next: Tensor
    """(B, M): the token after each, or -1 after a rejected token, where none was chosen."""
    positions: Tensor
    """(B, M)"""
    seen: Tensor
    """(B, M, M) bool: the text before it, and itself."""
    start: Tensor
    """(B, M): the newest token whose memory this query sees, or -1."""
    asked: Tensor
    """(B, M) bool: whether anything is known of what the target says next."""
    branch: Tensor
    """(B, M) bool: whether it was rejected."""
    said: Tensor
    """(n, 8): at each of the n that are asked, tokens that the target might have said; -1: none."""
    chances: Tensor
    """(n, 8): their probabilities."""
    memory: list[tuple[Tensor, Tensor]]
    """Keys and values of each memory layer, (B, heads, M, size)."""

    @classmethod
    def of(cls, answers: Sequence[Replayed], config: DrafterConfig, *, branches: bool = False) -> _Padded:
        """`branches`: also run the rejected tokens for which it is known what the target would have said after them."""
        text = max(len(one.tokens) for one in answers) - 1
        targets = [one.target.within(one.rounds[0].length, len(one.tokens)) for one in answers]
        rejected = [one.branches if branches else NOTHING for one in targets]
        rows, width = len(answers), text + max(len(one) for one in rejected)
        ids, following = torch.zeros(rows, width, dtype=torch.long), torch.full((rows, width), -1)
        start = torch.full((rows, width), -1)
        asked, branch = (torch.zeros(rows, width, dtype=torch.bool) for _ in range(2))
        positions, index = torch.arange(width).repeat(rows, 1), torch.arange(width)
        seen = (index[:, None] >= index).repeat(rows, 1, 1)
        said = torch.full((rows, width, MOST), -1)
        chances = torch.zeros(rows, width, MOST)
        memory = [
            (torch.zeros(rows, heads, width, size), torch.zeros(rows, heads, width, size))
            for heads, size in config.memory_layers
        ]
        for row, one in enumerate(answers):
            count = len(one.tokens) - 1
            ids[row, :count] = torch.tensor(one.tokens[:-1])
            following[row, :count] = torch.tensor(one.tokens[1:])
            first = one.rounds[0].length - 1
            asked[row, first:count] = True
            start[row, :first] = one.rounds[0].memory - 1
            ends = [later.length - 1 for later in one.rounds[1:]] + [count]
            for draft, end in zip(one.rounds, ends):
                start[row, draft.length - 1 : end] = draft.memory - 1
            start[row] = torch.minimum(start[row], torch.arange(width) - 1)
            known = targets[row].text
            _put(said[row], chances[row], known.positions - 1, known, config)
            # A rejected token has the position of the chosen one, and was drafted with what was known before that.
            known = rejected[row]
            places, behind = torch.from_numpy(known.positions - 1), torch.arange(text, text + len(known))
            _put(said[row], chances[row], behind.numpy(), known, config)
            ids[row, behind], positions[row, behind] = torch.from_numpy(known.instead), places
            start[row, behind] = start[row, places - 1]
            asked[row, behind] = branch[row, behind] = True
            seen[row, behind] = (index < places[:, None]) | (index == behind[:, None])
            for begin, layers in one.read():
                for (keys, values), stored in zip(memory, layers, strict=True):
                    room = max(0, min(len(stored[0]), count - begin))
                    for whole, numbers, scales in ((keys, *stored[:2]), (values, *stored[2:])):
                        floats = torch.from_numpy(dequantise(numbers[:room], scales[:room]))
                        whole[row, :, begin : begin + room] = floats.transpose(0, 1)
        return cls(ids, following, positions, seen, start, asked, branch, said[asked], chances[asked], memory)


def _put(said: Tensor, chances: Tensor, rows: Ids, known: Distributions, config: DrafterConfig) -> None:
    """Write what the target might have said into these rows."""
    is_token = (known.tokens >= 0) & (known.tokens < config.vocabulary)
    said[rows] = torch.from_numpy(np.where(is_token, known.tokens, -1))
    chances[rows] = torch.from_numpy(np.where(is_token, np.exp(known.log_probs), 0).astype(np.float32))


def label_losses(log_probs: Tensor, chosen: Tensor, said: Tensor, chances: Tensor) -> Tensor:
    """The loss at each row: (n,), for the drafter's log-probabilities (n, V).

    `chosen` (n,): the target's choices, -1: one that cannot be drafted, or none. `said`, `chances` (n, 8): what it
    might have said, in the places of V, -1: none; all chances 0: not known. A row of which nothing is known is 0.

    The divergence is taken over the listed tokens and all others together (online speculative decoding, arXiv
    2310.07177). Tokens that the drafter cannot draft count among the others.
    """
    can, known = chosen >= 0, (chances > 0).any(dim=-1)
    choice = -log_probs.gather(-1, chosen.clamp(min=0)[:, None])[:, 0]
    listed = chances * (said >= 0)
    guessed = log_probs.gather(-1, said.clamp(min=0))
    others = (1 - (guessed.exp() * (said >= 0)).sum(dim=-1)).clamp(min=LEAST).log()
    spread = -(listed * guessed).sum(dim=-1) - (1 - listed.sum(dim=-1)).clamp(min=0) * others
    return torch.where(known, spread, choice * can)
