"""Speed and cost of an answer on each line: the app's modes, plain streaming, fixed drafts, EAGLE-2.

    python -m benchmarks.network [--prompts FILE ...] [--profiles FILE] [--json OUT] [--limit N]
        [--only-profile NAME ...] [--mode NAME ...] [--forward 0,25,60]

For every line of `--profiles`, which `tests/support/emulator.py` emulates, and for every mode: tokens per second, the
target's forward passes per 100 tokens, tau (verified tokens a round, the prompt's own round included), bytes up and
down per token, and seconds from the question to the first drafted and the first verified word (medians).

`dimmed` is about text that was shown before the target had checked it: its characters, those that a verdict confirmed,
those that were withdrawn, and the share of withdrawn ones in all that was decided, with an interval over prompts. What
nobody checked, as in an outage that lasts, is in neither.

`edge`, `hosted` and `auto` are the app's own modes, asked through the app with a fresh database. `plain` is token
streaming as an ordinary service does it: one token a forward pass, without the app. `chain-K` and `tree-DxB` are edge
mode with drafts of a fixed size: chains of K, and trees with D levels of B that have 60 nodes, or 128 if there are 32
levels. `eagle-2` is edge mode with the EAGLE-2 baseline as the drafter; see `benchmarks/eagle_edge.py`. `moa-float` is
our drafter under its conditions: in PyTorch's float32, on as many threads, without a second stage and without drafting
ahead.

Answers are greedy, with at most `--max-tokens` tokens, and each question is a conversation of its own. The seconds of
an answer run from asking to its end. Tokens per second are all tokens over all seconds, with a bootstrap interval over
prompts. Each mode of a line first answers one question more, which does not count. The verifier is a process of its
own. `--forward 25` makes each of its forward passes last at least 25 ms (rows then say `paced_ms`), as an 8B target's
might, and 60 as a 70B one's. The drafter stays as it is. 0 is the bundled target as fast as it runs. Modes take turns,
prompt by prompt, so that a slow phase of the machine hits all of them. Outages come at fixed times. So on a line with
outages, each mode has a line that begins with it, and is asked one question of the file after the other until the last
outage is over.

Every answer is checked against the target's own, and a different one ends the run. On lines that lose nothing, it has
to be verified to its end. On the others, the app may have to continue alone or give up; such tokens and answers are
counted in the row.

A run that was killed continues where it was: samples are kept in OUT.samples until the rows in OUT are whole.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from app.prompts import PromptsError, read_prompts
from benchmarks.acceptance import BASELINES, DRAFTER, PROMPTS, TARGET
from benchmarks.answer_cells import MODES, Cell, CellStack, Counted, Drafters, Mode, Sample, plainly
from benchmarks.baseline_drafters import load_baseline
from benchmarks.eagle_edge import FeatureDrafter
from benchmarks.journal import Journal, Key, OtherPlan
from benchmarks.network_row import row
from benchmarks.pair import machine_and_pair
from benchmarks.served import REFERENCE, NotServed, Served
from benchmarks.standings import GOALS, forward, standings
from drafter.runtime import Drafter
from models.config import DrafterError
from models.cores import draft_threads
from models.engines.target import load_target
from remote import VerifierClient
from remote.verifier.making.measure import evenly
from tests.support.emulator import PROFILES, BadProfile, Emulator, LinkProfile, read_profiles

SEED = 0
"""Seed of every line."""


class WrongAnswer(Exception):
    """An answer differs from the target's own, or is not whole on a line that loses nothing."""


def check(profile: LinkProfile, mode: str, sample: Sample, wanted: Sequence[int]) -> None:
    """Raise `WrongAnswer` for a wrong or incomplete answer."""
    verified = sample.tokens[: sample.verified]
    if verified != tuple(wanted[: len(verified)]):
        at = next(i for i, (one, other) in enumerate(zip(verified, [*wanted, -1])) if one != other)
        raise WrongAnswer(f"{profile.name}, {mode}: token {at} of the answer is {verified[at]}, not the target's own")
    lossless = not profile.outages and not profile.loss
    if lossless and (sample.failed or len(verified) != len(wanted)):
        why = sample.failed or f"{len(verified)} of {len(wanted)} tokens are verified"
        raise WrongAnswer(f"{profile.name}, {mode}: an answer that is not whole, over a line that loses nothing: {why}")


# ---- what is told ----------------------------------------------------------------------------------------------------


def summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each pacing and profile: the modes compared with each other, with the goals if there are any."""
    lines = []
    for standing in standings(rows):
        said = []
        if (best := standing.best) is not None:
            said.append(f"best {best} with {standing.rate(best):.1f}/s")
        if (share := standing.ratio("auto", best)) is not None:
            said.append(f"auto {share:.2f} of it (goal {GOALS['auto']})")
        if (over := standing.ratio("edge", standing.best_fixed)) is not None:
            said.append(f"edge {over:.2f} of {standing.best_fixed} (goal {GOALS['fixed']:g})")
        speed, tau = standing.ratio("moa-float", "eagle-2"), standing.tau_ratio("moa-float", "eagle-2")
        if speed is not None and tau is not None:
            goals = GOALS["speed"], GOALS["tau"]
            said.append(f"MoA over EAGLE-2 {speed:.2f} in speed (goal {goals[0]}), {tau:.2f} in tau (goal {goals[1]})")
        lines.append(f"{standing.profile}, {forward(standing.paced_ms)}: {'; '.join(said)}")
    return lines


# ---- the run ---------------------------------------------------------------------------------------------------------


class NetworkRun:
    """Asks the plan's questions of modes on lines. The first question warms up; all others are for rides."""

    def __init__(
        self,
        journal: Journal,
        drafters: Drafters,
        asked: Sequence[str],
        questions: Sequence[str],
        max_tokens: int,
        paced_ms: float,
    ) -> None:
        self._journal = journal
        self._drafters = drafters
        self._warm_up, *self._questions = questions
        self._others = random.Random(SEED).sample(asked, len(asked))
        self._max_tokens = max_tokens
        self._paced_ms = paced_ms
        self._answers: dict[str, tuple[int, ...]] = {}
        """The target's own answers."""

    async def over(self, served: Served, profiles: Sequence[LinkProfile], modes: Sequence[Mode]) -> None:
        """Yield the rows of all modes on all lines. Raises `WrongAnswer`."""
        for profile in profiles:
            left = [mode for mode in modes if not self._journal.whole(self._key(profile, mode))]
            if not profile.outages:
                await self._in_turns(served, profile, left)
                continue
            for mode in left:
                if not self._journal.samples(self._key(profile, mode)):
                    await self._ride(served, profile, mode)
                self._finish(profile, mode)

    def _key(self, profile: LinkProfile, mode: Mode) -> Key:
        return Key(profile.name, mode.name, self._paced_ms)

    async def _in_turns(self, served: Served, profile: LinkProfile, modes: Sequence[Mode]) -> None:
        """Ask the questions of one mode after the other."""
        missing = {
            mode.name: set(range(len(self._questions))) - set(self._journal.samples(self._key(profile, mode)))
            for mode in modes
        }
        async with Counted(served.url) as counted, CellStack() as lines:
            cells: dict[str, Cell] = {}
            for mode in modes:
                if missing[mode.name]:
                    cells[mode.name] = await self._cell(lines, served, profile, mode)
                    await counted.ask(cells[mode.name], mode.path, self._warm_up)
            for number, question in enumerate(self._questions):
                samples = {}
                for mode in modes:
                    if number in missing[mode.name]:
                        sample = await counted.ask(cells[mode.name], mode.path, question)
                        await self._check(served, profile, mode, question, sample)
                        self._journal.add(self._key(profile, mode), {number: sample})
                        samples[mode.name] = sample
                self._say(profile, f"prompt {number + 1} of {len(self._questions)}", samples)
        for mode in modes:
            self._finish(profile, mode)

    async def _ride(self, served: Served, profile: LinkProfile, mode: Mode) -> None:
        """Ask questions on a line that begins now, until all its outages are over."""
        samples: dict[int, Sample] = {}
        ends = sum(profile.outages[-1])
        asked = itertools.cycle(self._others)
        async with Counted(served.url) as counted, CellStack() as lines:
            begun = time.monotonic()
            cell = await self._cell(lines, served, profile, mode)
            await counted.ask(cell, mode.path, self._warm_up)
            while (gone := time.monotonic() - begun) < ends or not samples:
                question = next(asked)
                sample = samples[len(samples)] = await counted.ask(cell, mode.path, question)
                self._say(profile, f"second {gone:.0f} of {ends:g}", {mode.name: sample})
        for question, sample in zip(itertools.cycle(self._others), samples.values()):
            await self._check(served, profile, mode, question, sample)
        self._journal.add(self._key(profile, mode), samples)

    async def _cell(self, lines: CellStack, served: Served, profile: LinkProfile, mode: Mode) -> Cell:
        emulator = Emulator(profile, "127.0.0.1", served.port, seed=SEED)
        return await lines.cell(mode, emulator, self._drafters, self._max_tokens)

    async def _check(self, served: Served, profile: LinkProfile, mode: Mode, question: str, sample: Sample) -> None:
        if question not in self._answers:
            async with VerifierClient(served.url + REFERENCE) as client:
                answer = await plainly(client, self._drafters.own, question, self._max_tokens)
            self._answers[question] = answer.tokens
        check(profile, mode.name, sample, self._answers[question])

    def _say(self, profile: LinkProfile, place: str, samples: Mapping[str, Sample]) -> None:
        said = ", ".join(f"{mode} {len(sample.tokens) / sample.seconds:.1f}/s" for mode, sample in samples.items())
        print(f"{profile.name}, {self._paced_ms:g} ms, {place}: {said}", file=sys.stderr, flush=True)

    def _finish(self, profile: LinkProfile, mode: Mode) -> None:
        key = self._key(profile, mode)
        samples = self._journal.samples(key)
        self._journal.finish(row(key, [samples[number] for number in sorted(samples)]))
        print(json.dumps(self._journal.rows[-1]), flush=True)


