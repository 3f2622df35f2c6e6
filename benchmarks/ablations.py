"""What each choice in a MoA drafter and its training is worth: the same training with one thing changed at a time.

    python -m benchmarks.ablations --answers runs/drafter/answers.jsonl --target DIR --work runs/ablations
        [--recording FILE] [--steps N] [--only NAME ...] [--jobs N] [--json OUT]

The baseline is what `Recipe` and `drafter_config` give by themselves. Values of the grid that the baseline has anyway
are left out. Any target and any answers will do (`outrider drafter train` leaves answers in its work folder), but at
least 100 conversations: every fiftieth is kept for the check. Each variant has its own folder in --work. So a killed
run continues where it was, and a finished variant is not trained again. Table and JSON hold all finished variants.

The figures are those of the last check on unseen answers, teacher-forced: agreement with the target's best token at 1
to 8 tokens of staleness, the tau of a chain with these agreements, divergence in nats, and `alone`, the agreement in
last turns without any memory. `another-seed` changes only the seed, for training and for the data that are checked.
Differences smaller than its own say nothing. With --recording, the seconds do not include the target's forwards.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from benchmarks.pair import machine_and_pair
from benchmarks.results import ablations_table
from drafter.model import weights_digest
from drafter.training.answers import read_answers
from drafter.training.batches import split
from drafter.training.distil import train
from drafter.training.loop import trained_parameters
from drafter.training.recipe import Recipe
from drafter.training.target import UnsupportedTarget, drafter_config
from drafter.training.teacher import ForeignRecord, Recording
from models.config import DrafterConfig

ABOUT, LOG, RESULT = "about.json", "log.jsonl", "result.json"
BASELINE = "baseline"


@dataclass(frozen=True)
class Variant:
    """What a variant changes in the baseline."""

    name: str
    change: str
    """The change in words, for people."""
    inference_layers: int | None = None
    """N; None: as many as the baseline."""
    first_layers: int | None = None
    """F; None: as many as the baseline."""
    shape: Mapping[str, int] = field(default_factory=dict)
    """Fields of `DrafterConfig`."""
    recipe: Mapping[str, object] = field(default_factory=dict)
    """Fields of `Recipe`."""


VARIANTS = (
    Variant(BASELINE, "baseline"),
    Variant("another-seed", "another seed", recipe={"seed": Recipe.seed + 1}),
    *(
        Variant(name, f"{change} layer self-attention", shape={"layer_self_attention": layer_self_attention})
        for name, change, layer_self_attention in (("lsa", "with", True), ("no-lsa", "no", False))
    ),
    Variant("no-ca", "no cross-attention", shape={"cross_attention": False}),
    Variant("random-start", "random weights, and their curriculum", shape={"from_target": False}),
    Variant(
        "random-start-exit",
        "random weights, their curriculum, and an exit",
        shape={"from_target": False, "exit_norm": True},
    ),
    Variant("exit", "an exit", shape={"exit_norm": True}),
    *(
        Variant(f"local-{share}", f"self-attention sees little for {share:.0%}", recipe={"local": share})
        for share in (0.0, 0.5)
    ),
    *(Variant(f"n-{count}", f"N = {count}", inference_layers=count) for count in (0, 1, 2)),
    *(Variant(f"first-{count}", f"F = {count}", first_layers=count) for count in (0, 1, 2)),
    Variant("blocks-2", "two self-attention layers", shape={"blocks": 2}),
    *(Variant(f"tail-{share}", f"{share:.0%} with long gaps", recipe={"tail": share}) for share in (0.0, 0.12, 0.3)),
    *(
        Variant(f"blank-{share}", f"{share:.0%} with a blank turn", recipe={"blank": share})
        for share in (0.0, 0.1, 0.2)
    ),
    *(
        Variant(f"feature-{weight}", f"feature loss x {weight:g}", recipe={"feature_weight": weight})
        for weight in (0.0, 0.1, 1.0, 10.0)
    ),
    *(Variant(f"loss-{kind}", f"{kind.upper()} loss", recipe={"loss": kind}) for kind in ("kl", "lk", "tv")),
)


class ForeignRun(Exception):
    """The folder was made with other settings. The message says which."""


@dataclass(frozen=True)
class Common:
    """What all variants share."""

    target: str
    answers: Path
    work: Path
    recording: Path | None
    recorded: tuple[int, ...]
    """Hidden states in the recording, besides the last one."""
    device: str


@dataclass(frozen=True)
class Job:
    """The training of one variant."""

    variant: Variant
    config: DrafterConfig
    recipe: Recipe
    common: Common
    about: Mapping[str, Any]
    """Everything that its result depends on, as JSON."""

    @property
    def folder(self) -> Path:
        return self.common.work / self.variant.name


def plan(target: PreTrainedModel, recipe: Recipe, common: Common) -> tuple[dict[str, Job], dict[str, str]]:
    """The grid for this target: the variants' jobs by name, and why others have none."""
    data = {
        "answers": hashlib.blake2b(common.answers.read_bytes(), digest_size=16).hexdigest(),
        "weights": weights_digest(target.state_dict()).hex(),
    }
    jobs: dict[str, Job] = {}
    refused: dict[str, str] = {}
    for variant in VARIANTS:
        try:
            layers = {"inference_layers": variant.inference_layers, "first_layers": variant.first_layers}
            if jobs and variant.first_layers is None:  # Otherwise their number would follow N.
                layers["first_layers"] = jobs[BASELINE].config.first_layers
            shape = drafter_config(target, Path(common.target).name, **layers)
        except UnsupportedTarget as error:
            refused[variant.name] = str(error)
            continue
        config = msgspec.structs.replace(shape, **variant.shape)
        varied = replace(recipe, **variant.recipe).for_start(config)  # type: ignore[arg-type]
        about = json.loads(json.dumps({"config": msgspec.to_builtins(config), "recipe": asdict(varied), **data}))
        if jobs and about == jobs[BASELINE].about:
            refused[variant.name] = "the baseline has it so"
        else:
            jobs[variant.name] = Job(variant, config, varied, common, about)
    return jobs, refused


