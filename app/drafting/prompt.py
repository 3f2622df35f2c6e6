"""A conversation as the tokens that drafter and target read, and how much of the context window it takes.

Answers keep the tokens in which they were given. The same text, encoded again, may give other tokens, and then neither
the verifier's cache nor the drafter's memory would match. The chat template is rendered for the parts between the
answers.

Stored tokens are used only if they decode to the stored text. An answer of another drafter, or from an import, may have
ids of another vocabulary; its text, which the person has seen, is encoded instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from app.attachments.content import question_content
from app.attachments.renderer import as_read
from app.sanitise import sanitise
from models.config import DrafterError
from models.guide.names import Marks, NoMarks, names_said
from models.guide.prompt import Prompt
from models.text.chat_text import ChatText, Rendered
from remote.openai.dialect import OPENING
from remote.openai.schema import Content
from storage import Message, Store
from storage.replays import Replay

SLICE = re.compile(r".{1,4096}(?!\S)|.{1,4096}", re.DOTALL)
"""Characters of a text that are counted at once, if possible up to the end of a word: the tokenizer blocks other
threads meanwhile."""
SURE = 2
"""A text counted in slices has certainly more than one in this many of the counted tokens."""
SLACK = 64
"""Tokens by which counting piece by piece may overestimate a conversation: a tokenizer may join adjacent pieces."""
LONG = 1 << 16
"""Characters of a message above which it is first counted in slices, to find out whether it is too long."""
FULL = 7 / 8
"""Share of the readable tokens that a conversation may fill including the examples of all its questions. The rest is
for the answer."""
UNFINISHED = ("pending", "streaming")
"""Status of an answer that is being written."""


class Context(NamedTuple):
    """How much of the context window the shown branch takes, in tokens."""

    used: int
    limit: int
    """Most tokens that can be read: by the drafter, and by the verifier if there is one."""

    @property
    def share(self) -> float:
        return self.used / self.limit


def leaves_examples_out(length: int, most_read: int) -> bool:
    """Whether a conversation of this length gets only the examples of its last question.

    `length`: total tokens, examples of all questions included. `most_read`: most tokens that the model reads.
    """
    return length > FULL * most_read


# ---- a conversation as tokens ----------------------------------------------------------------------------------------


def conversation_tokens(
    text: ChatText,
    thread: Sequence[Message],
    prompt: Prompt | None = None,
    system: str | None = None,
    *,
    brief: bool = False,
) -> list[int]:
    """The prompt for the answer to the last question of `thread`, as `ConversationTokens` reads it.

    Raises `TemplateFailed`, `DrafterCorrupt`.
    """
    read = ConversationTokens(text, prompt, brief=brief).read(thread, system)
    assert read is not None  # No limit was given.
    return read[0]


class ConversationTokens:
    """The prompts of one conversation as tokens. Each ends where the answer to its last question begins.

    `prompt`: the recipe of the drafter's own target; no other target may get it. It is a function of the questions so
    far, so the tokens of earlier turns do not change, unless the prompt is `brief`: then only the last question gets
    examples. The recipe has its own system messages, and accepts no others.

    The result for a conversation up to its last question is cached. So the first question takes time proportional to
    the conversation, and each later one only to the text since the previous one.
    """

    def __init__(self, text: ChatText, prompt: Prompt | None, *, brief: bool = False) -> None:
        self._text, self._prompt, self._brief = text, prompt, brief
        self._kept: _Written | None = None

    def read(
        self, thread: Sequence[Message], system: str | None = None, most: int | None = None
    ) -> tuple[list[int], Marks] | None:
        """The prompt for the answer to the last question of `thread`, and the marks of the names in the conversation.

        Returns None if it is certainly longer than `most` tokens. Without a recipe that marks names, there are no
        marks.

        `system`: the system prompt, as for `system_apart`. A template without system messages gets it as the beginning
        of the first question. Answers without tokens that decode to their text are encoded. Questions without an answer
        are left out, except the last one, because chat templates require alternating roles. Raises `TemplateFailed`,
        `DrafterCorrupt`.
        """
        said, messages = system_apart(answered(thread), system)
        if self._prompt is not None:
            messages = _for_recipe(messages)
        last = max((at for at, message in enumerate(messages) if message.role == "user"), default=0)
        if self._kept is None or not self._kept.begins(said, messages[:last]):
            marks: Marks = NoMarks() if self._prompt is None else self._prompt.marks()
            self._kept = _Written(said, marks, _begun(self._text, said) if self._prompt is None else [])
        written = self._kept.copy()
        if not self._write(written, messages[len(written.messages) : last], most, shown=not self._brief):
            return None
        self._kept = written.copy()
        if not self._write(written, messages[last:], most, shown=True):
            return None
        return written.tokens, written.marks

    def _write(self, written: _Written, messages: Sequence[Message], most: int | None, *, shown: bool) -> bool:
        """Add the next turns; returns False if the result is certainly longer than `most`. `shown`: with examples."""
        left = inf if most is None else most + SLACK - len(written.tokens)
        turns = []
        for message in messages:
            turn = self._turn(written.marks, message, left)
            left -= turn.length
            if left < 0:
                return False
            turns.append(turn)
        asked = []
        for turn in turns:
            if turn.message.role != "user":
                written.hear(turn)
                continue
            if self._prompt is not None:
                written.questions.append(turn.message.text)
                recipe = (
                    self._prompt.system(written.questions, turn.marks) if shown else turn.marks.said(self._prompt.task)
                )
                left -= 0 if most is None else len(self._text.encode(recipe))
                if left < 0:
                    return False
                written.spoken.append(("system", recipe))
            asked.append((written.ask(turn), written.answer, written.spelling))
            written.answer = None
        written.messages += messages
        if asked:
            rendered = self._text.render_each(written.rendered, written.spoken, [end for end, _, _ in asked])
            for one, (_, answer, spelling) in zip(rendered, asked):
                written.add(self._text, one, answer, spelling)
        return True

    def _turn(self, marks: Marks, message: Message, left: float) -> _Turn:
        """A message as it is read. A text with certainly more than `left` tokens is not encoded to its end."""
        if message.role == "user":
            said = as_read(replace(message, text=marks.read(message.text))).text
        else:
            said = marks.said(message.text)
        if left < inf and len(said) > LONG:
            counted = 0
            for piece in SLICE.finditer(said):
                counted += len(self._text.encode(piece[0]))
                if counted // SURE > left:
                    return _Turn(message, said, [], counted, marks)
        encoded = self._text.encode(said) if message.role != "user" or left < inf else []
        return _Turn(message, said, encoded, min(len(encoded), len(message.tokens) or len(encoded)), copy(marks))


class _Turn(NamedTuple):
    message: Message
    said: str
    encoded: list[int]
    """Empty for a question whose length is not needed."""
    length: int
    """Least number of its tokens."""
    marks: Marks


@dataclass
class _Written:
    """The state of a conversation so far."""

    system: str
    marks: Marks
    spoken: list[tuple[str, str]]
    """(role, text), as passed to the template."""
    messages: list[Message] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """The prompt for the answer to the last question."""
    rendered: Rendered | None = None
    """That prompt by the template alone."""
    answer: Message | None = None
    """The last answer, if no question followed it."""
    spelling: list[int] = field(default_factory=list)
    """That answer, encoded again."""

    def copy(self) -> _Written:
        """A copy that can be extended independently."""
        return replace(
            self,
            marks=copy(self.marks),
            spoken=list(self.spoken),
            messages=list(self.messages),
            questions=list(self.questions),
            tokens=list(self.tokens),
        )

    def begins(self, system: str, messages: Sequence[Message]) -> bool:
        """Whether a conversation continues this one."""
        return self.system == system and self.messages == messages[: len(self.messages)]

    def ask(self, turn: _Turn) -> int:
        """Add a question, joined to a question just before it; returns the new length of `spoken`."""
        if self.spoken and self.spoken[-1][0] == "user":
            self.spoken[-1] = ("user", f"{self.spoken[-1][1]}\n\n{turn.said}")
        else:
            self.spoken.append(("user", turn.said))
        return len(self.spoken)

    def hear(self, turn: _Turn) -> None:
        self.spoken.append((turn.message.role, turn.said))
        self.answer = turn.message if turn.message.role == "assistant" else self.answer
        self.spelling = turn.encoded

    def add(self, text: ChatText, rendered: Rendered, answer: Message | None, spelling: list[int]) -> None:
        """Add the prompt of the next question, and the answer before it in its own tokens."""
        before = 0 if self.rendered is None else len(self.rendered.tokens)
        between = None if answer is None else _after_answer(text, rendered.tokens[before:], answer, spelling)
        if answer is None or between is None:
            self.tokens = list(rendered.tokens)
        else:
            # The template writes the end of an answer. The token that ended it may be another one.
            ended = answer.tokens[-1] in text.stop_tokens
            self.tokens += answer.tokens[:-1] if ended else answer.tokens
            self.tokens += between
        self.rendered = rendered


def replayed_tokens(store: Store, text: ChatText, prompt: Prompt | None, replay: Replay) -> list[int]:
    """The tokens of a conversation up to the end of an answer, as when the answer was drafted.

    Raises `ValueError` if the conversation is now read differently, `NotFound`.
    """
    thread, answer = store.summaries.read(replay.message_id), store.messages.get(replay.message_id)
    chosen = store.conversations.get(replay.conversation_id).choices.system
    for recipe in (None,) if prompt is None else (prompt, None):
        tokens = conversation_tokens(text, thread, recipe, system=None if recipe else chosen)
        if len(tokens) == replay.prompt:
            return [*tokens, *answer.tokens]
    raise ValueError("the conversation is read in another way now")


def conversation_messages(thread: Sequence[Message], system: str | None = None) -> list[tuple[str, Content]]:
    """The conversation as (role, content) up to the last question, for a server that reads text and not tokens.

    `system`: as for `system_apart`.
    """
    said, messages = system_apart(answered(thread), system)
    begun: list[tuple[str, Content]] = [("system", said)] if said else []
    return begun + [(message.role, question_content(message)) for message in messages]


def system_apart(thread: Sequence[Message], system: str | None) -> tuple[str, list[Message]]:
    """The system prompt of a conversation, empty for none, and its messages without that.

    `system`: the chosen system prompt, which replaces all system messages of an import; empty: the person wants none.
    None: nothing was chosen, and the conversation's system messages are joined as its system prompt. Many templates and
    servers accept only one system message, as the first.
    """
    said = dict.fromkeys(message.text for message in thread if message.role == "system" and message.text)
    spoken = [message for message in thread if message.role != "system"]
    return "\n\n".join(said) if system is None else system, spoken


def _begun(text: ChatText, system: str) -> list[tuple[str, str]]:
    """The first messages of a conversation with this system prompt, for this template."""
    if not system:
        return []
    return [("system" if text.takes_system else "user", system)]


def questions_of(thread: Sequence[Message]) -> list[str]:
    """The questions of a conversation, up to the last one."""
    return [message.text for message in answered(_for_recipe(thread)) if message.role == "user"]


def _for_recipe(thread: Sequence[Message]) -> list[Message]:
    """The messages that a prompt recipe reads: it has its own system messages, and looks up questions."""
    return [message for message in thread if message.role != "system" and not message.summary]


def shared_prefix(text: ChatText, prompt: Prompt | None = None) -> int:
    """Number of tokens with which every conversation begins: the system prompt, up to the first word of the question.

    With the recipe `prompt`: up to its first example.
    """
    begins = [[("system", f"{prompt.task}\n{letter}")] if prompt else [] for letter in "ab"]
    first, second = (text.render([*begun, ("user", letter)]) for begun, letter in zip(begins, "ab"))
    return next((at for at, (one, other) in enumerate(zip(first, second)) if one != other), 0)


def answered(thread: Sequence[Message], *, calls: bool = False) -> list[Message]:
    """The messages that belong in the prompt; `thread` ends with the new question or its pending answer.

    Questions and answers alternate, beginning with a question: an import may have other conversations. `calls`: an
    answer that has only tool calls belongs there too.
    """
    kept: list[Message] = []
    for message in thread:
        last = next((one for one in reversed(kept) if one.role != "system"), None)
        if message.role == "user" and kept and kept[-1].role == "user":
            kept.pop()
        if message.role != "assistant":
            kept.append(message)
        elif message.text and last is not None and last.role == "assistant":
            kept[kept.index(last)] = replace(last, text=f"{last.text}\n\n{message.text}", tokens=(), provenance=())
        elif message.text or (calls and message.calls):
            kept += [message] if last is not None else [replace(message, role="user", text=OPENING), message]
    return kept


def _after_answer(text: ChatText, rendered: list[int], answer: Message, encoded: list[int]) -> list[int] | None:
    """The template's tokens between an answer and the next one; `rendered` begins with that answer as `encoded`.

    None if the answer's own tokens cannot be used, because they do not decode to its text, or because the template
    changes earlier messages.
    """
    if rendered[: len(encoded)] != encoded or not is_spelt(text, answer):
        return None
    return rendered[len(encoded) :]


# ---- the tokens of one message ---------------------------------------------------------------------------------------


def is_spelt(text: ChatText, message: Message) -> bool:
    """Whether a message's tokens decode to its text, except for characters that were removed before it was shown."""
    if not message.tokens or not text.knows(message.tokens):
        return False
    said = text.decode(message.tokens)
    return names_said(said, message.text) is not None or names_said(*_sanitised(said, message)) is not None


