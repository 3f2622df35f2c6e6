"""MoA, EAGLE and a drafter of one call on equal terms: trained on the same answers until they are flat, then measured.

    python -m benchmarks.comparison --pages PAGES --work runs/comparison [--jobs 2] [--export DIR] [--json OUT]

One queue does all of it, in this order: the target answers questions of its recipe's training set, which no measure
asks; its activations are recorded; each drafter tries three rates for a few steps (EAGLE-3 from copied layers and from
random ones); each is trained with the best one,
once for each seed, until the held-out divergence is flat or a bound is reached; after each of these trainings, tau is
measured; in the end, one drafter at a time, on one thread, the cost of drafting. Everything is kept in --work. A killed
run continues where it was, and finished pieces are not done again. With --jobs 2, two trainings run at a time, on a
thread each.

Drafters (`benchmarks/entrants.py`) begin as layers of the target, read as many parameters in a draft step as MoA does,
send 4 bits a number, and draft in float PyTorch, without a second stage or a calibration:

- `moa`: with F first layers of the target and N = 1; `block`: its layers, but a whole block of tokens in one call
- `eagle2-f`: EAGLE-2 after the same first layers; `eagle2`: without them
- `eagle3`: with EAGLE-3.1's norms
- `layer-skip`: the target without the layers that MoA leaves out, untrained

Tau is that of trees of 60 nodes and depth 8. A block's tree has as many, from one call. The interval is a bootstrap
over prompts, each with all its seeds; beside it stands tau of each seed. Operations are those of all matrix products of
a draft, counted on some answers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from app.prompts import read_prompts
from benchmarks.acceptance import DRAFTER, PROMPTS, TARGET
from benchmarks.baseline_drafters import Baseline, BaselineRecipe, save_baseline
from benchmarks.comparison_table import comparison_lines
from benchmarks.drafting import Drafting, drafted, interval
from benchmarks.entrants import ENTRANTS, SKIP, Entrant, Setting, Start, recorded
from benchmarks.pair import machine_and_pair
from benchmarks.patience import Patience, divergences
from drafter.model import MemoryEncoder
from drafter.runtime import Drafter
from drafter.training.answers import generate_answers, read_answers
from drafter.training.distil import Distiller
from drafter.training.loop import LOG
from drafter.training.pipeline import write_folder
from drafter.training.recipe import Recipe
from drafter.training.teacher import Recording
from drafter.training.text_side import read_text_side
from models.config import SPECIAL_TOKENS, TEMPLATE, TOKENIZER
from models.engines.torch_engine import TorchEngine
from models.guide.pages import FILE, Pages
from models.guide.prompt import Prompt
from models.guide.recipe import has_marks
from models.guide.search import platforms_of
from recipes.shell_guide.drafter import SEED, STRANGE, draw_questions
from recipes.shell_guide.mixture import Mixture
from remote.verifier.making.measure import CHAIN, MOST_TOKENS, TREE, evenly

RESULT, COSTS = "result.json", "costs.json"
SHIPPED = "shipped"
"""The drafter that ships, in 8 bits on ONNX Runtime: only what it costs is measured."""
TRYING_SEED = Recipe.seed
"""The rates are tried with a seed of their own."""
FALL = 0.4
"""Share of the steps of a trial over which its rate falls."""


@dataclass(frozen=True)
class Plan:
    """The choices of a comparison. They stand in its result, and a work folder belongs to one plan."""

    target: str
    drafter: str
    conversations: int
    first_layers: int
    block: int
    rates: tuple[float, ...]
    trial: int
    """Steps of the trial of a rate."""
    seeds: tuple[int, ...]
    patience: Patience
    rows: int
    row: int
    prompts: str
    limit: int
    most: int
    """Longest answer that is measured."""
    timed: int
    """Prompts on which the cost of drafting is measured."""
    drafters: tuple[str, ...]


class ForeignWork(Exception):
    """The work folder was made with other choices. The message says what to do."""


@dataclass(frozen=True)
class Task:
    """One piece of the queue that takes long."""

    name: str
    """Its folder in the work folder."""
    entrant: str
    steps: int
    """At most so many."""
    run: Callable[[], dict[str, Any]]


# ---- what all pieces share -------------------------------------------------------------------------------------------


def record(plan: Plan, pages: Path, work: Path, batch: int) -> None:
    """Let the target answer, and record its activations. Both are skipped if they are there."""
    index, answers = Path(plan.drafter) / FILE, work / "answers.jsonl"
    if not answers.exists() or len(answers.read_bytes().splitlines()) < plan.conversations:
        target = AutoModelForCausalLM.from_pretrained(plan.target, dtype=torch.float32).eval()
        questions = draw_questions(Mixture(pages, index, SEED, strange=STRANGE), plan.conversations)
        prompt = Prompt(Pages.open(index), platforms_of("linux"), marks_names=has_marks(Path(plan.target)))
        side = read_text_side(plan.target, "shell-guide", several_turns=True)
        asked_as = prompt.asked_as
        generate_answers(
            target, side.tokenizer, questions, answers, batch=batch, new_tokens=200, half=True, asked_as=asked_as
        )
    setting_of(plan, work)


@cache
def setting_of(plan: Plan, work: Path) -> Setting:
    """Target, answers and recording, once in each process."""
    target = AutoModelForCausalLM.from_pretrained(plan.target, dtype=torch.float32).eval().requires_grad_(False)
    data = read_answers(work / "answers.jsonl")
    layers = recorded(target.config.num_hidden_layers, plan.first_layers)
    return Setting(
        target,
        data,
        Recording(work / "features", target, data, layers),
        Drafter.load(Path(plan.drafter)),
        plan.first_layers,
        BaselineRecipe(rows=plan.rows, row=plan.row),
        plan.block,
    )


def entrant_of(name: str) -> Entrant:
    return next(entrant for entrant in ENTRANTS if entrant.name == name)


def prompts_of(plan: Plan, setting: Setting, limit: int) -> list[list[int]]:
    asked = [prompt.turns[0] for prompt in read_prompts(Path(plan.prompts))]
    return [setting.asker.asked_as(question) for question in evenly(asked, limit)]


# ---- the pieces ------------------------------------------------------------------------------------------------------


def try_rate(plan: Plan, work: Path, name: str, start: Start, rate: float) -> dict[str, Any]:
    """Train a few steps with a rate that falls. Returns the held-out divergence at the end."""
    setting, entrant, out = setting_of(plan, work), entrant_of(name), work / _trial(name, start, rate)
    recipe = replace(setting.recipe, rate=rate, seed=TRYING_SEED)
    entrant.train(setting, replace(recipe, steps=plan.trial, decay=FALL), out, start)
    return {
        "drafter": name,
        "start": start,
        "rate": rate,
        "divergence": divergences(out / LOG, plan.trial)[-1],
        **_took(out),
    }


def train_and_measure(plan: Plan, work: Path, name: str, seed: int) -> dict[str, Any]:
    """Train with the best rate until it is flat, and measure tau. Returns what a row of the result is made of."""
    setting, entrant, out = setting_of(plan, work), entrant_of(name), work / _seeded(name, seed)
    found: dict[str, Any] = {"drafter": name, "seed": seed}
    if name == SKIP:
        model = entrant.untrained(setting)
    else:
        start, rate = best_trial(plan, work, name)
        recipe = replace(setting.recipe, rate=rate, seed=seed)
        model, flat = entrant.train_until_flat(setting, recipe, plan.patience, out, start)
        steps = flat + plan.patience.fall
        found |= {
            "start": start,
            "rate": rate,
            "flat": flat,
            "steps": steps,
            "divergence": divergences(out / LOG, steps)[-1],
        }
        found |= _took(out)
    engine, drafter = entrant.ready(setting, model)
    prompts = prompts_of(plan, setting, plan.limit)
    tree = drafted(engine, drafter, prompts, TREE, plan.most)
    found |= {"tau": round(tree.tau, 3), "tokens": tree.tokens, "rounds": tree.rounds}
    judged = tree.tally.offered > 0
    shares = tree.tally.accepted[judged] / tree.tally.offered[judged]
    found |= {"by_depth": [round(float(share), 3) for share in shares]}
    if seed == plan.seeds[0]:
        found |= {"chain_tau": round(drafted(engine, drafter, prompts, CHAIN, plan.most).tau, 3)}
    return found


def measure_costs(plan: Plan, work: Path) -> list[dict[str, Any]]:
    """What drafting costs each drafter of the first seed: time on one thread, in turns by prompt, and operations."""
    torch.set_num_threads(1)
    setting, ready = setting_of(plan, work), {}
    for name in plan.drafters:
        entrant = entrant_of(name)
        model = entrant.untrained(setting) if name == SKIP else _trained(plan, work, name)
        ready[name] = entrant.ready(setting, model)
    ready[SHIPPED] = TorchEngine(setting.target, MemoryEncoder.load(Path(plan.drafter))), setting.asker
    costs = {name: Drafting() for name in ready}
    for prompt in prompts_of(plan, setting, plan.timed):
        for name, (engine, drafter) in ready.items():
            one = drafted(engine, drafter, [prompt], TREE, plan.most)
            for field in ("drafts", "calls", "draft_seconds", "seconds"):
                setattr(costs[name], field, getattr(costs[name], field) + getattr(one, field))
    rows = []
    for name, (engine, drafter) in ready.items():
        cost = costs[name]
        if not cost.drafts:
            continue  # All answers ended with their first draft.
        counted = drafted(engine, drafter, prompts_of(plan, setting, 8), TREE, plan.most, count_operations=True)
        rows.append(
            {
                "drafter": name,
                "drafts": cost.drafts,
                "calls": round(cost.calls / cost.drafts, 3),
                "call_ms": round(1000 * cost.draft_seconds / cost.calls, 3),
                "draft_ms": round(1000 * cost.draft_seconds / cost.drafts, 3),
                "drafting": round(cost.draft_seconds / cost.seconds, 4),
                # ONNX Runtime's operations are not seen.
                "gflop": round(counted.operations / counted.drafts / 1e9, 5) if counted.operations else None,
            }
        )
    return rows


def export(plan: Plan, work: Path, out: Path) -> None:
    """Write the MoA and EAGLE drafters of the first seed as folders below `out`, for `python -m benchmarks.network`."""
    setting = setting_of(plan, work)
    for name in plan.drafters:
        if name in (SKIP, "block") or not (work / _seeded(name, plan.seeds[0]) / RESULT).exists():
            continue
        model, folder = _trained(plan, work, name), out / name
        if isinstance(model, Baseline):
            save_baseline(model, folder)
            continue
        assert isinstance(model, Distiller)
        folder.mkdir(parents=True, exist_ok=True)
        for file in (TOKENIZER, TEMPLATE, SPECIAL_TOKENS, FILE):
            if (Path(plan.drafter) / file).exists():
                shutil.copyfile(Path(plan.drafter) / file, folder / file)
        config = msgspec.structs.replace(model.config, prompt_recipe=setting.asker.config.prompt_recipe)
        with tempfile.TemporaryDirectory() as scratch:
            write_folder(model, setting.target, config, setting.data, Path(scratch), folder, datastore=0)


def _trained(plan: Plan, work: Path, name: str) -> nn.Module:
    """The model of the first seed, as its training left it."""
    setting, out = setting_of(plan, work), work / _seeded(name, plan.seeds[0])
    done = _result(out)
    # The checkpoint is whole, so nothing is trained.
    recipe = replace(setting.recipe, rate=done["rate"], seed=plan.seeds[0], steps=done["steps"])
    return entrant_of(name).train(setting, recipe, out, done["start"])


def best_trial(plan: Plan, work: Path, name: str) -> tuple[Start, float]:
    """The start and the rate whose trial ended with the least divergence."""
    trials = [_result(work / folder) for folder in _trials(plan, name)]
    best = min(trials, key=lambda trial: trial["divergence"])
    return best["start"], best["rate"]


def result_of(plan: Plan, work: Path) -> dict[str, Any]:
    """The document of all finished pieces."""
    path = work / COSTS
    costs = {row["drafter"]: row for row in json.loads(path.read_text())} if path.exists() else {}
    rows = []
    for name in plan.drafters:
        seeds = plan.seeds[:1] if name == SKIP else plan.seeds
        done = [_result(path) for seed in seeds if ((path := work / _seeded(name, seed)) / RESULT).exists()]
        if not done:
            continue
        setting = setting_of(plan, work)
        tokens, counts = ([one[part] for one in done] for part in ("tokens", "rounds"))
        trained = [one for one in done if "steps" in one]
        rows.append(
            {
                "drafter": name,
                **entrant_of(name).sizes(setting),
                "tau": round(sum(map(sum, tokens)) / sum(map(sum, counts)), 3),
                "ci95": list(interval(tokens, counts)),
                "seeds": {str(one["seed"]): one["tau"] for one in done} if trained else {},
                "chain_tau": done[0].get("chain_tau"),
                "by_depth": done[0]["by_depth"],
                "rate": trained[0]["rate"] if trained else None,
                "steps": [one["steps"] for one in trained],
                "flat": [one["flat"] < plan.patience.bound for one in trained],
                "seconds": [one["seconds"] for one in trained],
                "divergence": [one["divergence"] for one in trained],
                "start": trained[0]["start"] if trained else None,
                "trials": [
                    {key: trial[key] for key in ("start", "rate", "divergence")}
                    for folder in (_trials(plan, name) if trained else [])
                    for trial in [_result(work / folder)]
                ],
                **{key: value for key, value in costs.get(name, {}).items() if key != "drafter"},
            }
        )
    document = {"machine": machine_and_pair(Path(plan.drafter)), "plan": asdict(plan), "rows": rows}
    return document | ({"shipped": costs[SHIPPED]} if SHIPPED in costs else {})


def _trial(name: str, start: Start, rate: float) -> str:
    return f"rates/{name}-{start}-{rate:g}"


def _trials(plan: Plan, name: str) -> list[str]:
    """The folders of all trials of a drafter."""
    return [_trial(name, start, rate) for start in entrant_of(name).starts for rate in plan.rates]


def _seeded(name: str, seed: int) -> str:
    return f"seeds/{name}-{seed}"


def _result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / RESULT).read_text())
    return found


def _took(out: Path) -> dict[str, float]:
    """Seconds of a training, over all runs."""
    return {"seconds": float(json.loads((out / LOG).read_text().splitlines()[-1])["seconds"])}


# ---- the queue -------------------------------------------------------------------------------------------------------


def queue(plan: Plan, work: Path) -> tuple[list[Task], list[Task]]:
    """The trials of all rates, and the trainings: all drafters with the first seed, then with the next one."""
    # What takes longest begins first, so that no job is left alone with it in the end.
    ordered = sorted(plan.drafters, key=lambda name: -entrant_of(name).seconds)
    learning = [name for name in ordered if name != SKIP]
    trials = [
        Task(_trial(name, start, rate), name, plan.trial, partial(try_rate, plan, work, name, start, rate))
        for name in learning
        for start in entrant_of(name).starts
        for rate in plan.rates
    ]
    bound = plan.patience.bound + plan.patience.fall
    trainings = [
        Task(_seeded(name, seed), name, bound, partial(train_and_measure, plan, work, name, seed))
        for seed in plan.seeds
        for name in (ordered if seed == plan.seeds[0] else learning)
    ]
    return trials, [
        Task(task.name, task.entrant, 0 if task.entrant == SKIP else task.steps, task.run) for task in trainings
    ]


class Estimate:
    """How long the rest of the queue takes, from what finished pieces took a step."""

    def __init__(self) -> None:
        self._steps: dict[str, int] = {}
        self._seconds: dict[str, float] = {}

    def add(self, task: Task, steps: int, seconds: float) -> None:
        self._steps[task.entrant] = self._steps.get(task.entrant, 0) + steps
        self._seconds[task.entrant] = self._seconds.get(task.entrant, 0.0) + seconds

    def left(self, tasks: Sequence[Task], jobs: int) -> float:
        """Seconds, if every training goes to its bound. Measuring is not counted."""
        return sum(task.steps * self._step(task.entrant) for task in tasks) / jobs

    def _step(self, name: str) -> float:
        known = self._steps.get(name, 0)
        return self._seconds[name] / known if known else entrant_of(name).seconds


def run_all(tasks: Sequence[Task], later: Sequence[Task], work: Path, jobs: int, estimate: Estimate) -> None:
    """Run what is not finished, and say after each piece how long the rest may take. `later`: what comes after it."""
    waiting = {task.name: task for task in tasks}
    for task in tasks:
        if (work / task.name / RESULT).exists():
            _count(estimate, task, _result(work / task.name))
            del waiting[task.name]
    total = len(tasks)

    def finished(task: Task, row: dict[str, Any]) -> None:
        del waiting[task.name]
        _count(estimate, task, row)
        rest = estimate.left([*waiting.values(), *later], jobs)
        shown = {key: row[key] for key in ("divergence", "steps", "tau") if key in row}
        said = ", ".join(f"{key} {value}" for key, value in shown.items())
        left = f"at most {rest / 3600:.1f} h of training left"
        print(f"[{total - len(waiting)}/{total}] {task.name}: {said}; {left}", file=sys.stderr, flush=True)

    todo = list(waiting.values())
    if jobs == 1:
        for task in todo:
            finished(task, run_one(task, work))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        running = {pool.submit(run_one, task, work): task for task in todo}
        for done in as_completed(running):
            finished(running[done], done.result())


def _count(estimate: Estimate, task: Task, row: dict[str, Any]) -> None:
    if "seconds" in row:
        estimate.add(task, row.get("steps", task.steps), row["seconds"])


def run_one(task: Task, work: Path) -> dict[str, Any]:
    """Run a piece and keep its result. What trainings say goes to a file beside it."""
    folder = work / task.name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "said.txt").open("a") as said, contextlib.redirect_stderr(said):
        row = task.run()
    partial_file = folder / "result.partial"
    partial_file.write_text(json.dumps(row, indent=1) + "\n")
    partial_file.replace(folder / RESULT)
    return row


def claim(plan: Plan, work: Path) -> None:
    """Note the plan in the work folder. Raises `ForeignWork` if it has another one."""
    work.mkdir(parents=True, exist_ok=True)
    about, path = json.loads(json.dumps(asdict(plan))), work / "plan.json"
    if path.exists() and json.loads(path.read_text()) != about:
        raise ForeignWork(f"{work} was made with other options; its plan.json has them. Give these, or another --work.")
    path.write_text(json.dumps(about, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> None:
    names = [entrant.name for entrant in ENTRANTS]
    patience = Patience()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, required=True, help="tldr pages, as the recipe reads them")
    parser.add_argument("--work", type=Path, required=True, help="a folder for all pieces")
    parser.add_argument("--target", default=str(TARGET))
    parser.add_argument(
        "--moa", default=str(DRAFTER), metavar="DIR", help="a drafter of the target, for how it is asked"
    )
    parser.add_argument("--drafters", choices=names, nargs="+", default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--conversations", type=int, default=2000, help="that the target answers, to learn from")
    parser.add_argument("--batch", type=int, default=1000, help="conversations between two points to resume from")
    parser.add_argument("--first-layers", type=int, default=3, help="F")
    parser.add_argument("--block", type=int, default=8, help="tokens of a block")
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-3, 2.5e-3, 6e-3])
    parser.add_argument("--trial", type=int, default=80, help="steps of the trial of a rate")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--bound", type=int, default=patience.bound, help="most steps before the rate falls")
    parser.add_argument("--fall", type=int, default=patience.fall, help="steps over which it falls")
    parser.add_argument("--every", type=int, default=patience.every, help="steps between looks at held-out answers")
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--row", type=int, default=384, help="tokens a row; the rest of a conversation is cut")
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--limit", type=int, default=200, help="prompts that tau is measured on, spread evenly")
    parser.add_argument("--max-tokens", type=int, default=MOST_TOKENS)
    parser.add_argument("--timed", type=int, default=20, help="prompts on which the cost of drafting is measured")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time, on one thread each if more than one")
    parser.add_argument("--export", type=Path, metavar="DIR", help="write drafters of the first seed there, as folders")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    plan = Plan(
        target=arguments.target,
        drafter=arguments.moa,
        conversations=arguments.conversations,
        first_layers=arguments.first_layers,
        block=arguments.block,
        rates=tuple(arguments.rates),
        trial=arguments.trial,
        seeds=tuple(arguments.seeds),
        patience=Patience(arguments.bound, arguments.every, fall=arguments.fall),
        rows=arguments.rows,
        row=arguments.row,
        prompts=str(arguments.prompts),
        limit=arguments.limit,
        most=arguments.max_tokens,
        timed=arguments.timed,
        drafters=tuple(name for name in names if name in arguments.drafters),
    )
    work: Path = arguments.work
    try:
        claim(plan, work)
    except ForeignWork as error:
        parser.exit(1, f"{error}\n")
    began = time.monotonic()
    record(plan, arguments.pages, work, arguments.batch)
    trials, trainings = queue(plan, work)
    estimate = Estimate()
    run_all(trials, trainings, work, arguments.jobs, estimate)
    run_all(trainings, [], work, arguments.jobs, estimate)
    if not (work / COSTS).exists():
        (work / COSTS).write_text(json.dumps(measure_costs(plan, work), indent=1) + "\n")
    if arguments.export:
        export(plan, work, arguments.export)
    document = result_of(plan, work)
    print(comparison_lines(document["rows"]))
    print(f"this run took {(time.monotonic() - began) / 3600:.1f} h", file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
