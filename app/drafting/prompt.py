"""A conversation as the tokens that drafter and target read, and how much of the context window it takes.

Answers keep the tokens they were given in. The same text, encoded again, may give other tokens, and then neither the
verifier's cache nor the drafter's memory would fit. The chat template is rendered for what lies between the answers.

Stored tokens count only if they say the stored text. An answer of another drafter, or from an import, may have the
numbers of another vocabulary; its text, which the person has seen, is encoded instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from app.attachments.content import question_content
from app.attachments.renderer import as_read
from app.sanitise import sanitise
from drafter.config import DrafterError
from drafter.guide.names import Marks, NoMarks, names_said
from drafter.guide.prompt import Prompt
from drafter.text import ChatText, Rendered
from remote.openai.message_order import OPENING
from remote.openai.schema import Content
from storage import Message, Store
from storage.replays import Replay

SLICE = re.compile(r".{1,4096}(?!\S)|.{1,4096}", re.DOTALL)
"""What is counted of a text at once, if possible up to the end of a word: the tokenizer lets no other thread work
meanwhile."""
SURE = 2
"""A text that is counted in slices has surely more than one in so many of those tokens."""
FULL = 7 / 8
"""Share of what can be read that a conversation may fill with the examples of all its questions. The rest is for the
answer."""
UNFINISHED = ("pending", "streaming")
"""Status of an answer that is being written."""


class Context(NamedTuple):
    """How much of the context window the shown branch takes, in tokens."""

    used: int
    limit: int
    """What can be read: by the drafter, and by the verifier if one is there."""

    @property
    def share(self) -> float:
        """`used` as a share of `limit`."""
        return self.used / self.limit


def leaves_examples_out(length: int, most_read: int) -> bool:
    """Whether a conversation of so many tokens has to do with the examples of its last question.

    `length`: with those of all its questions. `most_read`: tokens that whoever answers reads.
    """
    return length > FULL * most_read


# ---- a conversation as tokens ----------------------------------------------------------------------------------------


def conversation_tokens(
    text: ChatText,
    thread: Sequence[Message],
    prompt: Prompt | None = None,
    system: str | None = None,
    *,
    examples: int | None = None,
) -> list[int]:
    """The prompt for the answer to the last question of `thread`; it ends where that answer begins.

    `prompt`: the recipe of the drafter's own target; no other target may get it. It is a function of the questions so
    far, so the tokens of earlier turns stay as they were while `examples` is None. It has system messages of its own,
    and takes no other.
    `system`: the system prompt, as for `system_apart`. A template without system messages gets it as the beginning of
    the first question.
    `examples`: only so many questions, the last ones, get examples by the recipe; None: all.
    Answers without tokens that say their text are encoded. Questions without an answer are left out, except the last
    one, because chat templates want the roles to alternate. Raises `TemplateFailed`, `DrafterCorrupt`.
    """
    tokens: list[int] = []
    spoken: list[tuple[str, str]] = []
    questions: list[str] = []
    marks = NoMarks() if prompt is None else prompt.marks()
    rendered: Rendered | None = None
    # Where the last answer begins in the template's own rendering, that answer, and how it was said.
    before, answer, spelling = 0, None, ""
    said, messages = system_apart(_answered(thread), system)
    first_shown = 0 if examples is None else sum(message.role == "user" for message in messages) - examples
    for role, part in _begun(text, said) if prompt is None else ():
        spoken.append((role, part))
    for message in messages:
        if prompt is not None and message.role == "system":
            continue
        if message.role == "user":
            said = as_read(replace(message, text=marks.read(message.text))).text
            if prompt is not None:
                questions.append(message.text)
                shown = len(questions) > first_shown
                spoken.append(("system", prompt.system(questions, marks) if shown else marks.said(prompt.task)))
        else:
            said = spelling = marks.said(message.text)
        if message.role == "user" and spoken and spoken[-1][0] == "user":
            spoken[-1] = ("user", f"{spoken[-1][1]}\n\n{said}")
        else:
            spoken.append((message.role, said))
        if message.role == "assistant":
            answer = message
        elif message.role == "user":
            rendered = text.render_after(rendered, spoken)
            between = None if answer is None else _after_answer(text, rendered.tokens[before:], answer, spelling)
            tokens = rendered.tokens if between is None else tokens + list(answer.tokens) + between  # type: ignore[union-attr]
            before, answer = len(rendered.tokens), None
    return tokens


def replayed_tokens(store: Store, text: ChatText, prompt: Prompt | None, replay: Replay) -> list[int]:
    """The tokens of a conversation to the end of an answer, as when that was drafted.

    Raises `ValueError` if the conversation is read in another way now, `NotFound`.
    """
    *thread, answer = store.branches.path(replay.message_id)
    chosen = store.conversations.get(replay.conversation_id).choices.system
    for recipe in dict.fromkeys((prompt, None)):
        tokens = conversation_tokens(text, thread, recipe, system=None if recipe else chosen)
        if len(tokens) == replay.prompt:
            return [*tokens, *answer.tokens]
    raise ValueError("the conversation is read in another way now")


def conversation_messages(thread: Sequence[Message], system: str | None = None) -> list[tuple[str, Content]]:
    """The conversation as (role, content) up to the last question, for a server that reads text and not tokens.

    `system`: as for `system_apart`.
    """
    said, messages = system_apart(_answered(thread), system)
    begun: list[tuple[str, Content]] = [("system", said)] if said else []
    return begun + [(message.role, question_content(message)) for message in messages]


def system_apart(thread: Sequence[Message], system: str | None) -> tuple[str, list[Message]]:
    """The system prompt of a conversation, empty for none, and its messages without that.

    `system`: what was chosen for it, which takes the place of all system messages of an import; empty: the person wants
    none. None: nothing was chosen, and the system messages of the conversation are its system prompt, as one. Many
    templates and servers take one system message, and only as the first.
    """
    said = dict.fromkeys(message.text for message in thread if message.role == "system" and message.text)
    spoken = [message for message in thread if message.role != "system"]
    return "\n\n".join(said) if system is None else system, spoken


def _begun(text: ChatText, system: str) -> list[tuple[str, str]]:
    """The messages that a conversation with this system prompt begins with, for this template."""
    if not system:
        return []
    return [("system" if text.takes_system else "user", system)]


def questions_of(thread: Sequence[Message]) -> list[str]:
    """The questions of a conversation, up to the last one."""
    return [message.text for message in _answered(thread) if message.role == "user"]


def shared_prefix(text: ChatText, prompt: Prompt | None = None) -> int:
    """How many tokens every conversation begins with: the system prompt, up to the first word of the question.

    With the recipe `prompt`: up to its first example.
    """
    begins = [[("system", f"{prompt.task}\n{letter}")] if prompt else [] for letter in "ab"]
    first, second = (text.render([*begun, ("user", letter)]) for begun, letter in zip(begins, "ab"))
    return next((at for at, (one, other) in enumerate(zip(first, second)) if one != other), 0)


def _answered(thread: Sequence[Message]) -> list[Message]:
    """The messages that belong in the prompt; `thread` ends with the new question or its pending answer.

    Questions and answers alternate, beginning with a question: an import may have other conversations.
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
        elif message.text:
            kept += [message] if last is not None else [replace(message, role="user", text=OPENING), message]
    return kept