def marks_said(text: ChatText, message: Message) -> Marks:
    """The names to which a message's tokens refer by marks."""
    said = text.decode(message.tokens)
    return Marks.of(names_said(said, message.text) or names_said(*_sanitised(said, message)) or {})


def _sanitised(said: str, message: Message) -> tuple[str, str]:
    return sanitise(said), sanitise(message.text)


def spelt(text: ChatText, message: Message) -> Message:
    """The message in tokens of this tokenizer. Tokens that replace its own do not count as verified."""
    if is_spelt(text, message):
        return message
    tokens = tuple(text.encode(message.text))
    return replace(message, tokens=tokens, provenance=(False,) * len(tokens))


# ---- the context window ----------------------------------------------------------------------------------------------


def context_of(store: Store, text: ChatText, conversation_id: str, limit: int, prompt: Prompt | None = None) -> Context:
    """The shown branch, counted on the device, without an answer that is being written. Raises `StorageError`.

    The system prompt chosen for it counts. Beyond `limit` it is not counted to its end.

    `prompt`: the recipe, if the target gets it.
    """
    try:
        thread = [one for one in store.summaries.shown(conversation_id) if one.status not in UNFINISHED]
        system = store.conversations.get(conversation_id).choices.system
        used = conversation_length(text, thread, prompt, system, brief=True, most=limit)
        if prompt is not None and not leaves_examples_out(used, limit):
            whole = conversation_length(text, thread, prompt, system, most=limit)
            used = used if leaves_examples_out(whole, limit) else whole
    except DrafterError:
        used = 0  # The answer will report what is wrong with the template.
    return Context(used, limit)


