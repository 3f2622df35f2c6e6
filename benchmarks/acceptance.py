"""Tokens gained per round on held-out prompts, by drafter: tau, acceptance by depth, agreement by staleness.

    python -m benchmarks.acceptance [--drafter NAME ...] [--others DIR ...] [--prompts FILE] [--limit N]
        [--temperature T ...] [--depth D] [--calibrate] [--json OUT]

Target and drafters run in one process without a network, greedily unless other temperatures are given. Tau counts the
bonus token, so plain decoding is 1.00. The rows are: the MoA drafter with trees of 60 nodes and depth 8; the same as a
chain of 7; the same trees with guesses of a second stage among their nodes, from the conversation and the drafter's
datastore; the baselines of `benchmarks/baseline_drafters` with trees of 60; and prompt lookup (the continuation of the
longest n-gram that occurred before, at most 7 tokens), which needs no model. `--others` are MoA drafters with another F
or N, each in a row `moa-fF-nN`. `--depth` is for trees with as many nodes and another depth.

A drafter learns about the target what a device would: only of verified tokens, after their round, in the form that
crosses the wire (MoA's memory in int8, EAGLE's features in float16).

Above temperature 0, the MoA drafter has two rows of each shape: for deterministic trees, and for sampled trees with
recursive rejection, which hold no guesses. `expected_tau` is the sum of the drafter's own chances. With `--calibrate`
it learns from the verdicts, from nothing in each row, and chooses its trees by what it has learnt.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from app.config import TreeRule
from app.prompts import read_prompts
from benchmarks.baseline_drafters import METHODS, Baseline, BaselineContext, FeatureTap, load_baseline
from benchmarks.baseline_drafters.block_context import BlockContext, BlockDrafter
from benchmarks.baseline_drafters.shapes import moa_parameters, own_parameters
from benchmarks.pair import machine_and_pair
from drafter.calibration import Calibration
from drafter.context import DraftContext
from drafter.model import MemoryEncoder
from drafter.runtime import Drafter
from drafter.search import Pace
from models.config import DrafterError
from models.engines.engine import Engine, TargetContext
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from models.memory import memory_bytes
from models.tree import DraftTree
from remote.protocol import Sampling
from remote.verifier.making.measure import (
    CHAIN,
    MOST_TOKENS,
    TREE,
    MeasuredRound,
    PromptLookup,
    Tally,
    Tell,
    evenly,
    memory_telling,
    rounds,
)
from remote.verifier.making.measure import agreement_by_staleness as agreement_of
from remote.verifier.making.measure import measure as measure_moa

REPOSITORY = Path(__file__).parents[1]
PROMPTS = REPOSITORY / "tests/data/heldout_pages.jsonl"
TARGET = REPOSITORY / "remote/verifier/pretrained/shell-guide"
DRAFTER = REPOSITORY / "drafter/pretrained/shell-guide"
BASELINES = REPOSITORY / "benchmarks/baselines"

LOOKUP = "prompt-lookup"
STAGED = "moa-staged"
DRAFTED = ("moa", "moa-chain-7", STAGED)
"""The rows of the MoA drafter."""
SAMPLED = ("moa", "moa-chain-7")
"""Rows that are also measured with sampled trees, above temperature 0."""
ROWS = {"moa": "moa", "chain": "moa-chain-7", "staged": STAGED} | {name: name for name in (*METHODS, LOOKUP)}
"""Values of `--drafter` -> the row that each makes."""


def pace_of(name: str, depth: int) -> Pace:
    """The pace of the row of this name. Baselines have that of MoA. `depth`: of trees."""
    if name in ("moa-chain-7", LOOKUP):
        return CHAIN
    return replace(TREE, depth=depth, deepest=depth if name == STAGED else TREE.deepest)


@contextmanager
def telling(
    engine: Engine, drafter: Drafter | Baseline | BlockDrafter, draft: DraftContext | BaselineContext | BlockContext
) -> Iterator[Tell]:
    """Gives a conversation's drafter what it gets from the target after each round, in its wire form."""
    if isinstance(drafter, Drafter | BlockDrafter):
        assert isinstance(draft, DraftContext | BlockContext)
        with memory_telling(engine, drafter, draft) as tell:  # type: ignore[arg-type]
            yield tell
        return
    assert isinstance(draft, BaselineContext)
    if not drafter.config.features:
        yield lambda *_: None
        return
    with FeatureTap(engine.model, drafter.config.features) as tap:

        @torch.no_grad()
        def features(context: TargetContext, tree: DraftTree, accepted: tuple[int, ...]) -> None:
            draft.remember(draft.remembered, drafter.wire(drafter.encode(tap.take(len(tree), accepted).float())))

        yield features


def measure(
    engine: Engine,
    drafter: Drafter | Baseline | BlockDrafter,
    prompts: Iterable[list[int]],
    name: str,
    most: int = MOST_TOKENS,
    *,
    depth: int = TREE.depth,
    temperature: float = 0.0,
    tree_rule: TreeRule = "deterministic",
    calibration: Calibration | None = None,
) -> Tally:
    """Measure all prompts with the way of drafting of one row; see `remote.verifier.making.measure`."""
    if isinstance(drafter, Drafter) and name in DRAFTED:
        return measure_moa(
            engine,
            drafter,
            prompts,
            pace_of(name, depth),
            most,
            temperature=temperature,
            sampled=tree_rule == "sampled",
            calibration=calibration,
            stored=(drafter.datastore(),) if name == STAGED else None,
        )
    tally = Tally()
    pace = pace_of(name, depth)
    for seed, prompt in enumerate(prompts):
        tally.add(_drafted(engine, drafter, prompt, name, pace, most, Sampling(temperature=temperature, seed=seed)))
    return tally


