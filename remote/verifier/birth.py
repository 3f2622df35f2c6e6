"""Makes a drafter for a loaded target in a minute or two, without training, and measures how well it guesses.

What it is made of: `drafter/training/birth.py`. A few answers of the target choose the tokens that its head can draft,
and tell which of the shapes that fit guesses best.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec
from transformers.utils import cached_file

from drafter.config import CONFIG, DrafterConfig
from drafter.delivery import delivered_bytes
from drafter.runtime import Drafter
from drafter.training.answers import generate_answers, read_answers
from drafter.training.birth import Shape, born, likely_tokens, shapes_within
from drafter.training.pipeline import stop_tokens, write_folder
from drafter.training.target import UnsupportedTarget, check_head
from drafter.training.text_side import read_text_side
from remote.verifier.engine import Engine
from remote.verifier.engines.torch_engine import TorchEngine
from remote.verifier.measure import NothingMeasured, agreement_by_staleness, evenly, measure
from remote.verifier.target import Target

__all__ = ["BUDGET", "Newborn", "UnsupportedTarget", "kept_drafter", "make_drafter"]

T = TypeVar("T")

MADE_AS = 1
"""Counts the ways in which drafters were made, so that one made in an older way is not used any more."""
BUDGET = 300_000_000
"""Bytes that a drafter may take on a device, if nobody says otherwise."""
SECONDS = 60.0
"""The target answers questions for so long, and each figure is measured for so long. What has begun is ended."""
SCORED = 16
"""Questions that it is measured on. The others choose the tokens that it can draft."""
BATCH = 16
"""Questions that are answered at the same time."""
ANSWER_TOKENS = 96
BETTER = 1.03
"""How much more a shape of fewer bits has to guess. With fewer bits, a drafter without memory loses more than with it,
and so few answers tell the two apart only roughly."""


@dataclass(frozen=True)
class Newborn:
    """A drafter that was made, and how well it guesses what its target says."""

    config: DrafterConfig
    shape: Shape
    bytes: int
    """What a device has to fetch."""
    tau: float | None
    """Tokens a round, on questions that had no part in making it. None: the target had no answers to them."""
    agreement: dict[str, float]
    """Share of the target's tokens that are its first choice, by tokens since the newest memory; see
    `agreement_by_staleness`."""
    seconds: float
    """What it took in all."""

    def __str__(self) -> str:
        layers = self.shape.first_layers + self.shape.inference_layers + 2
        of = f"{layers} of {self.config.target_layers} layers, {self.shape.bits} bits, {self.bytes / 1e6:.0f} MB"
        if self.tau is None:
            return f"{of}; not measured, because the model answered nothing"
        return f"{of}; {self.tau:.1f} tokens a round, first guess right in {next(iter(self.agreement.values())):.0%}"


def kept_drafter(model: str, budget: int, kept: Path, template: str | None = None) -> Path | None:
    """The folder of the drafter of this size that was made for `model`, as it is now: a folder, a file, or a name.

    `template`: the chat template that it was made with; None: the model's own. It need not exist. Returns None if the
    model is not on this machine yet.
    """
    found = Path(model)
    if not found.exists():
        try:
            config = cached_file(model, CONFIG, local_files_only=True, _raise_exceptions_for_missing_entries=False)
        except OSError:  # No name of a model, or one that was never fetched.
            config = None
        if config is None:
            return None
        found = Path(config).parent
    asked = (MADE_AS, budget) if template is None else (MADE_AS, budget, template)
    running = hashlib.sha256(msgspec.json.encode(asked))
    for file in sorted(found.iterdir()) if found.is_dir() else [found]:
        about = file.stat()
        running.update(msgspec.json.encode((file.name, about.st_size, about.st_mtime_ns)))
    return kept / f"{found.stem[:40] if found.is_file() else found.name[:40]}-{running.hexdigest()[:16]}"


def make_drafter(
    target: Target,
    source: str,
    out: Path,
    questions: Sequence[str],
    budget: int = BUDGET,
    seconds: float = SECONDS,
    *,
    template: str | None = None,
) -> Newborn:
    """Write a drafter of at most `budget` bytes for `target` into the folder `out`, which appears when it is complete.

    `source`: the target's folder, or its name on the hub. `questions`: what people ask it; each is its own
    conversation. `template`: a chat template in the place of the target's own. Raises `UnsupportedTarget`.
    """
    begun = time.monotonic()
    check_head(target.model)
    shapes = shapes_within(target.model, target.name, budget)
    side = read_text_side(source, target.name, several_turns=False, template=template)
    scored = evenly(questions, SCORED)
    asked = [[question] for question in questions if question not in scored] or [[question] for question in questions]
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
        answers = Path(scratch) / "answers.jsonl"
        generate_answers(
            target.model,
            side.tokenizer,
            asked,
            answers,
            batch=BATCH,
            new_tokens=ANSWER_TOKENS,
            half=True,
            seconds=seconds,
        )
        data = read_answers(answers)
        stops = stop_tokens(target.model, side.tokenizer)
        best: tuple[Newborn, Path] | None = None
        for shape in shapes:
            folder, work = Path(scratch) / shape.scheme, Path(scratch) / "work"
            folder.mkdir()
            work.mkdir(exist_ok=True)
            side.write(folder)
            model = born(target.model, target.name, shape)
            kept = likely_tokens(data, shape.vocabulary, stops, model.config.vocabulary)
            config = msgspec.structs.replace(model.config, draft_vocabulary=kept, stop_tokens=stops)
            config = write_folder(model, target.model, config, data, work, folder, datastore=0)
            engine = TorchEngine(target.model, model.encoder)
            tau, agreement = _score(engine, Drafter.load(folder), scored, seconds)
            newborn = Newborn(config, shape, delivered_bytes(folder), tau, agreement, time.monotonic() - begun)
            if best is None or (newborn.tau or 0.0) > BETTER * (best[0].tau or 0.0):
                best = newborn, folder
        assert best is not None
        newborn, folder = best
        if out.exists():
            os.replace(out, Path(scratch) / "older")
        os.replace(folder, out)
    return replace(newborn, seconds=time.monotonic() - begun)


def _score(
    engine: Engine, drafter: Drafter, questions: Sequence[str], seconds: float
) -> tuple[float | None, dict[str, float]]:
    """Tau and agreement on the target's greedy answers to these questions; None and {} if it says nothing."""
    prompts = [drafter.asked_as(question) for question in questions]
    try:
        tau = measure(engine, drafter, _until(prompts, seconds), most=ANSWER_TOKENS).result().tau
    except NothingMeasured:
        return None, {}
    return tau, agreement_by_staleness(engine, drafter, _until(prompts, seconds), ANSWER_TOKENS)


def _until(items: Sequence[T], seconds: float) -> Iterator[T]:
    """The items, until so much time is over; at least one."""
    ends = time.monotonic() + seconds
    for number, item in enumerate(items):
        if number and time.monotonic() > ends:
            return
        yield item
