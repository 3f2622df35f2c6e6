"""A conversation as the tokens that both halves work on.

Answers keep the tokens they were given in: the same text, encoded again, may come out as others, and then neither the
verifier's cache nor the drafter's memory would fit. Tokens of another drafter's vocabulary are no use to anybody, and
there the text is encoded. The chat template is rendered for what lies between the answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.drafting.spelling import is_spelt
from drafter.text import ChatText, Rendered
from storage import Message


def conversation_tokens(text: ChatText, thread: Sequence[Message]) -> list[int]:
    """The prompt for the answer to the last question of `thread`; it ends where that answer begins.

    Answers without tokens that say their text, from an import or another drafter, are encoded. Questions that got no
    answer are left out, except the last one: chat templates want the roles to alternate. Raises `TemplateFailed`.
    """
    tokens: list[int] = []
    spoken: list[tuple[str, str]] = []
    rendered: Rendered | None = None
    before, answer = 0, None  # Where the last answer begins in the template's own rendering, and that answer.
    for message in _answered(thread):
        spoken.append((message.role, message.text))
        if message.role == "assistant":
            answer = message
        elif message.role == "user":
            rendered = text.render_after(rendered, spoken)
            between = None if answer is None else _after_answer(text, rendered.tokens[before:], answer)
            tokens = rendered.tokens if between is None else tokens + list(answer.tokens) + between  # type: ignore[union-attr]
            before, answer = len(rendered.tokens), None
    return tokens


def conversation_messages(thread: Sequence[Message]) -> list[tuple[str, str]]:
    """The same for a server that reads text: (role, text), up to the last question."""
    return [(message.role, message.text) for message in _answered(thread)]


def _answered(thread: Sequence[Message]) -> list[Message]:
    """The messages that have a part in the prompt; the thread ends with the new question or its pending answer."""
    kept: list[Message] = []
    for message in thread:
        if message.role == "user" and kept and kept[-1].role == "user":
            kept.pop()
        if message.role != "assistant" or message.text:
            kept.append(message)
    return kept


def _after_answer(text: ChatText, rendered: list[int], answer: Message) -> list[int] | None:
    """What the template puts between an answer and the next one; `rendered` begins with that answer.

    None where the answer's own tokens cannot be used: they do not say its text, or the template changes what was said
    before.
    """
    encoded = text.encode(answer.text)
    if rendered[: len(encoded)] != encoded or not is_spelt(text, answer):
        return None
    between = rendered[len(encoded) :]
    ended = bool(between) and answer.tokens[-1] == between[0] and between[0] in text.stop_tokens
    return between[1:] if ended else between


def shared_prefix(text: ChatText) -> int:
    """How many tokens every conversation begins with: the system prompt, up to the first word of the question."""
    first, second = text.render([("user", "a")]), text.render([("user", "b")])
    return next((at for at, (one, other) in enumerate(zip(first, second)) if one != other), 0)
