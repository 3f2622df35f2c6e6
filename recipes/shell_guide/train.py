"""Train the Shell Guide target. It can be resumed, and runs on a CPU or a GPU.

    python -m recipes.shell_guide.train --pages PAGES.jsonl --index pages.db --tokenizer DIR --out runs/target

Each step reads one row of `--tokens` tokens: conversations one after another, each of which attends to itself alone, so
no token is padding and one shape is compiled once. Only answers count for the loss. Hidden matrices learn with Muon
(Jordan et al. 2024), embeddings and norms with AdamW. The learning rate is constant, then falls linearly to zero over
the last `--decay` share. `OUT/average` has the mean of the weights of the last few hundred steps, weighted
exponentially, which at a constant rate is better than the last weights themselves (`OUT/model`).
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from typing import Protocol

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen3Config,
)  # fmt: skip

from drafter.training.muon import Muon
from drafter.training.precision import autocast
from recipes.shell_guide import segment_attention
from recipes.shell_guide.mixture import Message, Mixture

Batch = dict[str, torch.Tensor]
FAMILIES = {"llama": LlamaConfig, "qwen3": Qwen3Config}
HEAD = 64
"""Size of an attention head."""
AHEAD = 8
"""Batches that are drawn before they are needed."""
AVERAGE = 0.997
"""Decay of the mean of the weights per step: it covers some 330 steps."""


class Source(Protocol):
    """A source of conversations, by number."""

    def read(self, index: int) -> list[Message]:
        """Conversation number `index`, as the target reads and says it."""


def encode(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> tuple[list[int], list[bool]]:
    """Token ids of a conversation, and for each token whether the loss counts its *prediction*."""
    text = tokenizer.apply_chat_template(
        [{"role": role, "content": content} for role, content in messages], tokenize=False
    )
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assistant, end = tokenizer.convert_tokens_to_ids(["<|assistant|>", "<|end|>"])
    learn, inside = [], False
    for token in ids:
        learn.append(inside)
        inside = token == assistant or (inside and token != end)
    return ids, learn


def pack(source: Source, tokenizer: PreTrainedTokenizerBase, step: int, tokens: int, per_step: int) -> Batch:
    """One row: ids, positions and a loss mask, each of shape (1, `tokens`), and the lengths of its segments.

    It contains conversations `step * per_step ...`, in order, until it is full: the last one is cut, and those after it
    are left out. If they do not fill it, the last segment is padding. `lengths` has shape (`per_step` + 1,) and ends
    with zeros.
    """
    ids: list[int] = []
    learn: list[bool] = []
    lengths: list[int] = []
    for index in range(step * per_step, (step + 1) * per_step):
        read, counts = encode(tokenizer, source.read(index))
        room = tokens - len(ids)
        ids += read[:room]
        learn += counts[:room]
        lengths.append(min(len(read), room))
        if len(ids) == tokens:
            break
    lengths.append(tokens - len(ids))
    ids += [tokenizer.pad_token_id] * lengths[-1]
    learn += [False] * lengths[-1]
    return {
        "ids": torch.tensor([ids]),
        "positions": torch.cat([torch.arange(length) for length in lengths])[None],
        "learn": torch.tensor([learn]),
        "lengths": torch.tensor(lengths + [0] * (per_step + 1 - len(lengths))),
    }


class Drawing:
    """Draws batches ahead in a separate process. A thread would compete with the training for the interpreter."""

    def __init__(self, pages: Path, index: Path, tokenizer: Path, seed: int, tokens: int, per_step: int) -> None:
        given = (pages, index, tokenizer, seed, tokens, per_step)
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), _open_source, given)

    def batches(self, start: int, end: int) -> Iterator[tuple[int, Batch]]:
        """Each step from `start` on with its batch, up to `end`."""
        with self._pool as pool:
            waiting = deque(pool.submit(_draw, step) for step in range(start, min(start + AHEAD, end)))
            for step in range(start, end):
                batch = waiting.popleft().result()
                if step + AHEAD < end:
                    waiting.append(pool.submit(_draw, step + AHEAD))
                yield step, batch


_drawing: Callable[[int], Batch]
"""The state of a pool process."""


def _open_source(pages: Path, index: Path, tokenizer: Path, seed: int, tokens: int, per_step: int) -> None:
    global _drawing
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(5)  # Training has priority.
    torch.set_num_threads(1)
    source, encoder = Mixture(pages, index, seed), AutoTokenizer.from_pretrained(tokenizer)
    _drawing = partial(pack, source, encoder, tokens=tokens, per_step=per_step)


def _end_with_parent() -> None:
    """Otherwise a pool's process would wait for ever if the training was killed."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _draw(step: int) -> Batch:
    return _drawing(step)


