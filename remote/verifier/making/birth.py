"""Makes a drafter for a target in a minute or two, without training, and measures how well it guesses.

How it is put together: `drafter/training/birth.py`. Some of the target's answers select the tokens that its head can
draft; the others serve only to find which of the possible shapes guesses best, and whether it is useful.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from drafter.delivery import delivered_bytes
from drafter.floors import LEAST_TAU, why_no_drafts, why_not_alone
from drafter.runtime import Drafter
from drafter.training.answers import AnsweredConversation
from drafter.training.birth import Shape, born, likely_tokens, shapes_within
from drafter.training.pipeline import stop_tokens, write_folder
from drafter.training.target import INFERABLE, UnsupportedTarget, check_head
from drafter.training.text_side import read_text_side
from models.config import DrafterConfig, Measured, write_config
from models.engines.target import Target
from models.engines.torch_engine import TorchEngine
from remote.verifier.making.measure import Answered, measured
from remote.verifier.options import ServeOptions

__all__ = ["BUDGET", "Newborn", "UnsupportedTarget", "check_layers", "make_drafter"]

BUDGET = ServeOptions.budget
"""Most bytes of a drafter on a device, by default."""
SCORED = 4
"""Every n-th answer measures the drafter. The others select the tokens that it can draft."""
BETTER = 1.03
"""By how much a shape with fewer bits must guess better. With fewer bits, a drafter loses more without memory than with
it, and this few answers show the difference only roughly."""


@dataclass(frozen=True)
class Newborn:
    """A drafter that was made, and how well it guesses what its target says."""

    config: DrafterConfig
    shape: Shape
    bytes: int
    """Bytes that a device has to fetch."""
    measured: Measured
    """Measured on answers that were not used to make it."""
    seconds: float
    """Total seconds."""

    def __str__(self) -> str:
        layers = self.shape.first_layers + self.shape.inference_layers + 2
        of = f"{layers} of {self.config.target_layers} layers, {self.shape.bits} bits, {self.bytes / 1e6:.0f} MB"
        guesses = f"{self.measured.tau:.1f} tokens a round, {self.measured.alone:.0%} right without the model"
        if why := why_no_drafts(self.config):
            return f"{of}; {guesses}. It is not used: {why}"
        alone = why_not_alone(self.config)
        return f"{of}; {guesses}" + (f". It never writes alone: {alone}" if alone else "")


def check_layers(family: str) -> None:
    """Raise `UnsupportedTarget` if devices cannot run the layers of models of this family, as GGUF names it."""
    if family not in INFERABLE:
        raise UnsupportedTarget(f"one is made of the model's own layers, and devices cannot run those of {family}.")


def make_drafter(
    target: Target,
    source: str,
    out: Path,
    answers: Sequence[Answered],
    budget: int = BUDGET,
    *,
    template: str | None = None,
) -> Newborn:
    """Write a drafter of at most `budget` bytes for `target` into the folder `out`, which appears when it is complete.

    `source`: the target's folder, or its name on the hub. `answers`: its answers to questions of many kinds.
    `template`: a chat template to use instead of the target's own. Raises `UnsupportedTarget`, and `NothingMeasured` if
    the answers are too short.
    """
    begun = time.monotonic()
    check_head(target.model)
    shapes = shapes_within(target.model, target.name, budget)
    side = read_text_side(source, target.name, several_turns=False, template=template)
    scored = answers[::SCORED]
    rest = [one for at, one in enumerate(answers) if at % SCORED] or scored
    data = [
        AnsweredConversation(one.prompt + one.answer, [(len(one.prompt), len(one.prompt) + len(one.answer))])
        for one in rest
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
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
            found = measured(TorchEngine(target.model, model.encoder), Drafter.load(folder), scored)
            config = write_config(folder, msgspec.structs.replace(config, measured=found))
            newborn = Newborn(config, shape, delivered_bytes(folder), found, time.monotonic() - begun)
            if best is None or found.tau > BETTER * best[0].measured.tau:
                best = newborn, folder
            if found.tau < LEAST_TAU:
                break  # With fewer bits it would guess no better.
        assert best is not None
        newborn, folder = best
        if out.exists():
            os.replace(out, Path(scratch) / "older")
        os.replace(folder, out)
    return replace(newborn, seconds=time.monotonic() - begun)