def _drafted(
    engine: Engine,
    drafter: Drafter | Baseline | BlockDrafter,
    prompt: list[int],
    name: str,
    pace: Pace,
    most: int,
    sampling: Sampling,
) -> Iterator[MeasuredRound]:
    stops = frozenset(drafter.config.stop_tokens)
    if name == LOOKUP:
        yield from rounds(engine, prompt, PromptLookup(), stops, most, sampling)
        return
    draft = drafter.context()
    draft.commit(prompt)
    with telling(engine, drafter, draft) as tell:
        for round in rounds(engine, prompt, lambda _: draft.draft(pace), stops, most, sampling):
            draft.commit(round.new)
            tell(round.context, round.tree, round.accepted)
            yield round


def agreement_by_staleness(
    engine: Engine, drafter: Drafter | Baseline, prompts: Iterable[list[int]], most: int = MOST_TOKENS
) -> dict[str, float]:
    """Agreement by staleness as in `remote.verifier.making.measure`, for baselines too."""
    return agreement_of(engine, drafter, prompts, most, telling)


def costs(drafter: Drafter | Baseline, name: str) -> dict[str, object]:
    """The costs of a drafter: trained parameters, bytes on the wire per verified token, and training if known."""
    if isinstance(drafter, Baseline):
        config = drafter.config
        size, wire = own_parameters(config), drafter.bytes_per_token
        return {"trained_parameters": size, "bytes_per_token": wire, "steps": config.steps, "seconds": config.seconds}
    if name == LOOKUP:
        return {"trained_parameters": 0, "bytes_per_token": 0}
    wire = memory_bytes(1, drafter.memory_layers, drafter.config.memory_bits)
    size, trained = moa_parameters(drafter.config), {"steps": drafter.config.steps, "seconds": drafter.config.seconds}
    return {"trained_parameters": size, "bytes_per_token": wire} | (trained if drafter.config.steps else {})


def opened(
    names: Sequence[str], moa: Drafter, folder: Path, engine: Engine, target: str
) -> dict[str, Drafter | Baseline]:
    """The drafter of each row. "all" skips missing ones. Raises `DrafterError` for a missing one that is named."""
    drafters: dict[str, Drafter | Baseline] = {}
    for name in ROWS if "all" in names else names:
        if name not in METHODS:
            drafters[ROWS[name]] = moa
            continue
        try:
            drafters[name] = load_baseline(folder / name, engine.model)
        except DrafterError as error:
            command = "python -m recipes.shell_guide.baselines --answers FILE"
            message = f"{error} Train it: {command} --target {target} --which {name} --out {folder / name}"
            if "all" not in names:
                raise type(error)(message) from None
            print(message, file=sys.stderr)
    return drafters


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafter", choices=(*ROWS, "all"), nargs="+", default=["all"])
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--target", default=str(TARGET))
    parser.add_argument("--moa", type=Path, default=DRAFTER, metavar="DIR", help="the MoA drafter")
    parser.add_argument("--others", type=Path, nargs="+", default=[], metavar="DIR", help="more MoA drafters")
    parser.add_argument("--baselines", type=Path, default=BASELINES, metavar="DIR", help="a folder for each of them")
    parser.add_argument("--limit", type=int, default=200, help="prompts, spread evenly over the file")
    parser.add_argument("--max-tokens", type=int, default=160, help="most tokens of an answer")
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.0], metavar="T", help="0: greedy")
    parser.add_argument("--depth", type=int, default=TREE.depth, metavar="D", help="depth of the trees")
    parser.add_argument("--calibrate", action="store_true", help="MoA learns from the verdicts of each row as it goes")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    torch.manual_seed(0)
    drafter = Drafter.load(arguments.moa)
    model = load_target(arguments.target).model
    engine = TorchEngine(model, MemoryEncoder.load(arguments.moa))
    try:
        drafters = opened(arguments.drafter, drafter, arguments.baselines, engine, arguments.target)
        measured = [(name, name, one, engine) for name, one in drafters.items()]
        for folder in arguments.others:
            other = Drafter.load(folder)
            row_name = f"moa-f{other.config.first_layers}-n{other.config.inference_layers}"
            measured.append((row_name, "moa", other, TorchEngine(model, MemoryEncoder.load(folder))))
    except DrafterError as error:
        parser.exit(1, f"{error}\n")
    asked = [prompt.turns[0] for prompt in read_prompts(arguments.prompts)]
    prompts = [drafter.asked_as(question) for question in evenly(asked, arguments.limit)]
    rows, most, depth = [], arguments.max_tokens, arguments.depth
    rules: tuple[TreeRule, ...] = ("deterministic", "sampled")
    for temperature, (row_name, name, one, engine), rule in itertools.product(arguments.temperature, measured, rules):
        if rule == "sampled" and (temperature == 0 or name not in SAMPLED):
            continue
        calibration = Calibration() if arguments.calibrate and name in DRAFTED else None
        tally = measure(
            engine,
            one,
            prompts,
            name,
            most,
            depth=depth,
            temperature=temperature,
            tree_rule=rule,
            calibration=calibration,
        )
        row = {**tally.row(row_name), "depth": pace_of(name, depth).depth, "temperature": temperature}
        row |= {"tree": rule, "calibrated": calibration is not None}
        # The same tokens are likeliest, whatever the trees.
        alone = (name == "moa" or name in METHODS) and temperature == 0 and depth == TREE.depth
        row["by_staleness"] = agreement_by_staleness(engine, one, prompts, most) if alone else {}
        row |= costs(one, name)
        rows.append(row)
        print(json.dumps(row), flush=True)
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"machine": machine_and_pair(arguments.moa), "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