def states(jobs: Collection[Job]) -> list[int]:
    """The hidden states that these jobs learn from, besides the last one."""
    layers = {layer for job in jobs for layer in (job.config.first_layers, job.config.entry_layer)}
    return sorted(layers - {0} - {job.config.target_layers for job in jobs})


def run(job: Job) -> dict[str, Any]:
    """Train one variant, or continue it, unless it is finished.

    Returns its row. Raises `ForeignRun`, `ForeignRecord`.
    """
    if (row := finished(job)) is not None:
        return row
    job.folder.mkdir(parents=True, exist_ok=True)
    (job.folder / ABOUT).write_text(json.dumps(job.about))
    common, recipe = job.common, job.recipe
    target = AutoModelForCausalLM.from_pretrained(common.target, dtype=torch.float32).eval()
    data = read_answers(common.answers)
    recording = Recording(common.recording, target, data, common.recorded) if common.recording else None
    left = recipe.steps - _steps_done(job.folder)
    begun = time.process_time()
    with contextlib.redirect_stdout(sys.stderr):
        model = train(job.config, target, data, job.folder, recipe, common.device, recording=recording)
    spent = time.process_time() - begun
    last = json.loads((job.folder / LOG).read_text().splitlines()[-1])
    row = {
        "variant": job.variant.name,
        "change": job.variant.change,
        "steps": recipe.steps,
        "seconds": last["seconds"],
        # What a killed run had counted is lost. All steps cost the same, so the remaining ones stand for all.
        "cpu_seconds": round(spent * recipe.steps / left, 1) if left else None,
        "trained_parameters": trained_parameters(model),
        **{name: last["unseen"][name] for name in ("chain_tau", "agreement", "divergence", "alone")},
    }
    (job.folder / RESULT).write_text(json.dumps(row, indent=1) + "\n")
    return row


