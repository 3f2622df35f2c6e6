"""The model card in a drafter's folder: what it is, for which target, how it was made, and how good it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drafter.training.loop import Unseen
from models.config import write_config

if TYPE_CHECKING:
    from drafter.training.pipeline import Built, Plan

CARD = "README.md"


@dataclass(frozen=True)
class Evaluation:
    """The result of rounds on held-out questions."""

    tau: float
    ci95: tuple[float, float]
    by_depth: tuple[float, ...]
    float_tau: float
    """Result on the same questions of the graph before it was quantised."""
    float_ci95: tuple[float, float]
    prompts: int
    command: str
    """The command that measures everything again except `float_tau`."""


def write_card(out: Path, built: Built, plan: Plan, evaluation: Evaluation | str) -> None:
    """Write the card into the drafter's folder `out`, and its config with the card's checksum.

    `evaluation`: the measurements, or a sentence that says why there are none.
    """
    config = built.config
    recipe = {**asdict(plan.recipe.for_start(config, plan.init is not None)), "processes": built.processes}
    kept = len(config.draft_vocabulary) or config.vocabulary
    lines = [
        f"# Outrider drafter for {config.target}",
        "",
        "A Mixture-of-Attentions drafter (arXiv 2410.03804) that runs the target's own first "
        f"F = {config.first_layers} and last N = {config.inference_layers} layers,",
        f"distilled from {config.target} on {built.answers:,} of its own answers ({built.answer_tokens:,} tokens).",
        "It only guesses: with a verifier, every token that counts is the target's own.",
        "",
        f"    outrider serve --model {config.target} --drafter {out.name}",
        "",
        "| | |",
        "|---|---|",
        f"| trained parameters | {built.trained_parameters / 1e6:.1f}M |",
        f"| draft vocabulary | {kept:,} tokens, {built.covered:.2%} of the answers |",
        f"| {config.scheme} against float | {built.parity} |",
        "",
        "## How good it is",
        "",
        *((evaluation, "") if isinstance(evaluation, str) else _evaluated(evaluation, config.scheme)),
        *(() if built.unseen is None else _on_unseen(built.unseen)),
        "Training: " + ", ".join(f"{name} {value}" for name, value in recipe.items()) + ".",
        "",
    ]
    (out / CARD).write_text("\n".join(lines), encoding="utf-8")
    write_config(out, config)


def _evaluated(evaluation: Evaluation, scheme: str) -> list[str]:
    lost = evaluation.float_tau - evaluation.tau
    return [
        f"On {evaluation.prompts} questions that were set aside before training, greedily:",
        "",
        f"    {evaluation.command}",
        "",
        "| | |",
        "|---|---|",
        f"| tau, tokens gained per round, the target's own included | {interval(evaluation.tau, evaluation.ci95)} |",
        "| the same with the float graph, measured when the drafter was made | "
        f"{interval(evaluation.float_tau, evaluation.float_ci95)}, so {scheme} costs {lost:.2f} |",
        f"| accepted at depth 1, 2, ... | {shares(evaluation.by_depth)} |",
        "",
    ]


def _on_unseen(unseen: Unseen) -> list[str]:
    return [
        "Some answers were kept from learning too. On them, in float and by the training loop's own count (`unseen` in "
        "its log):",
        "",
        "| | |",
        "|---|---|",
        f"| divergence from the target, KL | {unseen.divergence:.3f} nats |",
        f"| first guess is the target's, 1, 2, ... tokens after the newest memory | {shares(unseen.agreement)} |",
        f"| the same, where the last turn is drafted without memory of it | {unseen.alone:.1%} |",
        "",
    ]


def interval(tau: float, ci95: Sequence[float]) -> str:
    """Text such as `3.21 (95 %: 3.02 to 3.40)`."""
    return f"{tau:.2f} (95 %: {ci95[0]:.2f} to {ci95[1]:.2f})"


def shares(parts: Sequence[float]) -> str:
    return ", ".join(f"{part:.1%}" for part in parts)
