"""Draws training conversations: which need or page, how it is asked, and the right answer.

Every conversation is a function of (seed, index) alone, so a killed run continues with the very next one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from recipes.shell_guide import phrasing
from recipes.shell_guide.everyday import Need, fill, normalise, read_everyday
from recipes.shell_guide.pages import Example, Page, read_pages
from recipes.shell_guide.slots import SLOT, renumber, stem

Turn = tuple[str, str]
"""(question, answer)"""

EVERYDAY = Path(__file__).parent / "everyday"
_DATA = Path(__file__).parents[2] / "tests/data"
EVALUATION = (
    _DATA / "everyday.jsonl",
    _DATA / "everyday_rephrased.jsonl",
    _DATA / "literals.jsonl",
    _DATA / "literals_fresh.jsonl",
    _DATA / "off_topic.jsonl",
    _DATA / "harmless.jsonl",
    _DATA / "follow_ups.jsonl",
    _DATA / "execution.jsonl",
    _DATA / "retrieval.jsonl",
)
"""Files of the questions on which the target is measured."""

KINDS = ("everyday", "how-to", "what-is", "examples", "follow-up")
DEFAULT_MIX = (0.52, 0.26, 0.06, 0.04, 0.12)
ALONE = 0.6
"""Share of conversations with a single episode: one question, or one and its follow-up."""
MORE_EPISODES = 1.8
"""Mean number of further, unrelated episodes in the others. A model that was never trained on changes of topic repeats
itself."""


def evaluation_questions(paths: Iterable[Path] = EVALUATION) -> set[str]:
    """The normalised questions on which the target is measured. They never become training samples.

    The last question of a conversation counts. A question without a Latin letter has no normalised form, and is never
    drawn.
    """
    rows = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    return {normalise(row["turns"][-1] if "turns" in row else row["prompt"]) for row in rows} - {""}


class ConversationSource:
    """An endless source of training conversations, by index.

    `mix`: the share of each of `KINDS`. Held-out pages and evaluation questions are left out. `strange`: the share of
    pages with a renamed program and a task mixed with another's. They have no right answer, but a target gives one. A
    drafter trained only on what its target has memorised guesses badly elsewhere.
    """

    def __init__(self, pages_file: Path, seed: int, mix: tuple[float, ...] = DEFAULT_MIX, strange: float = 0.0) -> None:
        self._excluded = evaluation_questions()
        self.needs = read_everyday(EVERYDAY, self._excluded)
        self.needs_with_followups = [n for n in self.needs if any(f.questions for f in n.followups)]
        known = {need.name for need in self.needs}
        self.pages = [p for p in read_pages(pages_file) if not p.held_out and p.examples]
        weights = np.array([p.weight * (3.0 if p.name in known else 1.0) for p in self.pages])
        self._popular = weights > np.quantile(weights, 0.93)
        self._page_weights = np.cumsum(weights / weights.sum())
        self._mix = np.cumsum(np.array(mix) / np.sum(mix))
        self._seed = seed
        self._strange = strange

    def draw(self, index: int) -> list[Turn]:
        """Conversation number `index`: one episode, or several about unrelated things, one after the other."""
        rng = np.random.default_rng([self._seed, index])
        episodes = 1 if rng.random() < ALONE else 1 + int(rng.geometric(1 / MORE_EPISODES))
        return [turn for _ in range(episodes) for turn in self.episode(rng)]

    def is_evaluation(self, question: str) -> bool:
        """True if the target is measured on this question."""
        return normalise(question) in self._excluded

    def episode(self, rng: np.random.Generator) -> list[Turn]:
        """One question, or one and its follow-up, none of which the target is measured on."""
        while True:
            turns = self._draw(rng)
            # Slots and synonyms can turn other questions into one of the evaluation.
            if not any(self.is_evaluation(question) for question, _ in turns):
                return turns

    def _draw(self, rng: np.random.Generator) -> list[Turn]:
        kind = KINDS[int(np.searchsorted(self._mix, rng.random(), side="right").clip(0, len(KINDS) - 1))]
        if kind == "everyday":
            need = self.needs[int(rng.integers(len(self.needs)))]
            return [self._everyday(need, rng, {})]
        if kind == "follow-up" and rng.random() < 0.6:
            return self._everyday_follow_up(rng)
        at = int(np.searchsorted(self._page_weights, rng.random()))
        page, popular = self.pages[at], bool(self._popular[at])
        example = page.examples[int(rng.integers(len(page.examples)))]
        if self._strange and rng.random() < self._strange:
            page, example = self._mix_up(page, example, rng)
        if kind == "what-is":
            return [(phrasing.ask_what_is(page, rng), phrasing.answer_what_is(page))]
        if kind == "examples":
            return [(phrasing.ask_examples(page, rng), phrasing.answer_examples(page))]
        first = (
            phrasing.ask(page, example, rng, 0.5 if popular else 0.85),
            phrasing.answer(page.name, example.task, example.command),
        )
        if kind == "how-to" or len(page.examples) < 2:
            return [first]
        if rng.random() < 0.3:
            first = (phrasing.ask_what_is(page, rng), phrasing.answer_what_is(page))
        after = page.examples[int(rng.integers(len(page.examples)))]
        return [first, (phrasing.ask_next(after, rng), phrasing.answer(page.name, after.task, after.command))]

    def _mix_up(self, page: Page, example: Example, rng: np.random.Generator) -> tuple[Page, Example]:
        """The page of a program that does not exist, and a question about it."""
        other = self.pages[int(rng.integers(len(self.pages)))]
        name = other.name if rng.random() < 0.5 else stem(rng)
        if rng.random() < 0.7:
            task = other.examples[int(rng.integers(len(other.examples)))].task
            example = replace(example, task=phrasing.splice(example.task, task, rng))
        return replace(page, name=name), example

    def _everyday(self, need: Need, rng: np.random.Generator, values: dict[str, str]) -> Turn:
        # A question that names the thing has twice the weight, because its answer has to copy it.
        weights = np.array([2.0 if SLOT.search(question) else 1.0 for question in need.questions])
        question = str(rng.choice(need.questions, p=weights / weights.sum()))
        intent, command = need.intent, need.command
        if rng.random() < 0.5:
            question, intent, command = renumber(question, intent, command, rng)
        if rng.random() < 0.3:
            question = phrasing.synonyms(question, rng, 0.25)
        asked, command = fill(phrasing.surface(question, rng), command, rng, values)
        return asked, phrasing.answer(need.name, intent, command)

    def _everyday_follow_up(self, rng: np.random.Generator) -> list[Turn]:
        need = self.needs_with_followups[int(rng.integers(len(self.needs_with_followups)))]
        after = [f for f in need.followups if f.questions]
        values: dict[str, str] = {}
        return [self._everyday(need, rng, values), self._everyday(after[int(rng.integers(len(after)))], rng, values)]

    def texts(self, count: int) -> Iterator[str]:
        """The plain text of `count` conversations, to train the tokenizer on."""
        for index in range(count):
            for question, answer in self.draw(index):
                yield question
                yield answer
