"""Tokens per second on one machine, without a network: drafting and verifying against plain decoding.

    python -m benchmarks.single_device [--prompts FILE] [--limit N]
        [--engine torch|onnx|llama [--target FILE.gguf]] [--json OUT]

`--engine` runs the target: PyTorch in float32, its graph in 8 bits on ONNX Runtime, or llama.cpp, which needs a GGUF
file (`python -m tests.support.gguf_writer`). With PyTorch, transformers' own loops are measured as well.

Decoding is greedy, and every way must give the same tokens, or the run ends with an error. On llama.cpp, whose products
depend on the number of rows, differing answers are counted. In one run, prompt by prompt:

- `plain`: our engine, one token a forward
- `outrider`: the MoA drafter and the engine, memory included; trees are sized by the cost of earlier rounds, and there
is none if plain rounds have been faster
- `outrider, second stage`: the same with guesses from the conversation and the drafter's datastore
- `outrider, as the app drafts`: the same within the app's own bounds, which are wider
- `outrider, as the server drafts`: the rounds of hosted mode, without HTTP. A draft is the drafter's, or what followed
earlier in the text, or there is none, whichever has gained most per second
- `outrider, fixed pace`: like `outrider`, but with the shape of tree that was fastest on the first prompts
- `generate`: transformers' own loop
- `generate, prompt lookup`: transformers' own, 7 tokens a draft

`calls` are drafter calls a round, and `drafting` is the share of the time that drafts took. `speedup` is relative to
`plain`: the ratio of all seconds, with a 95 % interval by a bootstrap over prompts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from app.config import Settings
from app.prompts import read_prompts
from app.reply.edge import UNHEARD
from benchmarks.bundled import DRAFTER, PROMPTS, TARGET, interval, machine_and_pair
from drafter.calibration import Calibration
from drafter.cost import CostMeter
from drafter.model import MemoryEncoder
from drafter.ngram import NGramIndex
from drafter.payoff import Payoff
from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.second_stage import Experience, SecondStage
from models.cores import usable_cores
from models.engines.choice import EngineOptions, llama_engine, open_model
from models.engines.engine import Engine
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from models.tree import DraftTree
from remote.protocol import Limits, Progress, Stream, digest_of, pack_tokens, unpack_tokens
from remote.verifier.drafting.lookups import BOUNDS as SERVED
from remote.verifier.drafting.own_drafter import OwnDrafter
from remote.verifier.making.measure import evenly, memory_telling, rounds
from remote.verifier.sessions.sessions import Sessions
from remote.verifier.sessions.turns import alone

CHAINS = ((1, 4), (2, 4), (2, 8), (3, 8), (4, 8), (5, 8), (7, 7), (10, 10))
"""(depth, nodes). If there are more nodes than levels, the others are for a guess."""
TREES = ((4, 2, 8), (6, 3, 16), (8, 2, 16), (10, 3, 24), (8, 8, 60))
"""(depth, breadth, nodes)"""
PACES = (*(Pace(depth, 1, nodes) for depth, nodes in CHAINS), *(Pace(*shape) for shape in TREES))
BOUNDS = Pace(depth=24, breadth=2, nodes=32)
"""The bounds of trees whose size is chosen by cost."""
APP = Pace(Settings().depth, Settings().breadth, Settings().nodes)
"""The app's bounds: its default settings."""
GUESSED = 16
"""Longest chain of the second stage."""
TRIED = 8
"""Prompts on which each pace is timed before the run."""
MOST_TOKENS = 160
LONGEST = 2048
"""Longest conversation in hosted mode, in tokens."""

Decode = Callable[[list[int]], list[int]]
"""Tokens of a prompt -> tokens of the answer."""


class DifferentTokens(Exception):
    """Two ways of greedy decoding gave different tokens."""


@dataclass
class Timed:
    """One way of decoding, with its times."""

    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    alike: int = 0
    """Answers that are the same as the first way's."""

    @property
    def rate(self) -> float:
        return sum(self.tokens) / sum(self.seconds)


@dataclass
class Drafting:
    """The cost of the drafts of one way."""

    rounds: int = 0
    calls: int = 0
    seconds: float = 0.0


def plainly(engine: Engine, stops: frozenset[int]) -> Decode:
    """Our loop without drafts."""
    return lambda prompt: [
        token for each in rounds(engine, prompt, lambda _: DraftTree.empty(), stops, MOST_TOKENS) for token in each.new
    ]


