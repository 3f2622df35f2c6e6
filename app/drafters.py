"""`outrider drafter`: make a drafter for any target, look at one, quantise it again.

Making and quantising need the `train` extra; what belongs to it is imported when it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from drafter.config import Scheme, read_config
from drafter.memory import memory_bytes
from storage import Store

MEGABYTE = 1 << 20


class TrainingFailed(Exception):
    """A drafter that cannot be made; the message says why and what to do."""


def stored_questions(store: Store) -> list[list[str]]:
    """What was asked in each stored conversation, oldest first."""
    threads = [store.thread(conversation.id) for conversation in reversed(store.conversations())]
    asked = [[message.text for message in thread if message.role == "user"] for thread in threads]
    return [questions for questions in asked if questions]


def train(
    target: str,
    questions: Sequence[Sequence[str]],
    out: Path,
    *,
    work: Path,
    steps: int | None,
    inference_layers: int | None,
    init: Path | None,
) -> None:
    """Make a drafter for `target`, a folder or a hub model, in `out`; `work` holds what a killed run resumes from.

    Raises `TrainingFailed`, or `DrafterError` for a bad `init`.
    """
    try:
        from drafter.training.distil import Recipe
        from drafter.training.pipeline import Plan, TooFewPrompts, build, write_card
        from drafter.training.target import UnsupportedTarget
        from remote.verifier.serve import ServeError, load_target
    except ImportError as error:
        raise _lacking(error) from error
    try:
        loaded = load_target(target)
        recipe = Recipe() if steps is None else replace(Recipe(), steps=steps)
        plan = Plan(recipe=recipe, inference_layers=inference_layers, init=init)
        built = build(loaded.model, target, loaded.name, questions, work, out, plan)
    except (ServeError, TooFewPrompts, UnsupportedTarget) as error:
        raise TrainingFailed(str(error)) from error
    write_card(out, built, plan)
    print(f"{built.config.scheme} against float: {built.parity}", file=sys.stderr)
    print(out)


def info(folder: Path) -> None:
    """Print what a drafter is and whether its files are whole. Raises `DrafterError`."""
    config = read_config(folder)
    read_config(folder, verify=tuple(config.files))
    sizes = {name: (folder / name).stat().st_size / MEGABYTE for name in sorted(config.files)}
    drafted = len(config.draft_vocabulary) or config.vocabulary
    for name, value in (
        ("target", f"{config.target}, {config.target_layers} layers of {config.hidden}"),
        ("draft layers", f"self- and cross-attention, N = {config.inference_layers}"),
        ("vocabulary", f"{drafted:,} of {config.vocabulary:,} tokens"),
        ("quantised", config.scheme),
        ("memory", f"{memory_bytes(1, config.memory_layers):,} bytes a token, {config.memory}"),
        ("tokenizer", config.tokenizer),
        ("files", ", ".join(f"{name} {size:.1f} MB" for name, size in sizes.items()) + "; checksums match"),
    ):
        print(f"{name:<13} {value}")


def quantise(folder: Path, scheme: Scheme | None) -> None:
    """Make the quantised graph again from the float weights. Raises `TrainingFailed` or `DrafterError`."""
    try:
        from drafter.training.pipeline import requantise
    except ImportError as error:
        raise _lacking(error) from error
    print(f"{folder}: {requantise(folder, scheme)}")


def _lacking(error: ImportError) -> TrainingFailed:
    return TrainingFailed(f"This needs PyTorch and more ({error.name} is missing): pip install 'outrider[train]'")