def _after_answer(text: ChatText, rendered: list[int], answer: Message, said: str) -> list[int] | None:
    """What the template puts between an answer and the next one; `rendered` begins with that answer, as it was `said`.

    None if the answer's own tokens cannot be used: they do not say its text, or the template changes what was said
    before.
    """
    encoded = text.encode(said)
    if rendered[: len(encoded)] != encoded or not is_spelt(text, answer):
        return None
    between = rendered[len(encoded) :]
    ended = bool(between) and answer.tokens[-1] == between[0] and between[0] in text.stop_tokens
    return between[1:] if ended else between


# ---- the tokens of one message ---------------------------------------------------------------------------------------


def is_spelt(text: ChatText, message: Message) -> bool:
    """Whether a message has tokens that say its text, apart from characters that were removed before it was shown."""
    if not message.tokens or not text.knows(message.tokens):
        return False
    said = text.decode(message.tokens)
    return names_said(said, message.text) is not None or names_said(*_sanitised(said, message)) is not None


def marks_said(text: ChatText, message: Message) -> Marks:
    """The names that the tokens of a message say by their marks."""
    said = text.decode(message.tokens)
    return Marks.of(names_said(said, message.text) or names_said(*_sanitised(said, message)) or {})


def _sanitised(said: str, message: Message) -> tuple[str, str]:
    return sanitise(said), sanitise(message.text)


def spelt(text: ChatText, message: Message) -> Message:
    """The message in tokens of this tokenizer. Tokens that replace its own ones are verified by nobody."""
    if is_spelt(text, message):
        return message
    tokens = tuple(text.encode(message.text))
    return replace(message, tokens=tokens, provenance=(False,) * len(tokens))


# ---- the context window ----------------------------------------------------------------------------------------------


def context_of(store: Store, text: ChatText, conversation_id: str, limit: int, prompt: Prompt | None = None) -> Context:
    """The shown branch, counted on the device, without an answer that is being written. Raises `StorageError`.

    The system prompt that was chosen for it counts.

    `prompt`: the recipe, if the target gets it.
    """
    try:
        thread = [one for one in store.branches.thread(conversation_id) if one.status not in UNFINISHED]
        system = store.conversations.get(conversation_id).choices.system
        used = conversation_length(text, thread, prompt, system)
        if leaves_examples_out(used, limit):
            used = conversation_length(text, thread, prompt, system, examples=1)
    except DrafterError:
        used = 0  # The answer will say what is wrong with the template.
    return Context(used, limit)