def asked_of(paths: Sequence[Path], limit: int) -> tuple[list[str], list[str]]:
    """All questions of the files, and `limit` of them, spread evenly over each file, in turns of the files."""
    files = [[prompt.turns[0] for prompt in read_prompts(path)] for path in paths]
    chosen = [evenly(asked, -(-limit // len(files))) for asked in files]
    turns = itertools.zip_longest(*chosen)
    picked = [question for turn in turns for question in turn if question is not None]
    return list(itertools.chain(*files)), picked[:limit]


def opened(modes: Sequence[Mode], target: str, folder: Path, eagle: Path) -> tuple[Drafters, list[Mode]]:
    """The drafters, and the modes that can run with them. Raises `DrafterError`."""
    own, others, left = Drafter.load(folder), dict[str, object](), list(modes)
    torch.set_num_threads(draft_threads())
    if any(mode.drafter == "float" for mode in modes):
        others["float"] = Drafter.load(folder, "torch", device="cpu", bits=None)
    if any(mode.drafter == "eagle" for mode in modes):
        try:
            others["eagle"] = FeatureDrafter(load_baseline(eagle, load_target(target).model), own.text, own.prompt)
        except DrafterError as error:
            print(f"without eagle-2: {error}", file=sys.stderr)
            left = [mode for mode in modes if mode.drafter != "eagle"]
    return Drafters(own, others), left


async def measure(arguments: argparse.Namespace, profiles: Sequence[LinkProfile]) -> list[dict[str, Any]]:
    """Measure all rows. Raises what `main` reports."""
    asked, questions = asked_of(arguments.prompts, arguments.limit + 1)
    if len(questions) < 2:
        raise PromptsError(f"{arguments.prompts[0]} holds one prompt; it takes two, as the first only warms up.")
    wanted = [MODES[name] for name in arguments.mode or MODES]
    drafters, modes = opened(wanted, arguments.target, arguments.drafter, arguments.eagle)
    plan = {
        "prompts": hashlib.blake2b(json.dumps(questions).encode(), digest_size=8).hexdigest(),
        "limit": len(questions) - 1,
        "max_tokens": arguments.max_tokens,
        "drafter": drafters.own.config.memory,
    }
    journal = Journal(arguments.json, plan, machine_and_pair(arguments.drafter))
    for paced_ms in arguments.forward:
        keys = [Key(profile.name, mode.name, paced_ms) for profile in profiles for mode in modes]
        if all(journal.whole(key) for key in keys):
            continue
        eagle = arguments.eagle if "eagle" in drafters.others else None
        async with Served(arguments.target, arguments.drafter, eagle, paced_ms) as served:
            run = NetworkRun(journal, drafters, asked, questions, arguments.max_tokens, paced_ms)
            await run.over(served, profiles, modes)
    return journal.rows


def forwards(written: str) -> list[float]:
    """Read milliseconds, separated by commas."""
    try:
        values = [float(part) for part in written.split(",")]
    except ValueError:
        values = [-1.0]
    if min(values) < 0:
        raise argparse.ArgumentTypeError(f"{written!r} is no list of milliseconds such as 0,25,60")
    return values


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, nargs="+", default=[PROMPTS], metavar="FILE")
    parser.add_argument("--profiles", type=Path, default=PROFILES, help="a JSON file of profiles")
    parser.add_argument(
        "--json", type=Path, default=Path("network.json"), help="the results; a later run completes them"
    )
    parser.add_argument("--limit", type=int, default=8, help="prompts, spread evenly over each file; one more warms up")
    parser.add_argument("--only-profile", nargs="+", metavar="NAME", help="only these lines")
    parser.add_argument("--mode", choices=MODES, nargs="+", help="only these modes")
    parser.add_argument("--forward", type=forwards, default=[0.0, 25.0, 60.0], metavar="MS,...", help="see above")
    parser.add_argument("--max-tokens", type=int, default=160, help="most tokens of an answer")
    parser.add_argument("--target", default=str(TARGET))
    parser.add_argument("--drafter", type=Path, default=DRAFTER, metavar="DIR")
    parser.add_argument("--eagle", type=Path, default=BASELINES / "eagle2", metavar="DIR", help="the EAGLE-2 baseline")
    arguments = parser.parse_args(argv)
    try:
        profiles = read_profiles(arguments.profiles)
        names = arguments.only_profile or list(profiles)
        if unknown := [name for name in names if name not in profiles]:
            parser.error(f"there is no profile {unknown[0]!r}; there are {', '.join(profiles)}")
        rows = asyncio.run(measure(arguments, [profiles[name] for name in names]))
    except (BadProfile, PromptsError, DrafterError, WrongAnswer, NotServed, OtherPlan) as error:
        parser.exit(1, f"{error}\n")
    for line in summary(rows):
        print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
