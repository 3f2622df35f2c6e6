"""Tokens gained per round, by drafter, over held-out prompts: tau, acceptance by depth, agreement by staleness.

    python -m benchmarks.acceptance [--drafter NAME ...] [--prompts FILE] [--limit N] [--temperature T ...]
                                    [--calibrate] [--json OUT]

Target and drafters run in one process without a network, greedily unless other temperatures are asked for. Tau counts
the bonus token: plain decoding is 1.00. The rows: the MoA drafter with trees of 60 nodes and depth 8, the same as a
chain of 7, the baselines of `drafter/training/baselines` with the same trees, and prompt lookup (the continuation of
the longest n-gram that occurred before, at most 7 tokens), which needs no model at all. What a drafter learns of the
target it gets as a device would: of verified tokens only, after their round, and as it would cross the wire (MoA's
memory in int8, EAGLE's features in float16).

Above temperature 0 the MoA drafter has two rows of each shape: for deterministic trees, and for sampled ones with
recursive rejection. `expected_tau` is what the drafter's own chances add up to; with `--calibrate` it learns from the
verdicts as it goes, from nothing in each row, and chooses its trees by what it has learnt.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from app.config import TreeRule
from app.prompts import read_prompts
from drafter.calibration import Calibration
from drafter.config import DrafterError
from drafter.context import DraftContext
from drafter.memory import memory_bytes, unpack_memory
from drafter.model import MemoryEncoder
from drafter.multicandidate import DraftSampling
from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.training.baselines import METHODS, Baseline, BaselineContext, load_baseline
from drafter.training.baselines.shapes import moa_parameters, own_parameters
from drafter.training.target import FeatureTap
from drafter.tree import ROOT, DraftTree
from remote.protocol import Sampling
from remote.verifier.acceptance import chooser, walk
from remote.verifier.engine import Context, Engine
from remote.verifier.serve import load_target

REPOSITORY = Path(__file__).parents[1]
PROMPTS = REPOSITORY / "tests/data/heldout_pages.jsonl"
TARGET = REPOSITORY / "remote/verifier/pretrained/shell-guide"
DRAFTER = REPOSITORY / "drafter/pretrained/shell-guide"
BASELINES = REPOSITORY / "benchmarks/baselines"

LOOKUP = "prompt-lookup"
PACES = {"moa": Pace(depth=8, breadth=8, nodes=60), "moa-chain-7": Pace(depth=7, breadth=1, nodes=7)}
"""Baselines draft at the pace of the first."""
ROWS = {"moa": "moa", "chain": "moa-chain-7"} | {name: name for name in (*METHODS, LOOKUP)}
"""What `--drafter` takes -> the row it makes."""
STALENESS = (1, 8, 16, 32, 64, 128)


@dataclass
class Tally:
    """Rounds of one drafter."""

    gained: list[list[int]] = field(default_factory=list)
    """Per prompt, tokens gained in each of its rounds."""
    offered: np.ndarray = field(default_factory=lambda: np.zeros(16, int))
    accepted: np.ndarray = field(default_factory=lambda: np.zeros(16, int))
    expected: list[float] = field(default_factory=list)
    """Per round, tau as the drafter expected it; empty where it says nothing."""

    def judge(self, tree: DraftTree, accepted: tuple[int, ...], new: list[int]) -> None:
        """Count by depth what the target judged: the nodes it took, and the children of the last one if it took none.

        Nothing was judged after a stop token, nor where the answer was full.
        """
        self.offered[: len(accepted)] += 1
        self.accepted[: len(accepted)] += 1
        children = tree.children().get(accepted[-1] if accepted else ROOT, {})
        if children and len(new) > len(accepted) and new[-1] not in children:
            self.offered[len(accepted)] += 1

    def row(self, name: str) -> dict[str, object]:
        """tau with a 95 % interval, by a bootstrap over prompts."""
        rounds = np.array([len(prompt) for prompt in self.gained])
        tokens = np.array([sum(prompt) for prompt in self.gained])
        picks = np.random.default_rng(0).integers(len(rounds), size=(2000, len(rounds)))
        taus = tokens[picks].sum(1) / rounds[picks].sum(1)
        depths = self.offered > 0
        return {
            "drafter": name,
            "tau": round(tokens.sum() / rounds.sum(), 3),
            "ci95": [round(float(bound), 3) for bound in np.quantile(taus, (0.025, 0.975))],
            "by_depth": [round(float(a / o), 3) for a, o in zip(self.accepted[depths], self.offered[depths])],
            "prompts": len(rounds),
            "rounds": int(rounds.sum()),
            "expected_tau": round(float(np.mean(self.expected)), 3) if self.expected else None,
        }


class PromptLookup:
    """The continuation of the longest recent n-gram, as a chain; knows only the tokens so far."""

    def __init__(self, longest: int = 3, length: int = 7) -> None:
        self.longest, self.length = longest, length

    def __call__(self, tokens: list[int]) -> DraftTree:
        for size in range(self.longest, 0, -1):
            suffix = tokens[-size:]
            for start in range(len(tokens) - size - 1, -1, -1):
                if tokens[start : start + size] == suffix:
                    return DraftTree.chain(tokens[start + size : start + size + self.length])
        return DraftTree.empty()


Tell = Callable[[Context, DraftTree, tuple[int, ...]], None]
"""Hand over what came of a round: the verifier's context after it, the tree that it judged, the accepted nodes."""


