"""Train a drafter that MoA is compared with, on the answers that MoA was trained on.

    python -m recipes.shell_guide.baselines --answers runs/drafter/answers.jsonl --target DIR --which eagle2
        [--steps N] [--out benchmarks/baselines/eagle2]

It gets as many trained parameters as MoA, and MoA's draft vocabulary. The work folder keeps a log with the seconds of
training so far, and a checkpoint from which a killed run continues. For a comparison at equal time, divide the time by
the log's seconds per step and give the result as --steps, because the rate falls to zero with the last step.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.baseline_drafters import METHODS, BaselineRecipe, baseline_config, save_baseline, train_baseline
from drafter.training.answers import draft_vocabulary, read_answers
from drafter.training.loop import trained_parameters
from drafter.training.losses import DIVERGENCES
from drafter.training.teacher import Recording
from recipes.shell_guide.drafter import DRAFT_VOCABULARY, RECORDED


def main(argv: Sequence[str] | None = None) -> None:
    default = BaselineRecipe()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--answers", type=Path, required=True, help="the target's answers, as recipes.shell_guide.drafter left them"
    )
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--which", choices=METHODS, required=True)
    parser.add_argument("--steps", type=int, default=default.steps)
    parser.add_argument("--rate", type=float, default=default.rate)
    parser.add_argument("--rows", type=int, default=default.rows)
    parser.add_argument("--row", type=int, default=default.row, help="tokens a row; the rest of a conversation is cut")
    parser.add_argument("--loss", choices=DIVERGENCES, default=default.loss, help="distance from the target")
    parser.add_argument(
        "--feature-weight", type=float, default=default.feature_weight, help="EAGLE-2: weight of the SmoothL1 loss"
    )
    parser.add_argument("--noise", type=float, default=default.noise, help="EAGLE-2: largest noise on features")
    parser.add_argument("--unroll", type=int, default=default.unroll, help="EAGLE-3: steps of the training-time test")
    parser.add_argument("--own-head", action="store_true", help="EAGLE: train a head instead of using the target's")
    parser.add_argument("--recording", type=Path, help="features of the answers, as MoA's recipe leaves them")
    parser.add_argument(
        "--parameters", type=int, help="about so many trained parameters; as many as MoA's if not given"
    )
    parser.add_argument("--work", type=Path, help="runs/baselines/WHICH if not given")
    parser.add_argument("--out", type=Path, help="benchmarks/baselines/WHICH if not given")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args(argv)
    if arguments.own_head and arguments.which == "independent":
        parser.error("--own-head: the independent model has no other")
    work = arguments.work or Path("runs/baselines") / arguments.which
    out = arguments.out or Path("benchmarks/baselines") / arguments.which

    data = read_answers(arguments.answers)
    target = AutoModelForCausalLM.from_pretrained(arguments.target, dtype=torch.float32).eval()
    stops = (AutoTokenizer.from_pretrained(arguments.target).eos_token_id,)
    config = baseline_config(
        target, "shell-guide", arguments.which, parameters=arguments.parameters, own_head=arguments.own_head
    )
    kept, covered = draft_vocabulary(data, DRAFT_VOCABULARY, stops, config.vocabulary)
    config = msgspec.structs.replace(config, draft_vocabulary=kept, stop_tokens=stops)
    varied = ("steps", "rows", "row", "rate", "loss", "feature_weight", "noise", "unroll")
    recipe = replace(default, **{name: getattr(arguments, name) for name in varied})
    recording = Recording(arguments.recording, target, data, RECORDED) if arguments.recording else None
    model = train_baseline(config, target, data, work, recipe, arguments.device, recording)
    save_baseline(model, out)
    print(
        f"{arguments.which}: {trained_parameters(model):,} trained parameters, {recipe.steps} steps in "
        f"{model.config.seconds:.0f} s; its {len(kept) or config.vocabulary} tokens cover {covered:.2%} of the "
        f"answers; written to {out}"
    )


if __name__ == "__main__":
    main()
