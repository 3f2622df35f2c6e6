"""Makes a drafter for a target in a minute or two, without training, and measures how well it guesses.

How it is put together: `drafter/training/birth.py`. Some of the target's answers select the tokens that its head can
draft; the others serve only to find which of the possible shapes guesses best, and whether it is useful. If it is not,
it can learn (`drafter/training/growth.py`), and is measured on the same answers again and again.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import msgspec

from drafter.delivery import delivered_bytes
from drafter.floors import LEAST_TAU, why_no_drafts, why_not_alone
from drafter.runtime import Drafter
from drafter.training.batches import AnsweredConversation
from drafter.training.birth import Shape, born, likely_tokens, shapes_within
from drafter.training.distil import Distiller
from drafter.training.growth import Growth
from drafter.training.pipeline import stop_tokens, write_folder
from drafter.training.self_talk import SelfTalk
from drafter.training.target import INFERABLE, UnsupportedTarget, check_head
from drafter.training.text_side import TextSide, read_text_side
from models.config import DrafterConfig, DrafterError, Measured, read_config, write_config
from models.engines.target import Target
from models.engines.torch_engine import TorchEngine
from remote.verifier.making.measure import Answered, measured
from remote.verifier.options import ServeOptions

__all__ = ["BUDGET", "CHECKPOINT", "Newborn", "UnsupportedTarget", "check_layers", "grow_drafter", "make_drafter"]

BUDGET = ServeOptions.budget
"""Most bytes of a drafter on a device, by default."""
SCORED = 4
"""Every n-th answer measures the drafter. The others select the tokens that it can draft."""
BETTER = 1.03
"""By how much a shape with fewer bits must guess better. With fewer bits, a drafter loses more without memory than with
it, and this few answers show the difference only roughly."""
CHECKPOINT = "growth.pt"
"""File of the work folder: what a drafter has learnt so far."""
GROWN_VOCABULARY = 16_384
"""Most tokens that a drafter which learns can draft. Each one costs time at every token that it learns from."""
SAVED, MEASURED = 120.0, 5
"""Seconds of processor time between two checkpoints, and how many of those are between two measurements."""
PATIENCE = 3
"""Measurements without a gain after which learning ends."""


@dataclass(frozen=True)
class Newborn:
    """A drafter that was made, and how well it guesses what its target says."""

    config: DrafterConfig
    bytes: int
    """Bytes that a device has to fetch."""
    seconds: float = 0.0
    """Total seconds."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The drafter in a folder. Raises `DrafterError`."""
        return cls(read_config(folder), delivered_bytes(folder))

    @classmethod
    def found(cls, folder: Path) -> Self | None:
        """The drafter in a folder, or None if there is none or it is damaged."""
        with contextlib.suppress(DrafterError):
            return cls.read(folder)
        return None

    @property
    def measured(self) -> Measured:
        """Measured on answers that were not used to make it."""
        assert isinstance(self.config.measured, Measured)
        return self.config.measured

    @property
    def shape(self) -> Shape:
        config = self.config
        vocabulary = len(config.draft_vocabulary) or config.vocabulary
        return Shape(config.first_layers, config.inference_layers, vocabulary, config.scheme)

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


class _Making:
    """What the drafters of one target are written with, and measured on."""

    def __init__(self, target: Target, source: str, answers: Sequence[Answered], template: str | None) -> None:
        self.target = target
        self.side: TextSide = read_text_side(source, target.name, several_turns=False, template=template)
        self.stops = stop_tokens(target.model, self.side.tokenizer)
        self._scored = answers[::SCORED]
        rest = [one for at, one in enumerate(answers) if at % SCORED] or self._scored
        self._data = [
            AnsweredConversation(one.prompt + one.answer, [(len(one.prompt), len(one.prompt) + len(one.answer))])
            for one in rest
        ]

    def born(self, shape: Shape) -> Distiller:
        """An untrained drafter, whose head drafts what the answers use and what is frequent."""
        model = born(self.target.model, self.target.name, shape)
        kept = likely_tokens(self._data, shape.vocabulary, self.stops, model.config.vocabulary)
        config = msgspec.structs.replace(model.config, draft_vocabulary=kept, stop_tokens=self.stops)
        model.config = model.draft.config = config
        return model

    def write(self, model: Distiller, folder: Path) -> Newborn:
        """Write a drafter into a new folder, and measure it. Raises `NothingMeasured`."""
        folder.mkdir()
        self.side.write(folder)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            config = write_folder(model, self.target.model, model.config, (), Path(work), folder, datastore=0)
        found = measured(TorchEngine(self.target.model, model.encoder), Drafter.load(folder), self._scored)
        write_config(folder, msgspec.structs.replace(config, measured=found))
        return Newborn.read(folder)


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
    check_head(target.model)
    shapes = shapes_within(target.model, target.name, budget)
    making = _Making(target, source, answers, template)
    with _scratch(out) as scratch:
        best: tuple[Newborn, Path] | None = None
        for shape in shapes:
            folder = scratch / shape.scheme
            newborn = making.write(making.born(shape), folder)
            if best is None or newborn.measured.tau > BETTER * best[0].measured.tau:
                best = newborn, folder
            if newborn.measured.tau < LEAST_TAU:
                break  # With fewer bits it would guess no better.
        assert best is not None
        newborn, folder = best
        _put(folder, out, scratch)
    return newborn


def grow_drafter(
    newborn: Newborn,
    target: Target,
    source: str,
    out: Path,
    answers: Sequence[Answered],
    work: Path,
    seconds: float,
    told: Callable[[float, float], None],
    *,
    template: str | None = None,
) -> Newborn:
    """Let a drafter learn for at most this many seconds of processor time. Returns the best one.

    `out` gets each one that is better than those before, `work` the checkpoint, which is resumed. `told` receives the
    tokens per round so far, and the seconds that may be left.
    """
    making = _Making(target, source, answers, template)
    talk = SelfTalk.of(target.model, making.side.tokenizer, making.stops)
    if talk is None:
        return newborn
    shape = replace(newborn.shape, vocabulary=min(newborn.shape.vocabulary, GROWN_VOCABULARY))
    growth = Growth(making.born(shape), target.model, talk, work / CHECKPOINT)
    best = max(newborn, Newborn.found(out) or newborn, key=lambda one: one.measured.tau)
    idle = 0
    while growth.seconds < seconds and idle < PATIENCE:
        ends = min(seconds, growth.seconds + MEASURED * SAVED)
        while growth.seconds < ends:
            told(best.measured.tau, seconds - growth.seconds)
            growth.go_on(min(SAVED, ends - growth.seconds))
        with _scratch(out) as scratch:
            folder = scratch / "grown"
            with growth.grown() as model:
                grown = making.write(model, folder)
            idle = 0 if grown.measured.tau > best.measured.tau else idle + 1
            if not idle:
                best = grown
                _put(folder, out, scratch)
    return best


@contextlib.contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    """A folder beside `out` while the block runs."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
        yield Path(scratch)


def _put(folder: Path, out: Path, scratch: Path) -> None:
    """Move a complete folder to `out`."""
    if out.exists():
        os.replace(out, scratch / "older")
    os.replace(folder, out)
