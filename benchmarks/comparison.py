"""MoA against EAGLE-2 on equal terms: trained on the same answers until progress is flat, then measured.

    python -m benchmarks.comparison --pages PAGES --work runs/comparison [--json OUT]

The target answers questions of its recipe's training set, which no measure asks. Each drafter tries three learning
rates for a few steps, and is trained with the best one, once per seed, until the held-out divergence is flat or a limit
is reached. Then tau is measured. All intermediate results are kept in --work, so a killed run continues where it was.

Drafters start as layers of the target, read as many parameters in a draft step as MoA does, send 4 bits per number, and
draft in float PyTorch, without a second stage or calibration:

- `moa`: with F first layers of the target and N = 1
- `eagle2-f`: EAGLE-2 after the same first layers; `eagle2`: without them
- `layers`: the target's layers that MoA runs, one after another, untrained

Tau is that of trees of 60 nodes and depth 8. The interval is a bootstrap over prompts, each with all its seeds.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from app.prompts import read_prompts
from benchmarks.bundled import DRAFTER, PROMPTS, TARGET, interval, write
from benchmarks.eagle2 import (
    EagleConfig,
    EagleRecipe,
    TargetLayers,
    equal_config,
    step_parameters,
    train_eagle2,
)
from benchmarks.eagle2_context import EagleContext, feature_telling
from drafter.model import memory_digest
from drafter.model.torch_step import TorchStep
from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.training.answers import generate_answers, read_answers
from drafter.training.batches import AnsweredConversation
from drafter.training.distil import Distiller, train
from drafter.training.loop import LOG, trained_parameters
from drafter.training.target import drafter_config
from drafter.training.text_side import read_text_side
from models.config import Bits, DrafterConfig
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from models.guide.pages import FILE, Pages
from models.guide.prompt import Prompt
from models.guide.recipe import has_marks
from models.guide.search import platforms_of
from models.memory import memory_bytes
from recipes.shell_guide.drafter import SEED, STRANGE, draw_questions
from recipes.shell_guide.mixture import Mixture
from remote.verifier.making.measure import CHAIN, MOST_TOKENS, TREE, Tell, evenly, memory_telling, rounds

BITS: Bits = 4
UNTRAINED = "layers"
ENTRANTS = ("moa", "eagle2-f", "eagle2", UNTRAINED)
RESULT = "result.json"
FIRST_LAYERS = 3
"""F of MoA."""
RATES = (1e-3, 2.5e-3, 6e-3)
ROW = 384
"""Tokens of a row in training. The rest of a conversation is cut."""
FALL = 0.4
"""Share of the steps of a trial over which its rate falls."""


@dataclass(frozen=True)
class Patience:
    """The criterion for flat training."""

    bound: int = 500
    """Most steps before the rate falls."""
    every: int = 50
    """Steps between two measurements of the held-out divergence."""
    fall: int = 150
    """Steps over which the rate falls."""
    looks: int = 3
    """How many measurements without a gain end the training."""
    gain: float = 0.005
    """The least that counts as a gain, as a share of the best divergence so far."""

    def flat(self, found: Sequence[float]) -> bool:
        """Whether the last measurements show no gain over the best one before them."""
        before, last = found[: -self.looks], found[-self.looks :]
        return bool(before) and min(last) > min(before) * (1 - self.gain)


@dataclass(frozen=True)
class Setting:
    """The settings that all drafters share."""

    target: PreTrainedModel
    data: list[AnsweredConversation]
    asker: Drafter
    """A drafter of this target, for its text side."""
    prompts: list[list[int]]

    @property
    def moa(self) -> DrafterConfig:
        """MoA's shapes."""
        config = drafter_config(self.target, "comparison", first_layers=FIRST_LAYERS, inference_layers=1)
        stops = self.asker.config.stop_tokens
        return msgspec.structs.replace(config, memory_bits=BITS, correctable=False, stop_tokens=stops)

    def config(self, name: str) -> DrafterConfig | EagleConfig:
        """The shapes of a drafter."""
        moa, first = self.moa, FIRST_LAYERS
        if name == "moa":
            return moa
        depth = moa.target_layers
        copied = {
            "eagle2": (*range(first + 1), depth - 1),
            "eagle2-f": (first, depth - 1),
            UNTRAINED: (*range(first + 1), *range(moa.replaced, depth)),
        }[name]
        before = first if name == "eagle2-f" else 0
        return equal_config(self.target, moa, copied, before, learns=name != UNTRAINED)

    def trained(self, name: str, out: Path, recipe: EagleRecipe) -> nn.Module:
        """A drafter after the steps of the recipe; a checkpoint in `out` is resumed."""
        config = self.config(name)
        if isinstance(config, DrafterConfig):
            return train(config, self.target, self.data, out, recipe)
        return train_eagle2(config, self.target, self.data, out, recipe)

    def drafting(self, model: nn.Module, pace: Pace) -> list[list[int]]:
        """For each prompt, the tokens gained in each round after the opening one."""
        engine, begin, telling = self._ready(model)
        stops, gained = frozenset(self.asker.config.stop_tokens), []
        for prompt in self.prompts:
            draft = begin()
            draft.commit(prompt)
            new = []
            with telling(draft) as tell:
                for each in rounds(engine, prompt, lambda _, draft=draft: draft.draft(pace), stops, MOST_TOKENS):
                    draft.commit(each.new)
                    tell(each.context, each.tree, each.accepted)
                    new.append(len(each.new))
            gained.append(new[1:])
        return gained

    def _ready(self, model: nn.Module) -> tuple[TorchEngine, Callable[[], Any], Callable[[Any], Telling]]:
        """The target's engine, a function that begins a conversation, and one that feeds it activations."""
        if isinstance(model, TargetLayers):
            model.eval().requires_grad_(False)
            engine = TorchEngine(self.target)
            return engine, partial(EagleContext, model), partial(feature_telling, engine, model)
        assert isinstance(model, Distiller)
        encoder = copy.deepcopy(model.encoder).eval().requires_grad_(False)
        digest = memory_digest(self.target.state_dict(), encoder).hex()
        encoder.config = msgspec.structs.replace(encoder.config, memory=digest)
        step = TorchStep(copy.deepcopy(model.draft).eval(), torch.device("cpu"), bits=None)
        engine = TorchEngine(self.target, encoder)
        drafter = Drafter(encoder.config, self.asker.text, step, prompt=self.asker.prompt)
        return engine, drafter.context, partial(memory_telling, engine, drafter)