@contextmanager
def telling(engine: Engine, drafter: Drafter | Baseline, draft: DraftContext | BaselineContext) -> Iterator[Tell]:
    """What a conversation's drafter gets from the target after each of its rounds, in its wire form."""
    if isinstance(drafter, Baseline):
        assert isinstance(draft, BaselineContext)
        if not drafter.config.features:
            yield lambda *_: None
            return
        with FeatureTap(engine.model, drafter.config.features) as tap:

            @torch.no_grad()
            def features(context: Context, tree: DraftTree, accepted: tuple[int, ...]) -> None:
                draft.remember(draft.remembered, drafter.encode(tap.take(len(tree), accepted).float()).half())

            yield features
    else:
        assert isinstance(draft, DraftContext)
        start = 0

        def memory(context: Context, tree: DraftTree, accepted: tuple[int, ...]) -> None:
            nonlocal start
            if (end := context.computed) > start:
                rows = unpack_memory(engine.memory(context, start, end), end - start, drafter.memory_layers)
                draft.remember(start, rows)
                start = end

        yield memory


def rounds(
    engine: Engine,
    prompt: list[int],
    propose: Callable[[list[int]], DraftTree],
    stops: frozenset[int],
    most: int,
    sampling: Sampling | None = None,
) -> Iterator[tuple[Context, DraftTree, tuple[int, ...], list[int]]]:
    """Rounds of one answer, greedy ones by default: (context, tree, accepted nodes, new tokens)."""
    sampling = sampling or Sampling()
    context = engine.context()
    context.assign(0, prompt)
    # The first round carries the prompt and no draft: the drafter has no memory before it.
    tree = DraftTree.empty()
    while True:
        logits = engine.verify(context, tree)
        room = len(prompt) + most - len(context.tokens)
        choose = chooser(logits, sampling, tree)
        outcome = walk(tree, choose, position=len(context.tokens), room=room, stop_tokens=stops)
        new = context.commit(tree, outcome.accepted, outcome.bonus)
        yield context, tree, outcome.accepted, new
        if new[-1] in stops or len(context.tokens) >= len(prompt) + most:
            return
        tree = propose(context.tokens)


def measure(
    engine: Engine,
    drafter: Drafter | Baseline,
    prompts: Iterable[list[int]],
    name: str,
    most: int = 160,
    *,
    temperature: float = 0.0,
    tree_rule: TreeRule = "deterministic",
    calibration: Calibration | None = None,
) -> Tally:
    """All prompts with one way of drafting. The opening round, which no drafter can serve, does not count.

    `calibration` learns from each verdict and takes part in the choice of the next tree.
    """
    tally, stops = Tally(), frozenset(drafter.config.stop_tokens)
    lookup = PromptLookup()
    for seed, prompt in enumerate(prompts):
        draft = drafter.context()
        draft.commit(prompt)
        pace = None if name == LOOKUP else PACES.get(name, PACES["moa"])
        sampling = Sampling(temperature=temperature, seed=seed)
        drawn = DraftSampling(temperature, seed=seed) if tree_rule == "sampled" else None
        propose = lookup if pace is None else _drafts(draft, pace, drawn, calibration)
        gained: list[int] = []
        opening = True
        with telling(engine, drafter, draft) as tell:
            for context, tree, accepted, new in rounds(engine, prompt, propose, stops, most, sampling):
                draft.commit(new)
                if calibration is not None:
                    calibration.learn(tree, accepted, new[-1] if len(new) > len(accepted) else None)
                if pace is not None:
                    tell(context, tree, accepted)
                if opening:
                    opening = False
                    continue
                gained.append(len(new))
                tally.judge(tree, accepted, new)
                if pace is not None and tree.expected_tau is not None:
                    tally.expected.append(tree.expected_tau)
        if gained:
            tally.gained.append(gained)
    return tally


