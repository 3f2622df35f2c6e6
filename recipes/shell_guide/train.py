"""Train the Shell Guide target from a pretrained base, on conversations that were drawn. It can be resumed.

    python -m recipes.shell_guide.train --base runs/base --drawn runs/drawn --out runs/target

The model learns through the quantiser of its graph (`recipes/shell_guide/quantiser.py`). Only answers count for the
loss. Conversations of about the same length are the rows of a batch, padded at their ends, so plain causal attention is
right. The gradients of `--batches` batches make a step of AdamW. The learning rate rises over the first 3 % of the
steps, is constant, and falls linearly to zero over the last `--decay` share.

Several processes learn together when `torchrun` starts them, each from `--batches` batches of its own. On a CPU, one
process for each core is the quickest way: `OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 -m recipes.shell_guide.train`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from drafter.progress import stage
from drafter.training.processes import average_gradients, processes
from recipes.shell_guide.drawn import Drawn, read_drawn
from recipes.shell_guide.quantiser import quantise

ROUND = 32
"""Lengths of rows are multiples of this, so that there are few shapes."""
POOL = 64
"""Batches whose conversations are sorted by length together."""
WARMUP = 0.03
LOGGED, SAVED = 30.0, 300.0
"""Seconds between log lines, and between checkpoints."""


@dataclass(frozen=True)
class Batch:
    """Rows of one conversation each, (rows, tokens), with padding at their ends."""

    ids: Tensor
    learn: Tensor
    """bool: whether the loss counts the prediction of this token."""

    def to(self, device: torch.device) -> Batch:
        return Batch(self.ids.to(device), self.learn.to(device))


def batch_numbers(drawn: Drawn, tokens: int, longest: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Endless numbers of the conversations of each batch, which has at most `tokens` tokens, padding included.

    Every conversation is drawn once before any is drawn again.
    """
    lengths = np.minimum(np.diff(drawn.ends, prepend=0), longest)
    widths = -(-lengths // ROUND) * ROUND
    together = POOL * max(1, int(tokens / widths.mean()))
    for turn in itertools.count():
        rng = np.random.default_rng([seed, turn])
        order = rng.permutation(len(lengths))
        batches: list[NDArray[np.int64]] = []
        for begin in range(0, len(order), together):
            pool = order[begin : begin + together]
            pool = pool[np.argsort(widths[pool], kind="stable")]
            at = 0
            while at < len(pool):
                fits = np.arange(1, len(pool) - at + 1) * widths[pool[at:]] <= tokens
                end = at + max(1, int(np.argmin(fits)) if not fits.all() else len(fits))
                batches.append(pool[at:end])
                at = end
        yield from (batches[at] for at in rng.permutation(len(batches)))


def batch_of(drawn: Drawn, numbers: NDArray[np.int64], longest: int, padding: int) -> Batch:
    """These conversations as the rows of a batch. Those of more than `longest` tokens are cut."""
    read = [tuple(part[:longest] for part in drawn.conversation(int(number))) for number in numbers]
    width = -(-max(len(ids) for ids, _ in read) // ROUND) * ROUND
    ids = np.full((len(read), width), padding, np.int64)
    learn = np.zeros((len(read), width), bool)
    for row, (tokens, counts) in enumerate(read):
        ids[row, : len(tokens)], learn[row, : len(tokens)] = tokens, counts
    return Batch(torch.from_numpy(ids), torch.from_numpy(learn))


def summed_loss(model: PreTrainedModel, batch: Batch) -> Tensor:
    """The sum of the cross-entropy of the answers' tokens."""
    hidden = model.base_model(input_ids=batch.ids, use_cache=False).last_hidden_state
    # The head runs only where an answer's token is predicted.
    learn = batch.learn[:, 1:]
    logits = model.get_output_embeddings()(hidden[:, :-1][learn])
    return torch.nn.functional.cross_entropy(logits.float(), batch.ids[:, 1:][learn], reduction="sum")


def rate_at(step: int, steps: int, decay: float) -> float:
    """The factor of the learning rate."""
    return min(1.0, (step + 1) / max(1.0, WARMUP * steps), (steps - step) / max(1.0, decay * steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, help="what recipes.shell_guide.base wrote")
    parser.add_argument("--drawn", type=Path, required=True, help="what recipes.shell_guide.draw wrote")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint, log and the model go here")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=16_384, help="tokens of a batch")
    parser.add_argument("--batches", type=int, default=4, help="batches of a step")
    parser.add_argument("--longest", type=int, default=1024, help="tokens of a conversation; the rest is cut")
    parser.add_argument("--rate", type=float, default=8e-4)
    parser.add_argument("--decay", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--compile", action="store_true", help="compile the layers, which takes half a minute")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    device = arguments.device
    together = processes(device)

    tokenizer = AutoTokenizer.from_pretrained(arguments.base)
    torch.manual_seed(arguments.seed)
    model = AutoModelForCausalLM.from_pretrained(arguments.base, dtype=torch.float32).to(device).train()
    quantise(model)
    if arguments.compile:
        for layer in model.base_model.layers:
            layer.compile(dynamic=True)
    learner = torch.optim.AdamW(model.parameters(), lr=arguments.rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    checkpoint, start = arguments.out / "checkpoint.pt", 0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        learner.load_state_dict(state["learner"])
        start = state["step"]
    drawn = read_drawn(arguments.drawn)
    numbers = batch_numbers(drawn, arguments.tokens, arguments.longest, arguments.seed)
    each = arguments.batches * together.num_processes
    numbers = itertools.islice(numbers, start * each, None)
    mine = slice(together.process_index * arguments.batches, (together.process_index + 1) * arguments.batches)
    began, seen = time.monotonic(), 0
    logged = saved = began
    first = together.is_main_process
    with (
        stage("training", arguments.steps, start, shown=first) as progress,
        (arguments.out / "log.jsonl").open("a") as log,
    ):
        for step in range(start, arguments.steps):
            for group in learner.param_groups:
                group["lr"] = arguments.rate * rate_at(step, arguments.steps, arguments.decay)
            some = list(itertools.islice(numbers, each))[mine]
            batches = [batch_of(drawn, one, arguments.longest, tokenizer.pad_token_id) for one in some]
            loss = learn(model, batches)
            average_gradients(model.parameters(), together)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            learner.step()
            learner.zero_grad(set_to_none=True)
            seen += sum(batch.ids.numel() for batch in batches) * together.num_processes
            progress.advance()
            now, last = time.monotonic(), step == arguments.steps - 1
            if first and (last or now - logged > LOGGED):
                logged = now
                line = {"step": step, "loss": round(loss, 4), "tokens": seen, "seconds": round(now - began, 1)}
                log.write(json.dumps(line) + "\n")
                log.flush()
                progress.tell(f"loss {line['loss']}", f"{line}, {seen / (now - began):.0f} tokens/s")
            if first and (last or now - saved > SAVED):
                saved = now
                state = {"model": model.state_dict(), "learner": learner.state_dict(), "step": step + 1}
                partial = checkpoint.with_suffix(".partial")
                torch.save(state, partial)
                os.replace(partial, checkpoint)
    if first:
        save(model, tokenizer, arguments.out / "model")


def learn(model: PreTrainedModel, batches: Sequence[Batch]) -> float:
    """Add the gradients of these batches. Returns their mean loss, in nats a token of an answer."""
    device = model.device.type
    count = sum(int(batch.learn[:, 1:].sum()) for batch in batches)
    total = torch.zeros((), device=model.device)
    for batch in batches:
        # A CPU has whole numbers for the products; the rest is quickest in float32.
        with torch.autocast(device, torch.bfloat16, enabled=device != "cpu"):
            loss = summed_loss(model, batch.to(model.device)) / count
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.detach()
    return total.item()


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write the learnt weights in float32, which `recipes.shell_guide.graph` quantises, and the tokenizer."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main()
