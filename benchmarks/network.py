"""Speed and cost of an answer on each line: the app's modes, and plain streaming.

    python -m benchmarks.network [--prompts FILE ...] [--profiles FILE] [--json OUT] [--limit N]
        [--only-profile NAME ...] [--mode NAME ...] [--forward 0,25,60]

For every line of `--profiles`, which `tests/support/emulator.py` emulates, and for every mode: tokens per second, the
target's forward passes per 100 tokens, tau (verified tokens a round, the prompt's own round included), bytes up and
down per token, and seconds from the question to the first drafted and the first verified word (medians).

`dimmed` counts text that was shown before the target had checked it: its characters, those that a verdict confirmed,
those that were withdrawn, and the share of withdrawn ones among all decided, with an interval over prompts. Text that
was never checked, as in a long outage, is in neither.

`edge`, `hosted` and `auto` are the app's own modes, asked through the app with a fresh database. `plain` is token
streaming as in an ordinary service: one token per forward pass, without the app.

Answers are greedy, with at most `--max-tokens` tokens, and each question is a conversation of its own. The seconds of
an answer run from the question to its end. Tokens per second are all tokens over all seconds, with a bootstrap interval
over prompts. Each mode of a line first answers one additional question, which does not count. The verifier is a process
of its own. `--forward 25` makes each of its forward passes last at least 25 ms (rows then say `paced_ms`), as an 8B
target's might, and 60 as a 70B one's. The drafter stays as it is. 0 is the bundled target as fast as it runs. Modes
take turns, prompt by prompt, so that a slow phase of the machine affects all of them. Outages happen at fixed times, so
on a line with outages each mode gets its own line from the start, and is asked one question of the file after the other
until the last outage is over.

Every answer is checked against the target's own, and a difference ends the run. On lines without losses, it has to be
verified to its end. On the others, the app may have to continue alone or give up; such tokens and answers are counted
in the row. The results are written anew with each row.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from app.prompts import PromptsError, read_prompts
from benchmarks.answer_cells import MODES, Cell, CellStack, Counted, Sample, plainly
from benchmarks.bundled import DRAFTER, PROMPTS, TARGET, interval, machine_and_pair, write
from benchmarks.served import REFERENCE, NotServed, Served
from drafter.runtime import Drafter
from models.config import DrafterError
from remote import VerifierClient
from remote.verifier.making.measure import evenly
from tests.support.emulator import PROFILES, BadProfile, Emulator, LinkProfile, read_profiles

SEED = 0
"""Seed of every line."""


class WrongAnswer(Exception):
    """An answer differs from the target's own, or is incomplete on a line without losses."""


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


# ---- a row -----------------------------------------------------------------------------------------------------------


def row(profile: str, mode: str, paced_ms: float, samples: Sequence[Sample]) -> dict[str, Any]:
    """The result of all prompts of one mode."""
    tokens = np.array([len(sample.tokens) for sample in samples])
    seconds = np.array([sample.seconds for sample in samples])
    total, rounds = max(1, int(tokens.sum())), sum(sample.rounds for sample in samples)
    verified = sum(sample.verified for sample in samples)

    def per_token(name: str) -> float:
        return sum(getattr(sample, name) for sample in samples) / total

    def per_round(value: float) -> float | None:
        return round(value / rounds, 3) if rounds else None

    def median(times: Sequence[float | None]) -> float | None:
        known = [each for each in times if each is not None]
        return round(statistics.median(known), 4) if known else None

    tries, hits = (sum(sample.counts.get(f"ahead_{name}", 0) for sample in samples) for name in ("tries", "hits"))
    first = [(sample.first_drafted, sample.first_verified) for sample in samples]
    parts = {
        name: sum(getattr(sample, f"{name}_seconds") for sample in samples) for name in ("draft", "server", "line")
    }
    parts["rest"] = float(seconds.sum()) - sum(parts.values())
    return {
        "profile": profile,
        "mode": mode,
        "paced_ms": paced_ms,
        "prompts": len(samples),
        "tokens": int(tokens.sum()),
        "tokens_per_second": round(float(tokens.sum() / seconds.sum()), 2),
        "ci95": interval(tokens, seconds, 2),
        "passes_per_100_tokens": round(100 * per_token("passes"), 2),
        "tau": per_round(verified),
        "bytes_up": round(per_token("bytes_up"), 1),
        "bytes_down": round(per_token("bytes_down"), 1),
        "first_drafted_seconds": median([drafted for drafted, _ in first]),
        "first_verified_seconds": median([verified for _, verified in first]),
        "first_token_seconds": median([min(filter(None, times), default=None) for times in first]),
        "unverified_tokens": int(tokens.sum()) - verified,
        "failed": sum(bool(sample.failed) for sample in samples),
        "levels": per_round(sum(sample.levels for sample in samples)),
        "nodes": per_round(sum(sample.nodes for sample in samples)),
        "ahead_hits": round(hits / tries, 3) if tries else None,
        "ms_per_round": {name: per_round(1000 * part) for name, part in parts.items()},
        "dimmed": _dimmed(samples),
        "chose": dict(Counter(sample.chose for sample in samples)),
        "why": samples[-1].why,
    }