def with_drafts(
    engine: Engine,
    drafter: Drafter,
    pace: Pace,
    stored: Sequence[NGramIndex] | None = None,
    *,
    measuring: bool = False,
    drafting: Drafting | None = None,
) -> Decode:
    """Our loop. `stored` None: without a second stage. `drafting` records the cost of the drafts.

    With `measuring`, the tree is sized by the cost of earlier rounds, within the bounds of `pace`; without it, the tree
    has the shape of `pace`.
    """
    experience, calibration, meter, payoff = Experience(), Calibration(), CostMeter(), Payoff()

    def decode(prompt: list[int]) -> list[int]:
        second = None if stored is None else SecondStage(stored, experience)
        draft, answer, begun, asked = drafter.context(second), list[int](), 0.0, 0.0
        draft.commit(prompt)

        def propose(_: list[int]) -> DraftTree:
            nonlocal begun, asked
            begun = time.perf_counter()
            if measuring and not payoff.pays:
                asked = begun
                return DraftTree.empty()
            tree = draft.draft(replace(pace, cost=meter.cost if measuring else None), None, calibration)
            asked = time.perf_counter()
            if drafting is not None:
                drafting.rounds += 1
                drafting.calls += draft.taken[0] if draft.taken is not None else 0
                drafting.seconds += asked - begun
            return tree

        with memory_telling(engine, drafter, draft) as tell:
            stops = drafter.text.stop_tokens
            for context, tree, accepted, new in rounds(engine, prompt, propose, stops, MOST_TOKENS, opening=True):
                drafted = asked > begun
                if drafted and draft.taken is not None:
                    meter.drafted(*draft.taken)
                answer += new
                draft.commit(new)
                if drafted or context.computed - draft.memory_length >= UNHEARD:
                    tell(context, tree, accepted)
                calibration.learn(tree, accepted, new[-1] if len(new) > len(accepted) else None)
                if drafted and len(answer) == len(new):
                    payoff.opened(len(new) - 1, asked - begun)
                if len(answer) > len(new):  # The opening round runs the prompt, and says nothing about the others.
                    ended = time.perf_counter()
                    meter.judged(len(tree), ended - asked)
                    payoff.ended(len(new), ended - begun, drafting=asked - begun, line=0.0, drafted=drafted)
        return answer

    return decode


def as_served(engine: Engine, drafter: Drafter) -> Decode:
    """The rounds of hosted mode, by the server's own drafter. The costs of rounds are remembered across prompts."""
    own, stops = OwnDrafter(drafter, engine), drafter.text.stop_tokens
    limits = Limits(max_nodes=SERVED.nodes, max_depth=SERVED.depth, max_tokens=LONGEST, max_body_bytes=1 << 20)

    def decode(prompt: list[int]) -> list[int]:
        # New for each prompt, because a session would reuse the beginning that it shares with the previous one.
        sessions = Sessions(engine, limits, stops, max_sessions=1, max_bytes=1 << 30, own=own)
        asked = Stream(session="s", round=1, base=0, digest=digest_of([]), append=pack_tokens(prompt), most=MOST_TOKENS)
        frames = [frame for frame in alone(engine, sessions.stream(asked)) if isinstance(frame, Progress)]
        return [token for frame in frames for token in unpack_tokens(frame.tokens)]

    return decode


def fastest(engine: Engine, drafter: Drafter, prompts: Sequence[list[int]], *, strict: bool = True) -> Pace:
    """The fastest pace on these prompts. `strict`: see `run`."""
    tried = run({str(i): with_drafts(engine, drafter, pace) for i, pace in enumerate(PACES)}, prompts, strict=strict)
    return PACES[max(range(len(PACES)), key=lambda i: tried[str(i)].rate)]


def by_transformers(model: PreTrainedModel, **options: Any) -> Decode:
    """`generate`, greedy."""

    def decode(prompt: list[int]) -> list[int]:
        ids = torch.tensor([prompt])
        settings = {
            "max_new_tokens": MOST_TOKENS,
            "do_sample": False,
            "attention_mask": torch.ones_like(ids),
            **options,
        }
        return model.generate(ids, **settings)[0, len(prompt) :].tolist()  # type: ignore[no-any-return, operator]

    return decode


