"""Conversations as tokens, made only for models that read tokens.

When a question is stored, it is not known who will answer: perhaps a server that reads text, or the drafter once the
line breaks. So a conversation is tokenised only when its reader is known, once for each kind of reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.drafting.prompt import FULL, ConversationTokens, leaves_examples_out, questions_of
from models.guide.names import Marks, NoMarks
from models.guide.prompt import Prompt
from models.guide.search import Hit
from models.text.chat_text import ChatText
from storage import Message


@dataclass(frozen=True)
class Reading:
    """One conversation as one kind of model reads it, up to where the answer begins."""

    tokens: Sequence[int]
    """Empty: the conversation is too long to be read."""
    marks: Marks
    """Marks of the names in the conversation; none if the recipe has no marks."""
    hits: Sequence[Hit] = ()
    """What the recipe found for the last question."""
    brief: bool = False
    """Whether only that question has examples, because those of all questions do not fit."""


Kept = dict[tuple[bool, bool], ConversationTokens]
"""The state of a conversation for each kind of reader: (by the recipe, brief)."""


@dataclass
class Conversation:
    """A conversation up to its last question, for models that read tokens.

    `thread` and `system`: as for `ConversationTokens.read`.
    """

    text: ChatText
    thread: Sequence[Message]
    system: str | None
    recipe: Prompt | None
    """The prompt recipe of the drafter's own target."""
    most: int
    """Most tokens that any reader reads."""
    kept: Kept = field(default_factory=dict)
    """Its cached states for earlier questions."""

    def read(self, *, own_target: bool, most_read: int, brief: bool) -> Reading:
        """The conversation as a model reads it. Any thread may call it. Raises `TemplateFailed`, `DrafterCorrupt`.

        `own_target`: whether the reader is the drafter or the target that it was made for; only these use the recipe.
        `most_read`: most tokens of a conversation that are read. `brief`: with examples only for the last question, as
        also if those of all questions leave no room for the answer.
        """
        recipe = self.recipe if own_target else None
        most_read = min(most_read, self.most)
        if recipe is None:
            return self._made(None, brief=False, most=self.most) or Reading((), NoMarks())
        if not brief:
            whole = self._made(recipe, brief=False, most=int(FULL * most_read))
            if whole is not None and not leaves_examples_out(len(whole.tokens), most_read):
                return whole
        return self._made(recipe, brief=True, most=self.most) or Reading((), NoMarks(), brief=True)

    def _made(self, recipe: Prompt | None, *, brief: bool, most: int) -> Reading | None:
        """The conversation for this kind of reader, or None if it is longer than `most` tokens."""
        key = recipe is not None, brief
        made = self.kept.setdefault(key, ConversationTokens(self.text, recipe, brief=brief))
        read = made.read(self.thread, self.system, most)
        if read is None or len(read[0]) > most:
            return None
        questions = questions_of(self.thread)
        hits = recipe.hits(questions) if recipe is not None and questions else []
        return Reading(*read, hits, brief)
