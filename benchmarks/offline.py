"""What a drafter is worth without its target: how long it agrees while nothing comes, and what it answers alone.

    python -m benchmarks.offline [--drafter NAME ...] [--moa DIR] [--baselines DIR] [--prompts FILE] [--limit N]
        [--turns N] [--json OUT]

**Agreement** is the share of the target's greedy tokens that are the drafter's first choice, by *staleness*: the number
of tokens between the newest one that the target told about (by memory or features) and the one that is judged.
Conversations of several questions are held with the target, each question about another page. The drafter learns about
the first question and then about nothing, as if the line had dropped with the first word of the first answer. Later
questions, and the target's own answers to all of them, are committed as tokens. They count as stale like all others,
but only answers are judged. The first answer is also judged with the line dropping after every fourth of its tokens. So
small and large staleness meet the same words, and small staleness does not meet only the first ones. The window of a
staleness s is s - s/4 .. s + s/4. Intervals (95 %) are a bootstrap over conversations.

Later answers are later in a conversation as well as further from memory. The independent model never learns about
anything, so its line shows the effect of the first alone.

**Everyday questions** are those of `benchmarks.everyday`, judged in the same way. The drafter answers them alone,
greedily, in a conversation that was begun offline. Of the target it has what the app keeps of earlier conversations:
memory (or features) of the words that all of them begin with.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from app.drafting.prompt import conversation_tokens, shared_prefix
from app.prompts import read_prompts
from benchmarks.acceptance import BASELINES, DRAFTER, PROMPTS, TARGET, opened, rounds, telling
from benchmarks.baseline_drafters import METHODS, Baseline, BaselineContext
from benchmarks.everyday import QUESTIONS, EverydayQuestion, read_questions
from benchmarks.pair import machine_and_pair
from drafter.context import DraftContext
from drafter.model import MemoryEncoder
from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.training.answers import AnsweredConversation
from models.config import DrafterError
from models.engines.engine import Engine
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from models.tree import DraftTree
from storage import Message

NAMES = ("moa", *METHODS)
STALENESS = (1, 4, 8, 16, 32, 64, 128, 256)
"""Middles of the windows, which do not overlap."""
FARTHEST = STALENESS[-1] + STALENESS[-1] // 4
"""Staler tokens are not judged."""
DROPS = 4
"""Tokens of the first answer between two places where the line is taken to drop."""
MOST_TOKENS = 120
"""Tokens of an answer, as in `benchmarks.everyday`."""
ONE = Pace(depth=1, breadth=1, nodes=1)


# ---- agreement -------------------------------------------------------------------------------------------------------


def gather(questions: Sequence[str], conversations: int, turns: int) -> list[list[str]]:
    """Questions spread evenly over the file, in conversations. Those of one conversation are far apart in the file.

    Conversations are fewer and shorter if there are too few questions.
    """
    conversations = min(conversations, len(questions))
    turns = min(turns, len(questions) // conversations)
    spread = [questions[int(at)] for at in np.linspace(0, len(questions) - 1, conversations * turns)]
    return [spread[first::conversations] for first in range(conversations)]


def converse(
    engine: Engine, drafter: Drafter, questions: Sequence[str], most: int = MOST_TOKENS
) -> AnsweredConversation:
    """Let the target answer the questions greedily, one after another, as the app would ask them.

    It ends early if nothing more would be judged, or if the chat template rewrites earlier messages.
    """
    text = drafter.text
    thread: list[Message] = []
    said = AnsweredConversation([], [])
    for question in questions:
        thread.append(_message("user", question))
        prompt = conversation_tokens(text, thread, drafter.prompt)
        stale = len(prompt) - said.learn[0][0] if said.learn else 0
        if prompt[: len(said.ids)] != said.ids or stale > FARTHEST:
            break
        steps = rounds(engine, prompt, lambda _: DraftTree.empty(), text.stop_tokens, most)
        answer = [token for *_, new in steps for token in new]
        said = AnsweredConversation(prompt + answer, [*said.learn, (len(prompt), len(prompt) + len(answer))])
        shown = drafter.marks([*questions[: questions.index(question) + 1]]).shown(text.decode(answer))
        thread.append(_message("assistant", shown, tuple(answer)))
    return said


def _message(role: Literal["user", "assistant"], text: str, tokens: tuple[int, ...] = ()) -> Message:
    """A message as storage would give it. Only role, text and tokens matter to a prompt."""
    return Message("", "", None, role, text, "done", tokens, (True,) * len(tokens), {}, "")


def begin(
    engine: Engine, drafter: Drafter | Baseline, tokens: Sequence[int], known: int
) -> DraftContext | BaselineContext:
    """A conversation of these tokens, with what the target tells about the first `known` of them, in its wire form."""
    draft, context = drafter.context(), engine.context()
    draft.commit(tokens)
    if known:
        context.assign(0, tokens[:known])
        with telling(engine, drafter, draft) as tell:
            engine.verify(context, DraftTree.empty())
            tell(context, DraftTree.empty(), ())
    return draft


def judged(engine: Engine, drafter: Drafter | Baseline, said: AnsweredConversation) -> Iterator[tuple[int, bool]]:
    """All judged tokens of one conversation, as from `after`."""
    first, end = said.learn[0]
    yield from after(engine, drafter, said, first)
    first_answer = AnsweredConversation(said.ids[:end], said.learn[:1])
    for start in range(first + DROPS, end - 1, DROPS):
        yield from after(engine, drafter, first_answer, start)


def after(
    engine: Engine, drafter: Drafter | Baseline, said: AnsweredConversation, start: int
) -> Iterator[tuple[int, bool]]:
    """For each later token of the target's answers: its staleness, and whether it is also the drafter's first choice.

    The target has told about the first `start` tokens. With the last of these it gives the next token, which is not
    judged.
    """
    draft = begin(engine, drafter, said.ids[:start], start)
    for first, end in said.learn:
        draft.commit(said.ids[len(draft.tokens) : max(first, start + 1)])
        for token in said.ids[len(draft.tokens) : min(end, start + FARTHEST + 1)]:
            yield len(draft.tokens) - start, int(draft.draft(ONE).tokens[0]) == token
            draft.commit([token])


@dataclass
class Agreement:
    """The agreement of one drafter: tokens that were judged and that agree, for each conversation and window."""

    hits: list[list[int]] = field(default_factory=list)
    counts: list[list[int]] = field(default_factory=list)

    def add(self, tokens: Iterable[tuple[int, bool]]) -> None:
        """Add the tokens of one conversation."""
        hits, counts = [0] * len(STALENESS), [0] * len(STALENESS)
        for stale, agrees in tokens:
            for window, middle in enumerate(STALENESS):
                if abs(stale - middle) <= middle // 4:
                    hits[window] += agrees
                    counts[window] += 1
        self.hits.append(hits)
        self.counts.append(counts)

    def rows(self) -> list[dict[str, object]]:
        """A row for each window that holds tokens."""
        hits, counts = np.array(self.hits).T, np.array(self.counts).T
        return [
            {"staleness": middle, "from": middle - middle // 4, "to": middle + middle // 4, **share(hit, count)}
            for middle, hit, count in zip(STALENESS, hits, counts)
            if count.sum()
        ]


def share(hits: np.ndarray, counts: np.ndarray) -> dict[str, object]:
    """Share of hits with a 95 % interval, by a bootstrap over conversations.

    `hits` and `counts` have one entry for each.
    """
    hits, counts = hits[counts > 0], counts[counts > 0]
    picks = np.random.default_rng(0).integers(len(counts), size=(2000, len(counts)))
    shares = hits[picks].sum(1) / counts[picks].sum(1)
    return {
        "share": round(float(hits.sum() / counts.sum()), 3),
        "ci95": [round(float(bound), 3) for bound in np.quantile(shares, (0.025, 0.975))],
        "tokens": int(counts.sum()),
        "conversations": len(counts),
    }


# ---- everyday questions ----------------------------------------------------------------------------------------------


def write(draft: DraftContext | BaselineContext, stops: frozenset[int], most: int) -> list[int]:
    """What the drafter alone says next, greedily, including its stop token."""
    steps = draft.generate(0.0, 0) if isinstance(draft, DraftContext) else _one_by_one(draft)
    answer: list[int] = []
    for tokens in steps:
        for token in tokens:
            answer.append(token)
            if token in stops or len(answer) == most:
                return answer
    raise AssertionError("a drafter never ends by itself")


def _one_by_one(draft: BaselineContext) -> Iterator[list[int]]:
    while True:
        token = int(draft.draft(ONE).tokens[0])
        draft.commit([token])
        yield [token]


def everyday(
    engine: Engine,
    drafter: Drafter | Baseline,
    moa: Drafter,
    questions: Sequence[EverydayQuestion],
    most: int = MOST_TOKENS,
) -> dict[str, object]:
    """How many questions get a right command from the drafter alone. `moa` says how the target is asked."""
    text = moa.text
    known, stops = shared_prefix(text, moa.prompt), frozenset(drafter.config.stop_tokens)
    right = []
    for question in questions:
        draft = begin(engine, drafter, moa.asked_as(question.prompt), known)
        said = text.decode(write(draft, stops, most))
        right.append(question.right(moa.marks([question.prompt]).shown(said)))
    row = share(np.array(right, int), np.ones(len(right), int))
    return {"right": sum(right), "questions": len(right), "share": row["share"], "ci95": row["ci95"]}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafter", choices=(*NAMES, "all"), nargs="+", default=["all"])
    parser.add_argument("--target", default=str(TARGET))
    parser.add_argument("--moa", type=Path, default=DRAFTER, metavar="DIR", help="the MoA drafter")
    parser.add_argument("--baselines", type=Path, default=BASELINES, metavar="DIR", help="a folder for each of them")
    parser.add_argument("--prompts", type=Path, default=PROMPTS, help="questions for the conversations")
    parser.add_argument("--questions", type=Path, default=QUESTIONS, help="questions that are judged by their command")
    parser.add_argument("--limit", type=int, default=100, help="conversations")
    parser.add_argument("--turns", type=int, default=8, help="questions in each, at most")
    parser.add_argument("--max-tokens", type=int, default=MOST_TOKENS, help="most tokens of an answer")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    torch.manual_seed(0)
    moa = Drafter.load(arguments.moa)
    engine = TorchEngine(load_target(arguments.target).model, MemoryEncoder.load(arguments.moa))
    try:
        drafters = opened(arguments.drafter, moa, arguments.baselines, engine, arguments.target)
    except DrafterError as error:
        parser.exit(1, f"{error}\n")
    asked = [question for prompt in read_prompts(arguments.prompts) for question in prompt.turns]
    groups = gather(asked, arguments.limit, arguments.turns)
    conversations = [converse(engine, moa, questions, arguments.max_tokens) for questions in groups]
    questions = read_questions(arguments.questions)
    rows = []
    for name in (name for name in NAMES if name in drafters):
        agreement = Agreement()
        for said in conversations:
            agreement.add(judged(engine, drafters[name], said))
        answered = everyday(engine, drafters[name], moa, questions, arguments.max_tokens)
        rows.append({"drafter": name, "agreement": agreement.rows(), "everyday": answered})
        print(json.dumps(rows[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"machine": machine_and_pair(arguments.moa), "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
