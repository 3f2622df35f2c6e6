"""`python -m remote.verifier.learning.worker`: the process that learns. It reads a task from stdin; see `task.py`.

It has a low priority, ends with the server, and writes one file: the graph that it has learnt.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from drafter.learning.comparison import Hits, compare, is_better
from drafter.learning.distributions import Distributions
from drafter.learning.parts import FEWEST, split
from drafter.learning.samples import Chunk, Replayer
from drafter.step import StepGraph
from models.config import DrafterConfig, DrafterError
from models.memory import MalformedMemory, unpack_memory
from models.telemetry import switch_off
from remote.verifier.idle import end_with_stdin, stand_back, tell
from remote.verifier.learning.answers import Answer
from remote.verifier.learning.artefacts import Gain
from remote.verifier.learning.task import Outcome, Task, Told, receive


def main() -> int:
    """Learn once."""
    stand_back()
    switch_off()
    try:
        task, answers = receive(sys.stdin.buffer)
    except EOFError:
        return 1
    end_with_stdin()
    tell(learn(task, answers))
    return 0


def learn(task: Task, answers: Sequence[tuple[bool, Answer]]) -> Outcome:
    """Do the task. If nothing better is found, no file is written."""
    from drafter.training.adaptation import Replayed, adapt  # It takes seconds to import.

    graph, out, config = Path(task.graph), Path(task.out), task.config

    def replayed(some: Sequence[tuple[bool, Answer]]) -> list[Replayed]:
        return [
            Replayed(one.tokens, one.rounds, partial(unpacked, one, config), Distributions.unpack(one.target))
            for _, one in some
        ]

    try:
        fitting, before = _drafted_again(graph, config, answers)
        if len(fitting) < FEWEST:
            return Outcome(failed=f"only {len(fitting)} of {len(answers)} answers can be drafted again")
        numbers = split(range(len(fitting)))
        learnt, stopping, judging, fixed = ([fitting[at] for at in part] for part in numbers)
        fresh, known = [one for one in learnt if not one[0]], [one for one in learnt if one[0]]
        newer, older = (fresh, known) if fresh else (known, [])
        parts = replayed(newer), replayed(older), replayed(stopping)
        if not adapt(graph, config, *parts, out, seed=task.seed, progress=lambda done, of: tell(Told(done, of))):
            out.unlink(missing_ok=True)
            newest = compare([before[at] for at in numbers.judging], [before[at] for at in numbers.judging])
            return Outcome(Gain(len(fitting), newest.before, newest.after, newest.low, newest.high, 0.0))
        _, after = _drafted_again(out, config, [*judging, *fixed])
        newest = compare([before[at] for at in numbers.judging], after[: len(judging)])
        oldest = compare([before[at] for at in numbers.fixed], after[len(judging) :])
        better = is_better(newest, oldest)
        if not better:
            out.unlink()
        gain = Gain(len(fitting), newest.before, newest.after, newest.low, newest.high, oldest.gain)
        return Outcome(gain, better)
    except (DrafterError, OSError, ImportError, MemoryError) as error:
        out.unlink(missing_ok=True)
        return Outcome(failed=str(error) or type(error).__name__)
    except Exception as error:  # Any error: its text may quote the answers.
        out.unlink(missing_ok=True)
        return Outcome(failed=f"it failed ({type(error).__name__})")


def _drafted_again(
    graph: Path, config: DrafterConfig, answers: Sequence[tuple[bool, Answer]]
) -> tuple[list[tuple[bool, Answer]], list[Hits]]:
    """The answers that match their memory, and where in each the graph guesses right at inference."""
    replayer, fitting, hits = Replayer(StepGraph(graph, config, states=True), config), [], []
    for known, one in answers:
        try:
            samples = replayer.samples(one.tokens, one.rounds, unpacked(one, config))
        except (MalformedMemory, ValueError):
            continue
        fitting.append((known, one))
        hits.append(samples.hits)
    return fitting, hits


def unpacked(answer: Answer, config: DrafterConfig) -> list[Chunk]:
    chunks: list[Chunk] = []
    for piece in answer.memory:
        rows = unpack_memory(piece.data, piece.count, config.memory_layers)
        valid = slice(piece.valid)
        chunks.append((piece.start, [(row[0][valid], row[1][valid], row[2][valid], row[3][valid]) for row in rows]))
    return chunks


if __name__ == "__main__":
    sys.exit(main())