Telling = AbstractContextManager[Tell]


def train_until_flat(
    learn: Callable[[EagleRecipe], nn.Module], recipe: EagleRecipe, patience: Patience, out: Path
) -> tuple[nn.Module, int]:
    """Train, and return the model and the step at which the rate began to fall.

    A schedule whose rate falls has to know its end beforehand. So the rate stays until the held-out divergence is flat,
    then it falls over a fixed number of steps. `learn` trains for the steps of its recipe, resuming from the checkpoint
    in `out`, and writes the log there.
    """
    steps = 0
    while steps < patience.bound:
        steps = min(steps + patience.every, patience.bound)
        learn(replace(recipe, steps=steps, decay=0.0))
        if patience.flat(divergences(out / LOG, steps)):
            break
    whole = steps + patience.fall
    return learn(replace(recipe, steps=whole, decay=patience.fall / whole)), steps


def divergences(log: Path, steps: int) -> list[float]:
    """The held-out divergences in a log, of the first `steps` steps. Lines that a killed run wrote twice count once."""
    lines = (json.loads(line) for line in log.read_text().splitlines())
    found = {line["step"]: line["unseen"]["divergence"] for line in lines if "unseen" in line}
    return [found[step] for step in sorted(found) if step < steps]


def once(folder: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of `make`, or that of an earlier run."""
    result = folder / RESULT
    if not result.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial_file = folder / "result.partial"
        partial_file.write_text(json.dumps(make(), indent=1) + "\n")
        partial_file.replace(result)
        print(f"{folder.name}: {result.read_text()}", file=sys.stderr, flush=True)
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def tried(setting: Setting, name: str, recipe: EagleRecipe, out: Path) -> dict[str, Any]:
    """The held-out divergence after a few steps with a rate that falls."""
    setting.trained(name, out, replace(recipe, decay=FALL))
    return {"divergence": divergences(out / LOG, recipe.steps)[-1]}


def measured(
    setting: Setting, name: str, recipe: EagleRecipe, patience: Patience, out: Path, chains: bool
) -> dict[str, Any]:
    """Train a drafter until it is flat, and measure tau. `chains`: also that of chains."""
    found: dict[str, Any] = {"step_parameters": step_parameters(config := setting.config(name))}
    if name == UNTRAINED:
        assert isinstance(config, EagleConfig)
        model: nn.Module = TargetLayers(config)
        model.borrow(setting.target)  # type: ignore[operator]
    else:
        model, flat = train_until_flat(partial(setting.trained, name, out), recipe, patience, out)
        steps = flat + patience.fall
        found |= {"rate": recipe.rate, "steps": steps, "flat": flat < patience.bound}
        found |= {"divergence": divergences(out / LOG, steps)[-1]}
    memory = memory_bytes(1, setting.moa.memory_layers, BITS)
    found["bytes_per_token"] = model.bytes_per_token if isinstance(model, TargetLayers) else memory
    found["trained_parameters"] = trained_parameters(model)
    gained = setting.drafting(model, TREE)
    found |= {"tokens": [sum(one) for one in gained], "rounds": [len(one) for one in gained]}
    if chains:
        gained = setting.drafting(model, CHAIN)
        found["chain_tau"] = round(sum(map(sum, gained)) / sum(map(len, gained)), 3)
    return found


def row(name: str, seeds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The result of one drafter over all its seeds."""
    tokens, counts = (np.array([one[part] for one in seeds]) for part in ("tokens", "rounds"))
    first = {key: value for key, value in seeds[0].items() if key not in ("tokens", "rounds", "steps", "flat")}
    return {
        "drafter": name,
        "tau": round(float(tokens.sum() / counts.sum()), 3),
        "ci95": interval(tokens.sum(axis=0), counts.sum(axis=0)),
        "seeds": [round(float(one.sum() / count.sum()), 3) for one, count in zip(tokens, counts)],
        "steps": [one.get("steps") for one in seeds],
        "flat": [one.get("flat") for one in seeds],
        **first,
    }


def answered(arguments: argparse.Namespace, target: PreTrainedModel) -> list[AnsweredConversation]:
    """The target's answers to questions of its recipe, perhaps from an earlier run."""
    answers, index = arguments.work / "answers.jsonl", DRAFTER / FILE
    if not answers.exists() or len(answers.read_bytes().splitlines()) < arguments.conversations:
        questions = draw_questions(Mixture(arguments.pages, index, SEED, strange=STRANGE), arguments.conversations)
        prompt = Prompt(Pages.open(index), platforms_of("linux"), marks_names=has_marks(TARGET))
        tokenizer = read_text_side(str(TARGET), "shell-guide", several_turns=True).tokenizer
        generate_answers(
            target, tokenizer, questions, answers, batch=1000, new_tokens=200, half=True, asked_as=prompt.asked_as
        )
    return read_answers(answers)


def opened(arguments: argparse.Namespace) -> Setting:
    """The target and its answers."""
    target = load_target(str(TARGET), device="cpu").model.requires_grad_(False)
    asker = Drafter.load(DRAFTER)
    asked = evenly([prompt.turns[0] for prompt in read_prompts(PROMPTS)], arguments.limit)
    return Setting(target, answered(arguments, target), asker, [asker.asked_as(question) for question in asked])


def claim(arguments: argparse.Namespace) -> dict[str, object]:
    """Record the choices in the work folder and return them.

    Exits with a message if the folder was made with others.
    """
    plan = {name: str(value) for name, value in sorted(vars(arguments).items()) if name not in ("json", "work")}
    arguments.work.mkdir(parents=True, exist_ok=True)
    path = arguments.work / "plan.json"
    if path.exists() and json.loads(path.read_text()) != plan:
        raise SystemExit(f"{arguments.work} was made with other options. Give those in {path}, or another --work.")
    path.write_text(json.dumps(plan, indent=1) + "\n")
    return dict(plan)


def main(argv: Sequence[str] | None = None) -> None:
    patience = Patience()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, required=True, help="tldr pages, as the recipe reads them")
    parser.add_argument("--work", type=Path, required=True, help="a folder for all pieces")
    parser.add_argument("--conversations", type=int, default=2000, help="that the target answers, to learn from")
    parser.add_argument("--trial", type=int, default=80, help="steps of the trial of a rate")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--bound", type=int, default=patience.bound, help="most steps before the rate falls")
    parser.add_argument("--fall", type=int, default=patience.fall, help="steps over which it falls")
    parser.add_argument("--every", type=int, default=patience.every, help="steps between looks at held-out answers")
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--limit", type=int, default=200, help="prompts that tau is measured on, spread evenly")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    plan, work = claim(arguments), arguments.work
    patience = Patience(arguments.bound, arguments.every, arguments.fall)
    recipe = EagleRecipe(rows=arguments.rows, row=ROW)
    setting, rows = opened(arguments), []
    for name in ENTRANTS:
        rate, seeds = recipe.rate, list(arguments.seeds)
        if name == UNTRAINED:
            seeds = seeds[:1]
        else:
            trials = {}
            for each in RATES:
                out, trial = work / f"rates/{name}-{each:g}", replace(recipe, rate=each, steps=arguments.trial)
                trials[each] = once(out, partial(tried, setting, name, trial, out))["divergence"]
            rate = min(trials, key=trials.__getitem__)
        found = []
        for seed in seeds:
            out, one = work / f"seeds/{name}-{seed}", replace(recipe, rate=rate, seed=seed)
            make = partial(measured, setting, name, one, patience, out, chains=seed == seeds[0])
            found.append(once(out, make))
        rows.append(row(name, found))
        print(json.dumps(rows[-1]), flush=True)
    write(arguments.json, rows, plan=plan)


if __name__ == "__main__":
    main()