def _drafts(
    draft: DraftContext | BaselineContext,
    pace: Pace,
    sampling: DraftSampling | None,
    calibration: Calibration | None,
) -> Callable[[list[int]], DraftTree]:
    if isinstance(draft, BaselineContext):
        return lambda tokens: draft.draft(pace)
    return lambda tokens: draft.draft(pace, sampling, calibration)


def agreement_by_staleness(
    engine: Engine, drafter: Drafter | Baseline, prompts: Iterable[list[int]], most: int = 160
) -> dict[str, float]:
    """Share of the target's tokens that are the drafter's first choice, by tokens since it last heard of the target."""
    hits, counts = np.zeros(len(STALENESS)), np.zeros(len(STALENESS))
    stops, empty = frozenset(drafter.config.stop_tokens), DraftTree.empty()
    one = Pace(depth=1, breadth=1, nodes=1)
    for prompt in prompts:
        draft = drafter.context()
        draft.commit(prompt)
        answer = [token for *_, new in rounds(engine, prompt, lambda _: empty, stops, most) for token in new]
        context = engine.context()
        context.assign(0, prompt)
        with telling(engine, drafter, draft) as tell:
            engine.verify(context, empty)
            tell(context, empty, ())
        # The token that the target gives with this memory is the first whose own memory is not here.
        draft.commit(answer[:1])
        for stale, token in enumerate(answer[1:], 1):
            bucket = int(np.searchsorted(STALENESS, stale, side="right")) - 1
            hits[bucket] += int(draft.draft(one).tokens[0]) == token
            counts[bucket] += 1
            draft.commit([token])
    return {str(edge): round(float(h / c), 3) for edge, h, c in zip(STALENESS, hits, counts) if c}


def costs(drafter: Drafter | Baseline, name: str) -> dict[str, object]:
    """What a drafter takes: trained parameters, bytes on the wire per verified token, and training where known."""
    if isinstance(drafter, Baseline):
        config = drafter.config
        size, wire = own_parameters(config), drafter.bytes_per_token
        return {"trained_parameters": size, "bytes_per_token": wire, "steps": config.steps, "seconds": config.seconds}
    if name == LOOKUP:
        return {"trained_parameters": 0, "bytes_per_token": 0}
    wire = memory_bytes(1, drafter.memory_layers)
    return {"trained_parameters": moa_parameters(drafter.config), "bytes_per_token": wire}


def opened(
    names: Sequence[str], moa: Drafter, folder: Path, engine: Engine, target: str
) -> dict[str, Drafter | Baseline]:
    """The drafter of each row; "all" leaves out what is not there. Raises `DrafterError` for one that is named."""
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
    parser.add_argument("--baselines", type=Path, default=BASELINES, metavar="DIR", help="a folder for each of them")
    parser.add_argument("--limit", type=int, default=200, help="prompts, spread evenly over the file")
    parser.add_argument("--max-tokens", type=int, default=160, help="of an answer")
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.0], metavar="T", help="0: greedy")
    parser.add_argument("--calibrate", action="store_true", help="MoA learns from the verdicts of each row as it goes")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    torch.manual_seed(0)
    drafter = Drafter.load(arguments.moa)
    engine = Engine(load_target(arguments.target).model, MemoryEncoder.load(arguments.moa))
    try:
        drafters = opened(arguments.drafter, drafter, arguments.baselines, engine, arguments.target)
    except DrafterError as error:
        parser.exit(1, f"{error}\n")
    asked = [prompt.turns[0] for prompt in read_prompts(arguments.prompts)]
    chosen = [asked[int(i)] for i in np.linspace(0, len(asked) - 1, min(arguments.limit, len(asked)))]
    prompts = [drafter.text.render([("user", question)]) for question in chosen]
    rows, most = [], arguments.max_tokens
    rules: tuple[TreeRule, ...] = ("deterministic", "sampled")
    for temperature, (name, one), rule in itertools.product(arguments.temperature, drafters.items(), rules):
        if rule == "sampled" and (temperature == 0 or name not in PACES):
            continue
        calibration = Calibration() if arguments.calibrate and name in PACES else None
        tally = measure(
            engine, one, prompts, name, most, temperature=temperature, tree_rule=rule, calibration=calibration
        )
        row = {**tally.row(name), "temperature": temperature, "tree": rule, "calibrated": calibration is not None}
        alone = (name == "moa" or name in METHODS) and temperature == 0
        row["by_staleness"] = agreement_by_staleness(engine, one, prompts, most) if alone else {}
        row |= costs(one, name)
        rows.append(row)
        print(json.dumps(row), flush=True)
    if arguments.json:
        machine = {"platform": platform.platform(), "processor": platform.processor(), "torch": torch.__version__}
        arguments.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