def forward_loss(body: torch.nn.Module, head: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Mean cross-entropy over the answers' tokens."""
    hidden = body(
        input_ids=batch["ids"], position_ids=batch["positions"], use_cache=False, lengths=batch["lengths"]
    ).last_hidden_state
    # The head runs only where an answer token is predicted, which is a fifth of the work.
    learn = batch["learn"][:, 1:]
    logits = head(hidden[:, :-1][learn])
    return torch.nn.functional.cross_entropy(logits.float(), batch["ids"][:, 1:][learn])


def new_model(tokenizer: PreTrainedTokenizerBase, family: str, hidden: int, layers: int) -> PreTrainedModel:
    """A model with random weights. Heads have 64 numbers, and about three of them share keys and values."""
    heads = hidden // HEAD
    config = FAMILIES[family](
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=hidden * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 3),
        head_dim=HEAD,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        attn_implementation=segment_attention.NAME,
    )
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    return model


def optimisers(model: PreTrainedModel, rate: float) -> list[torch.optim.Optimizer]:
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n and "lm_head" not in n]
    chosen = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    return [
        Muon(matrices, rate, weight_decay=0.01),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]


def rate_at(step: int, steps: int, decay: float, warmup: int = 60) -> float:
    """The factor of the learning rate: linear warm-up, constant, linear decay to zero."""
    return min(1.0, (step + 1) / warmup, (steps - step) / max(1.0, decay * steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, required=True)
    parser.add_argument("--index", type=Path, required=True, help="what recipes.shell_guide.index wrote")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="checkpoints, log and the final model go here")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--tokens", type=int, default=6144, help="tokens a step")
    parser.add_argument("--per-step", type=int, default=40, help="conversations a step; those that do not fit are left")
    parser.add_argument("--init", type=Path, help="begin with the weights of this model instead of random ones")
    parser.add_argument("--family", choices=FAMILIES, default="llama")
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--decay", type=float, default=0.35)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    tokenizer = AutoTokenizer.from_pretrained(arguments.tokenizer)
    drawing = Drawing(
        arguments.pages, arguments.index, arguments.tokenizer, arguments.seed, arguments.tokens, arguments.per_step
    )
    torch.manual_seed(arguments.seed)
    model = new_model(tokenizer, arguments.family, arguments.hidden, arguments.layers)
    if arguments.init:
        first = AutoModelForCausalLM.from_pretrained(arguments.init, dtype=torch.float32)
        first.resize_token_embeddings(len(tokenizer))  # Its tokenizer may have lacked marks.
        model.load_state_dict(first.state_dict())
    model = model.to(arguments.device)
    learners = optimisers(model, arguments.rate)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(AVERAGE))
    checkpoint, start = arguments.out / "checkpoint.pt", 0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=arguments.device, weights_only=True)
        model.load_state_dict(state["model"])
        for learner, saved in zip(learners, state["learners"]):
            learner.load_state_dict(saved)
        average.load_state_dict(state["average"])
        start = state["step"]
        print(f"resumed at step {start}", flush=True)
    body = torch.compile(model.model)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters / 1e6:.1f}M parameters, {arguments.device}", flush=True)
    started, log = time.monotonic(), (arguments.out / "log.jsonl").open("a")
    for step, drawn in drawing.batches(start, arguments.steps):
        batch = {name: tensor.to(arguments.device) for name, tensor in drawn.items()}
        for learner in learners:
            for group in learner.param_groups:
                group["lr"] = arguments.rate * rate_at(step, arguments.steps, arguments.decay)
        with autocast(arguments.device):
            loss = forward_loss(body, model.lm_head, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for learner in learners:
            learner.step()
            learner.zero_grad()
        average.update_parameters(model)
        if step % 20 == 0 or step == arguments.steps - 1:
            seconds = time.monotonic() - started
            speed = (step - start + 1) * arguments.tokens / seconds
            left = (arguments.steps - step) * seconds / (step - start + 1) / 60
            log.write(json.dumps({"step": step, "loss": round(loss.item(), 4), "seconds": round(seconds, 1)}) + "\n")
            log.flush()
            print(f"step {step} loss {loss.item():.3f} {speed:.0f} tokens/s, {left:.0f} min left", flush=True)
        if (step + 1) % 200 == 0 or step == arguments.steps - 1:
            partial = checkpoint.with_suffix(".partial")
            state = {
                "model": model.state_dict(),
                "average": average.state_dict(),
                "learners": [learner.state_dict() for learner in learners],
                "step": step + 1,
            }
            torch.save(state, partial)
            os.replace(partial, checkpoint)
            export(model, tokenizer, arguments.out / "model")
            export(average.module, tokenizer, arguments.out / "average")


def export(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a bf16 Hugging Face checkpoint with its tokenizer."""
    half = AutoModelForCausalLM.from_config(model.config).to(torch.bfloat16)
    half.load_state_dict(model.state_dict())
    half.generation_config.eos_token_id = tokenizer.eos_token_id
    half.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main()