def run(ways: dict[str, Decode], prompts: Sequence[list[int]], *, strict: bool = True) -> dict[str, Timed]:
    """Time each way on each prompt, in turn. Raises `DifferentTokens` if it is `strict`; else it counts."""
    timed = {name: Timed() for name in ways}
    for prompt in prompts:
        answers = {}
        for name, decode in ways.items():
            begun = time.perf_counter()
            answers[name] = decode(prompt)
            timed[name].seconds.append(time.perf_counter() - begun)
            timed[name].tokens.append(len(answers[name]))
        first = next(iter(answers))
        for name in answers:
            if answers[name] == answers[first]:
                timed[name].alike += 1
            elif strict:
                raise DifferentTokens(f"{name} and {first} answer differently to the prompt {prompt}")
    return timed


def row(name: str, timed: Timed, plain: Timed, drafting: Drafting | None = None) -> dict[str, object]:
    seconds, base = np.array(timed.seconds), np.array(plain.seconds)
    return {
        "name": name,
        "tokens_per_second": round(timed.rate, 1),
        "speedup": round(float(base.sum() / seconds.sum()), 3),
        "ci95": interval(base, seconds),
        "prompts": len(base),
        "tokens": sum(timed.tokens),
        "alike": timed.alike,
        "calls": None if drafting is None else round(drafting.calls / drafting.rounds, 2),
        "drafting": None if drafting is None else round(drafting.seconds / seconds.sum(), 3),
    }


def opened(arguments: argparse.Namespace) -> tuple[Engine, PreTrainedModel | None]:
    """The requested engine, and the model of transformers if PyTorch runs it."""
    if arguments.engine == "torch":
        model = load_target(arguments.target).model
        return TorchEngine(model, MemoryEncoder.load(arguments.drafter)), model
    if arguments.engine == "llama":
        return llama_engine(arguments.target, arguments.drafter, EngineOptions(threads=usable_cores()))[1], None
    return open_model(arguments.target, EngineOptions("onnx"), arguments.drafter).engine, None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--target", default=str(TARGET))
    parser.add_argument("--drafter", type=Path, default=DRAFTER)
    parser.add_argument("--limit", type=int, default=60, help="prompts, spread evenly over the file")
    parser.add_argument("--engine", choices=("torch", "onnx", "llama"), default="torch")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    document = compared(arguments, *opened(arguments))
    for line in document["rows"]:
        print(json.dumps(line), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


def compared(arguments: argparse.Namespace, engine: Engine, model: PreTrainedModel | None) -> dict[str, Any]:
    """All figures. `model`: for transformers' own loops; None: without them."""
    drafter = Drafter.load(arguments.drafter)
    asked = [prompt.turns[0] for prompt in read_prompts(arguments.prompts)]
    prompts = [drafter.asked_as(question) for question in evenly(asked, arguments.limit)]

    strict = arguments.engine != "llama"
    fixed = fastest(engine, drafter, prompts[:TRIED], strict=strict)
    print(f"fastest fixed pace: {fixed}", flush=True)
    stored = (drafter.datastore(),)
    paces = {
        "outrider": (BOUNDS, None, True),
        "outrider, second stage": (replace(BOUNDS, deepest=GUESSED), stored, True),
        "outrider, as the app drafts": (replace(APP, deepest=MOST_TOKENS), stored, True),
        "outrider, fixed pace": (fixed, None, False),
    }
    drafting = {name: Drafting() for name in paces}
    ways = {"plain": plainly(engine, drafter.text.stop_tokens)}
    for name, (pace, texts, measuring) in paces.items():
        ways[name] = with_drafts(engine, drafter, pace, texts, measuring=measuring, drafting=drafting[name])
    ways["outrider, as the server drafts"] = as_served(engine, drafter)
    if model is not None:
        ways["generate"] = by_transformers(model)
        ways["generate, prompt lookup"] = by_transformers(model, prompt_lookup_num_tokens=7)
    timed = run(ways, prompts, strict=strict)
    threads = torch.get_num_threads() if model is not None else usable_cores()
    return {
        "machine": {**machine_and_pair(arguments.drafter), "threads": threads},
        "engine": engine.description,
        "fixed": asdict(fixed),
        "bounds": asdict(BOUNDS),
        "app": asdict(APP),
        "rows": [row(name, timed[name], timed["plain"], drafting.get(name)) for name in ways],
    }


if __name__ == "__main__":
    main()