def _dimmed(samples: Sequence[Sample]) -> dict[str, Any]:
    """The fate of text that was shown dimmed."""
    confirmed, withdrawn = (np.array([getattr(each, name) for each in samples]) for name in ("confirmed", "withdrawn"))
    found = {"shown": sum(each.dimmed for each in samples)}
    found |= {"confirmed": int(confirmed.sum()), "withdrawn": int(withdrawn.sum())}
    if not (decided := confirmed + withdrawn).sum():
        return {**found, "share": None, "ci95": None}
    share = round(float(withdrawn.sum() / decided.sum()), 4)
    return {**found, "share": share, "ci95": interval(withdrawn, decided, 4)}


# ---- the run ---------------------------------------------------------------------------------------------------------


class NetworkRun:
    """Asks questions in all modes on all lines. The first question is a warm-up; rides use all others.

    `finish` receives each row.
    """

    def __init__(
        self,
        finish: Callable[[dict[str, Any]], None],
        drafter: Drafter,
        asked: Sequence[str],
        questions: Sequence[str],
        max_tokens: int,
        paced_ms: float,
    ) -> None:
        self._finish = finish
        self._drafter = drafter
        self._warm_up, *self._questions = questions
        self._others = random.Random(SEED).sample(asked, len(asked))
        self._max_tokens = max_tokens
        self._paced_ms = paced_ms
        self._answers: dict[str, tuple[int, ...]] = {}
        """The target's own answers."""

    async def over(self, served: Served, profiles: Sequence[LinkProfile], modes: Sequence[str]) -> None:
        """Measure all modes on all lines. Raises `WrongAnswer`."""
        for profile in profiles:
            if not profile.outages:
                await self._in_turns(served, profile, modes)
                continue
            for mode in modes:
                await self._ride(served, profile, mode)

    async def _in_turns(self, served: Served, profile: LinkProfile, modes: Sequence[str]) -> None:
        """Ask the questions of one mode after the other."""
        samples: dict[str, list[Sample]] = {mode: [] for mode in modes}
        async with Counted(served.url) as counted, CellStack() as lines:
            cells: dict[str, Cell] = {}
            for mode in modes:
                cells[mode] = await self._cell(lines, served, profile, mode)
                await counted.ask(cells[mode], self._warm_up)
            for number, question in enumerate(self._questions, 1):
                for mode, cell in cells.items():
                    samples[mode].append(await counted.ask(cell, question))
                    await self._check(served, profile, mode, question, samples[mode][-1])
                newest = {mode: found[-1] for mode, found in samples.items()}
                self._say(profile, f"prompt {number} of {len(self._questions)}", newest)
        for mode in modes:
            self._finish(row(profile.name, mode, self._paced_ms, samples[mode]))

    async def _ride(self, served: Served, profile: LinkProfile, mode: str) -> None:
        """Ask questions on a line that begins now, until all its outages are over."""
        samples: list[Sample] = []
        ends = sum(profile.outages[-1])
        asked = itertools.cycle(self._others)
        async with Counted(served.url) as counted, CellStack() as lines:
            begun = time.monotonic()
            cell = await self._cell(lines, served, profile, mode)
            await counted.ask(cell, self._warm_up)
            while (gone := time.monotonic() - begun) < ends or not samples:
                samples.append(await counted.ask(cell, next(asked)))
                self._say(profile, f"second {gone:.0f} of {ends:g}", {mode: samples[-1]})
        for question, sample in zip(itertools.cycle(self._others), samples):
            await self._check(served, profile, mode, question, sample)
        self._finish(row(profile.name, mode, self._paced_ms, samples))

    async def _cell(self, lines: CellStack, served: Served, profile: LinkProfile, mode: str) -> Cell:
        emulator = Emulator(profile, "127.0.0.1", served.port, seed=SEED)
        return await lines.cell(mode, emulator, self._drafter, self._max_tokens)

    async def _check(self, served: Served, profile: LinkProfile, mode: str, question: str, sample: Sample) -> None:
        if question not in self._answers:
            async with VerifierClient(served.url + REFERENCE) as client:
                answer = await plainly(client, self._drafter, question, self._max_tokens)
            self._answers[question] = answer.tokens
        check(profile, mode, sample, self._answers[question])

    def _say(self, profile: LinkProfile, place: str, samples: Mapping[str, Sample]) -> None:
        said = ", ".join(f"{mode} {len(sample.tokens) / sample.seconds:.1f}/s" for mode, sample in samples.items())
        print(f"{profile.name}, {self._paced_ms:g} ms, {place}: {said}", file=sys.stderr, flush=True)