def context_told(store: Store, conversation_id: str, limit: int | None) -> Context | None:
    """The token count that an OpenAI-compatible server reported with the last answer of the shown branch, or None.

    After a summary that is newer, what that replaces is subtracted, as far as its server reported it. Raises
    `StorageError`.
    """
    summary = store.summaries.of(conversation_id)
    for message in reversed(store.branches.thread(conversation_id)):
        if message.role == "assistant" and message.status not in UNFINISHED:
            used, written = _told(message)
            if summary is not None and summary.answer.created > message.created:
                replaced, summed_up = _told(summary.answer)
                used = max(0, used - replaced) + summed_up
            return Context(used + written, limit) if used + written and limit else None
    return Context(0, limit) if limit else None


def _told(message: Message) -> tuple[int, int]:
    """The tokens of an answer's prompt and of itself, as its server counted them; 0 if it did not."""
    counts = message.stats.get("prompt_tokens"), message.stats.get("completion_tokens")
    read, written = (count if isinstance(count, int) else 0 for count in counts)
    return read, written


def conversation_length(
    text: ChatText,
    thread: Sequence[Message],
    prompt: Prompt | None = None,
    system: str | None = None,
    *,
    brief: bool = False,
    most: float = inf,
) -> int:
    """Tokens of a conversation, accurate to a few tokens of the next answer's prompt. Raises `TemplateFailed`.

    The template is rendered only for a few short conversations. `system`: as for `system_apart`. `brief`: with examples
    only for the last question. `most`: a longer conversation is not counted to its end.
    """
    instructions, thread = system_apart(thread, system)
    if prompt is not None:
        thread = _for_recipe(thread)
    if not thread:
        return 0
    one = len(text.render([("user", "a")]))
    two = len(text.render([("user", "a"), ("assistant", "a"), ("user", "a")]))
    letter = text.length("a")
    around = (two - one - 2 * letter) / 2
    length = one - letter - around
    if instructions and prompt is None:
        begun = _begun(text, "a")
        merged = begun if begun[0][0] == "system" else []
        length += text.length(instructions)
        length += len(text.render([*merged, ("user", "a")])) - one - letter if merged else text.length("\n\n")
    for message in thread:
        length += around + (len(message.tokens) if is_spelt(text, message) else text.length(as_read(message).text))
        if length > most:
            return round(length)
    return round(length) if prompt is None else _with_systems(text, thread, prompt, length, one, letter, brief, most)


