"""The conversations that Shell Guide learns from: questions of every kind, preceded by their pages.

Every conversation is a function of (seed, index) alone, so a killed run continues with the very next one.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.guide import prompt
from models.guide.names import Marks, NoMarks, Spans
from models.guide.pages import Pages
from models.guide.search import Hit, platforms_of
from recipes.shell_guide import errors, phrasing
from recipes.shell_guide.conversations import ConversationSource
from recipes.shell_guide.drawn import Message
from recipes.shell_guide.given import GivenSource
from recipes.shell_guide.grammar.drawing import Drawer, Spoken
from recipes.shell_guide.grammar.intents import Asked, Intent, read_intents
from recipes.shell_guide.grammar.searching import wordings
from recipes.shell_guide.grammar.talk import Talk, read_talk
from recipes.shell_guide.grammar.wording import one_of
from recipes.shell_guide.piped import drawing

MIX = {
    "intent": 0.44, "pages": 0.26, "talk": 0.085, "language": 0.03, "beyond": 0.035, "explain": 0.02, "piped": 0.06,
    "given": 0.04, "error": 0.03,
}  # fmt: skip
"""Share of each kind of episode. `pages`: everyday needs and tldr pages, as `ConversationSource` mixes them."""
USE = 0.6
"""Exponent of the number of languages of an intent's page: `find` is drawn some four times as often as a new page."""
ALONE = 0.62
"""Share of conversations with one episode. A model that has never seen a change of topic takes everything for a
follow-up."""
FOLLOW = 0.55
"""How often a command is followed up, where something fits. Of all questions, a third are follow-ups."""
PLATFORMS = {"linux": 0.86, "darwin": 0.11, "win32": 0.03}
LEFT_OUT = 0.35
"""How often the question's own wordings are left out of the search, as if they were not in the index."""
WITHOUT_BEST, SHUFFLED, STRANGE, NONE = 0.12, 0.14, 0.04, 0.04
"""Shares of prompts without the best example, in another order, with another question's examples, with none. A model
trained only on good examples trusts bad ones."""
MISSED = 0.15
"""Share of names without a mark. In use, no rule finds all names, and a model that has only seen marks cannot copy a
name of several tokens."""


@dataclass(frozen=True)
class Turn:
    """A question and its answer."""

    question: str
    answer: str
    needs_pages: bool = False
    """Whether the answer ends with the name of the closest page."""
    wordings: frozenset[int] = frozenset()
    """Wordings in the index that the question was drawn from."""


class _SomeMarks(Marks):
    """The marks of a conversation in which some names have none. Which ones depends on `seed` and the name alone."""

    def __init__(self, seed: int, pages: Pages) -> None:
        super().__init__((), pages.called)
        self._seed = seed

    def found(self, question: str) -> Spans:
        """The names that get a mark."""
        return [(start, end) for start, end in super().found(question) if not self._missed(question[start:end])]

    def _missed(self, name: str) -> bool:
        return zlib.crc32(f"{self._seed} {name}".encode()) < MISSED * 2**32