def context_told(store: Store, conversation_id: str, limit: int | None) -> Context | None:
    """What an OpenAI-compatible server has counted at the last answer of the shown branch; None: it has not.

    Raises `StorageError`.
    """
    for message in reversed(store.branches.thread(conversation_id)):
        counts = message.stats.get("prompt_tokens"), message.stats.get("completion_tokens")
        if message.role == "assistant" and message.status not in UNFINISHED:
            used = sum(count for count in counts if isinstance(count, int))
            return Context(used, limit) if used and limit else None
    return Context(0, limit) if limit else None


def conversation_length(
    text: ChatText,
    thread: Sequence[Message],
    prompt: Prompt | None = None,
    system: str | None = None,
    *,
    examples: int | None = None,
) -> int:
    """Tokens of a conversation, within a few tokens of the prompt of its next answer. Raises `TemplateFailed`.

    The template is rendered for a few short conversations only: to render it for each question takes quadratic time.
    `system`: as for `system_apart`. `examples`: as for `conversation_tokens`.
    """
    instructions, thread = system_apart(thread, system)
    if prompt is not None:
        thread = [message for message in thread if message.role != "system"]
    if not thread:
        return 0
    one = len(text.render([("user", "a")]))
    two = len(text.render([("user", "a"), ("assistant", "a"), ("user", "a")]))
    letter = len(text.encode("a"))
    around = (two - one - 2 * letter) / 2
    said = sum(len(spelt(text, as_read(message)).tokens) for message in thread)
    length = round(one - letter + said + around * (len(thread) - 1))
    if instructions and prompt is None:
        begun = _begun(text, "a")
        merged = begun if begun[0][0] == "system" else []
        length += len(text.encode(instructions))
        length += len(text.render([*merged, ("user", "a")])) - one - letter if merged else len(text.encode("\n\n"))
    return length if prompt is None else length + _read_besides(text, thread, prompt, one, letter, examples)


def least_length(text: ChatText, turns: Sequence[tuple[str, str]], prompt: Prompt | None, limit: int) -> int:
    """Tokens that a conversation, (role, text), takes at least, counted until that is surely more than `limit`.

    Nothing is rendered but a few short conversations, and no page is searched. `prompt`: the recipe, if it is used.
    Raises `TemplateFailed`.
    """
    one = len(text.render([("user", "a")]))
    two = len(text.render([("user", "a"), ("assistant", "a"), ("user", "a")]))
    answers = sum(role == "assistant" and bool(said) for role, said in turns)
    questions = min(sum(role == "user" for role, _ in turns), answers + 1)
    least = answers * (two - one - 2 * len(text.encode("a")))
    if prompt is not None:
        least += questions * len(text.encode(prompt.task))
    marks: Marks = NoMarks() if prompt is None else prompt.marks()
    counted = 0
    for role, said in _read_turns(turns, system=prompt is None):
        for piece in SLICE.finditer(said):
            # Of a name in an answer only its mark is read; a question keeps its names.
            counted += len(text.encode(marks.said(piece[0]) if role == "assistant" else piece[0]))
            if least + counted // SURE > limit:
                return least + counted // SURE
        if role == "user":
            marks.read(said)
    return least + counted // SURE


def _read_turns(turns: Sequence[tuple[str, str]], *, system: bool) -> Iterator[tuple[str, str]]:
    """The turns that are read: questions with an answer, answers, and the `system` if that is read."""
    spoken = [(role, said) for role, said in turns if (said or role != "assistant") and (system or role != "system")]
    for at, (role, said) in enumerate(spoken):
        if role != "user" or at + 1 == len(spoken) or spoken[at + 1][0] != "user":
            yield role, said


def _read_besides(
    text: ChatText, thread: Sequence[Message], prompt: Prompt, one: int, letter: int, examples: int | None
) -> int:
    """Tokens of the system messages of a recipe; `one`: of a prompt without them, `letter`: of its question."""
    first = len(text.render([("system", "a"), ("user", "a")]))
    two = len(text.render([("system", "a"), ("user", "a"), ("assistant", "a"), ("system", "a"), ("user", "a")]))
    plain = len(text.render([("system", "a"), ("user", "a"), ("assistant", "a"), ("user", "a")]))
    questions = [message.text for message in thread if message.role == "user"]
    without = 0 if examples is None else max(0, len(questions) - examples)
    read = without * len(text.encode(prompt.task)) + sum(
        len(text.encode(prompt.system(questions[: at + 1], NoMarks()))) for at in range(without, len(questions))
    )
    return first - one - letter + read + (two - plain - letter) * (len(questions) - 1)