def least_length(text: ChatText, turns: Sequence[tuple[str, str]], prompt: Prompt | None, limit: int) -> int:
    """Lower bound of the tokens of a conversation, (role, text), counted until it certainly exceeds `limit`.

    Only a few short conversations are rendered, and no page is searched. `prompt`: the recipe, if it is used. Raises
    `TemplateFailed`.
    """
    one = len(text.render([("user", "a")]))
    two = len(text.render([("user", "a"), ("assistant", "a"), ("user", "a")]))
    answers = sum(role == "assistant" and bool(said) for role, said in turns)
    questions = min(sum(role == "user" for role, _ in turns), answers + 1)
    least = answers * (two - one - 2 * len(text.encode("a")))
    if prompt is not None:
        least += questions * text.length(prompt.task)
    marks: Marks = NoMarks() if prompt is None else prompt.marks()
    counted = 0
    for role, said in _read_turns(turns, system=prompt is None):
        for piece in SLICE.finditer(said):
            # An answer's names are read as marks; a question keeps its names.
            counted += text.length(marks.said(piece[0]) if role == "assistant" else piece[0])
            if least + counted // SURE > limit:
                return least + counted // SURE
        if role == "user":
            marks.read(said)
    return least + counted // SURE


def _read_turns(turns: Sequence[tuple[str, str]], *, system: bool) -> Iterator[tuple[str, str]]:
    """The turns that are read: questions with an answer, answers, and `system` if it is read."""
    spoken = [(role, said) for role, said in turns if (said or role != "assistant") and (system or role != "system")]
    for at, (role, said) in enumerate(spoken):
        if role != "user" or at + 1 == len(spoken) or spoken[at + 1][0] != "user":
            yield role, said


def _with_systems(
    text: ChatText,
    thread: Sequence[Message],
    prompt: Prompt,
    length: float,
    one: int,
    letter: int,
    brief: bool,
    most: float,
) -> int:
    """That length including the system messages of a recipe.

    `one`: length of a prompt without them; `letter`: of its question.
    """
    first = len(text.render([("system", "a"), ("user", "a")]))
    two = len(text.render([("system", "a"), ("user", "a"), ("assistant", "a"), ("system", "a"), ("user", "a")]))
    plain = len(text.render([("system", "a"), ("user", "a"), ("assistant", "a"), ("user", "a")]))
    questions = [message.text for message in thread if message.role == "user"]
    without = max(0, len(questions) - 1) if brief else 0
    length += first - one - letter + without * text.length(prompt.task)
    length += (two - plain - letter) * (len(questions) - 1)
    for at in range(without, len(questions)):
        if length > most:
            break
        length += text.length(prompt.system(questions[: at + 1], NoMarks()))
    return round(length)