class Mixture:
    """An endless source of training conversations, by index, as the messages that the target reads.

    `marks`: whether names have marks, for a target whose tokenizer has them. `strange`: as for `ConversationSource`.
    """

    def __init__(self, pages_file: Path, index: Path, seed: int, *, marks: bool = False, strange: float = 0.0) -> None:
        self.everyday = ConversationSource(pages_file, seed, strange=strange)
        self.intents = read_intents()
        self._drawer = Drawer()
        talk = read_talk()
        self._talk = {
            "language": [one for one in talk if one.kind == "language"],
            "beyond": [one for one in talk if one.kind in ("beyond", "unknown program")],
        }
        self._talk["talk"] = [one for one in talk if one not in self._talk["language"] + self._talk["beyond"]]
        self.pages = Pages.open(index)
        self._programs = self.pages.programs()
        self._intent_shares = np.cumsum(self._weights())
        self._given = GivenSource(self.intents, self._intent_shares)
        self._kinds, self._shares = list(MIX), np.cumsum(list(MIX.values())) / sum(MIX.values())
        self._of_phrase: dict[int, frozenset[int]] = {}
        self._seed, self._marks = seed, marks

    def draw(self, index: int) -> list[Message]:
        """Conversation number `index`, with a system message before each question."""
        rng = np.random.default_rng([self._seed, index])
        platform = str(rng.choice(list(PLATFORMS), p=list(PLATFORMS.values())))
        episodes = 1 if rng.random() < ALONE else 1 + int(rng.geometric(0.55))
        turns = [turn for _ in range(episodes) for turn in self._episode(rng)]
        marks = _SomeMarks(self._seed * 1_000_003 + index, self.pages) if self._marks else NoMarks()
        messages: list[Message] = []
        for number, turn in enumerate(turns):
            hits = self._hits(turns[: number + 1], platform, rng)
            answer = turn.answer
            if turn.needs_pages and hits:
                answer += f" The closest page that I have is `{hits[0].page.name}`."
            question = marks.read(turn.question)
            system = prompt.system(hits, platforms_of(platform)[0], marks)
            messages += [("system", system), ("user", question), ("assistant", marks.said(answer))]
        return messages

    def _hits(self, turns: Sequence[Turn], platform: str, rng: np.random.Generator) -> list[Hit]:
        draw = rng.random()
        if draw < NONE:
            return []
        if draw < NONE + STRANGE:
            turns = [self._episode(rng)[0]]
        questions = [turn.question for turn in turns]
        without: frozenset[int] = frozenset()
        if rng.random() < LEFT_OUT:
            without = turns[-1].wordings | self.pages.wordings(questions[-1])
        hits = prompt.find(self.pages, questions, platforms_of(platform), without)
        draw = rng.random()
        if draw < WITHOUT_BEST:
            return hits[1:]
        if draw < WITHOUT_BEST + SHUFFLED:
            return [hits[int(at)] for at in rng.permutation(len(hits))]
        return hits

    def _episode(self, rng: np.random.Generator) -> list[Turn]:
        while True:
            turns = self._draw(rng)
            if not any(self.everyday.is_evaluation(turn.question) for turn in turns):
                return turns

    def _draw(self, rng: np.random.Generator) -> list[Turn]:
        kind = self._kinds[int(np.searchsorted(self._shares, rng.random()).clip(0, len(self._kinds) - 1))]
        if kind == "piped":
            return [Turn(question, answer) for question, answer in drawing.draw(rng)]
        if kind == "given":
            return [Turn(question, answer) for question, answer in self._given.draw(rng)]
        if kind == "error":
            return [Turn(*errors.draw(rng))]
        if kind == "pages" or (kind in ("intent", "explain") and not self.intents):
            return self._followed([Turn(question, answer) for question, answer in self.everyday.episode(rng)], rng)
        if kind in ("intent", "explain"):
            at = np.searchsorted(self._intent_shares, rng.random() * self._intent_shares[-1], side="right")
            intent = self.intents[int(at)]
            spoken = self._drawer.conversation(intent, rng, follow=0.0 if kind == "explain" else FOLLOW)
            return (
                self._explained(spoken[0], rng)
                if kind == "explain"
                else [Turn(one.question, one.answer, wordings=self._indexed(one.asked, intent)) for one in spoken]
            )
        return [self._said(self._talk[kind], rng)]

    def _followed(self, turns: list[Turn], rng: np.random.Generator) -> list[Turn]:
        """The turns from a page, and follow-ups that fit the last command."""
        read = phrasing.read_answer(turns[-1].answer)
        if read is None:
            return turns
        name, task, command = read
        first = Spoken(turns[-1].question, (name,), task, command)
        return turns + [Turn(one.question, one.answer) for one in self._drawer.after(first, rng, follow=FOLLOW)]

    def _weights(self) -> list[float]:
        """How often each intent is drawn: more for a page that exists in many languages, which is a sign of use."""
        languages: dict[str, int] = dict(self.pages.rows("SELECT name, max(languages) FROM pages GROUP BY name"))
        names = [one.programs[0] for one in self.intents]
        return [(1 + languages.get(name, languages.get(name.split()[0], 0))) ** USE for name in names]

    def _indexed(self, asked: Asked | None, intent: Intent) -> frozenset[int]:
        """The ids of a phrase's wordings in the index."""
        if asked is None:
            return frozenset()
        if id(asked) not in self._of_phrase:
            before = "" if asked in intent.asks else f"{intent.told({})} "
            owner = intent if asked in intent.asks else next(then for then in intent.thens if asked in then.asks)
            ids = (self.pages.wordings(before + text) for text in wordings(asked, owner))
            self._of_phrase[id(asked)] = frozenset().union(*ids)
        return self._of_phrase[id(asked)]

    def _explained(self, spoken: Spoken, rng: np.random.Generator) -> list[Turn]:
        answer = phrasing.explanation(spoken.programs, spoken.task, spoken.command)
        if rng.random() < 0.5:
            form = one_of("explain_after", rng) + ("?" if rng.random() < 0.4 else "")
            return [Turn(spoken.question, spoken.answer), Turn(form, answer)]
        shown = f"`{spoken.command}`" if rng.random() < 0.4 else spoken.command
        return [Turn(one_of("explain", rng).replace("{}", shown), answer)]

    def _said(self, talks: Sequence[Talk], rng: np.random.Generator) -> Turn:
        talk = talks[int(rng.integers(len(talks)))]
        question, answer = talk.draw(rng)
        while talk.kind == "unknown program" and any(word in self._programs for word in answer.split("`")[1:2]):
            question, answer = talk.draw(rng)
        if rng.random() < 0.3:
            question = question[:1].upper() + question[1:]
        if rng.random() < 0.35 and question[-1:].isalnum():
            question += str(rng.choice(("?", "!", ".")))
        return Turn(question, answer, talk.kind in ("beyond", "unknown program"))