def finished(job: Job) -> dict[str, Any] | None:
    """The row of a variant whose training is complete. Raises `ForeignRun`."""
    about, result = job.folder / ABOUT, job.folder / RESULT
    if about.exists() and json.loads(about.read_text()) != job.about:
        raise ForeignRun(f"{job.folder} is of other settings, answers or weights. Delete it, or give another --work.")
    return json.loads(result.read_text()) if result.exists() else None


def _steps_done(folder: Path) -> int:
    checkpoint = folder / "checkpoint.pt"
    return int(torch.load(checkpoint, map_location="cpu", weights_only=True)["step"]) if checkpoint.exists() else 0


def run_all(jobs: Sequence[Job], at_once: int) -> Iterator[dict[str, Any]]:
    """Yield each job's row when it is finished. Several at the same time run in processes of one thread each."""
    if at_once == 1:
        yield from map(run, jobs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(at_once, context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for done in as_completed([pool.submit(run, job) for job in jobs]):
            yield done.result()


def main(argv: Sequence[str] | None = None) -> None:
    names = [variant.name for variant in VARIANTS]
    default = Recipe()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=Path, required=True, help="the target's own answers, as training left them")
    parser.add_argument("--target", required=True, help="a folder, or a name on the hub")
    parser.add_argument("--work", type=Path, required=True, help="a folder for each variant")
    parser.add_argument("--only", choices=names, nargs="+", default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--steps", type=int, default=default.steps)
    parser.add_argument("--rows", type=int, default=default.rows)
    parser.add_argument("--row", type=int, default=default.row, help="tokens a row; the rest of a conversation is cut")
    parser.add_argument("--rate", type=float, default=default.rate)
    parser.add_argument("--recording", type=Path, help="keep the target's features of the answers in this file")
    parser.add_argument(
        "--recorded", type=int, nargs="+", metavar="LAYER", help="hidden states in it; those of the grid if not given"
    )
    parser.add_argument("--jobs", type=int, default=1, help="variants at once, on one thread each if more than one")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)

    target = AutoModelForCausalLM.from_pretrained(arguments.target, dtype=torch.float32).eval()
    data = read_answers(arguments.answers)
    learnt, unseen = split(data)
    if not unseen:
        parser.exit(1, f"{len(data)} conversations in {arguments.answers} leave none to check on. Give 100 or more.\n")
    recipe = replace(default, **{name: getattr(arguments, name) for name in ("steps", "rows", "row", "rate")})
    common = Common(arguments.target, arguments.answers, arguments.work, arguments.recording, (), arguments.device)
    jobs, refused = plan(target, recipe, common)
    recorded = tuple(arguments.recorded or states(jobs.values()))
    jobs = {name: replace(job, common=replace(common, recorded=recorded)) for name, job in jobs.items()}
    for name in arguments.only:
        if name in refused:
            print(f"not trained: {name}: {refused[name]}", file=sys.stderr)
    try:
        if common.recording:
            # It is recorded once here, before several processes would do it.
            Recording(common.recording, target, data, recorded)
        for row in run_all([jobs[name] for name in arguments.only if name in jobs], arguments.jobs):
            print(json.dumps(row), flush=True)
    except (ForeignRun, ForeignRecord) as error:
        parser.exit(1, f"{error}\n")
    rows = []
    for job in jobs.values():
        with contextlib.suppress(ForeignRun):  # It was not asked for, and another grid left it.
            rows += [done] if (done := finished(job)) is not None else []
    print(ablations_table(rows), file=sys.stderr)
    if arguments.json:
        about = {"learnt": len(learnt), "unseen": len(unseen), "recorded": common.recording is not None}
        about |= {name: getattr(recipe, name) for name in ("steps", "rows", "row", "rate")}
        arguments.json.write_text(
            json.dumps({"machine": machine_and_pair(), "training": about, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