def asked_of(paths: Sequence[Path], limit: int) -> tuple[list[str], list[str]]:
    """All questions of the files, and `limit` of them, spread evenly over each file, in turns of the files."""
    files = [[prompt.turns[0] for prompt in read_prompts(path)] for path in paths]
    chosen = [evenly(asked, -(-limit // len(files))) for asked in files]
    turns = itertools.zip_longest(*chosen)
    picked = [question for turn in turns for question in turn if question is not None]
    return list(itertools.chain(*files)), picked[:limit]


async def measure(arguments: argparse.Namespace, profiles: Sequence[LinkProfile]) -> None:
    """Measure all rows. Raises what `main` reports."""
    asked, questions = asked_of(arguments.prompts, arguments.limit + 1)
    if len(questions) < 2:
        raise PromptsError(f"{arguments.prompts[0]} holds one prompt; it takes two, as the first only warms up.")
    modes, drafter = list(arguments.mode or MODES), Drafter.load(arguments.drafter)
    rows: list[dict[str, Any]] = []

    def finish(found: dict[str, Any]) -> None:
        rows.append(found)
        print(json.dumps(found), flush=True)
        write(arguments.json, rows, machine_and_pair(arguments.drafter))

    for paced_ms in arguments.forward:
        async with Served(arguments.target, arguments.drafter, paced_ms) as served:
            run = NetworkRun(finish, drafter, asked, questions, arguments.max_tokens, paced_ms)
            await run.over(served, profiles, modes)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, nargs="+", default=[PROMPTS], metavar="FILE")
    parser.add_argument("--profiles", type=Path, default=PROFILES, help="a JSON file of profiles")
    parser.add_argument("--json", type=Path, default=Path("network.json"), metavar="OUT", help="the results")
    parser.add_argument("--limit", type=int, default=8, help="prompts, spread evenly over each file; one more warms up")
    parser.add_argument("--only-profile", nargs="+", metavar="NAME", help="only these lines")
    parser.add_argument("--mode", choices=MODES, nargs="+", help="only these modes")
    forwards = [0.0, 25.0, 60.0]
    parser.add_argument("--forward", type=lambda text: [float(part) for part in text.split(",")], default=forwards)
    parser.add_argument("--max-tokens", type=int, default=160, help="most tokens of an answer")
    parser.add_argument("--target", default=str(TARGET))
    parser.add_argument("--drafter", type=Path, default=DRAFTER, metavar="DIR")
    arguments = parser.parse_args(argv)
    try:
        profiles = read_profiles(arguments.profiles)
        names = arguments.only_profile or list(profiles)
        if unknown := [name for name in names if name not in profiles]:
            parser.error(f"there is no profile {unknown[0]!r}; there are {', '.join(profiles)}")
        asyncio.run(measure(arguments, [profiles[name] for name in names]))
    except (BadProfile, PromptsError, DrafterError, WrongAnswer, NotServed) as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
