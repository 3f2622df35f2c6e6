"""A conversation in the form that every server takes: one system message, first, then questions and answers in turn.

Chat templates of Gemma, Llama 2, Mistral and others refuse any other form, and so do Anthropic and Perplexity.
"""

from __future__ import annotations

from collections.abc import Sequence

from remote.openai.schema import Content, ContentPart

SYSTEM = ("system", "developer")
OPENING = "Please begin."
"""A question before a first answer that has none, as in an imported conversation."""


def ordered(messages: Sequence[tuple[str, Content]]) -> list[tuple[str, Content]]:
    """(role, content) with all system messages at the beginning as one, and neighbours of one role as one message."""
    system = dict.fromkeys(content for role, content in messages if role in SYSTEM and content)
    spoken = [(role, content) for role, content in messages if role not in SYSTEM and (content or role == "user")]
    if not spoken or spoken[0][0] != "user":
        spoken.insert(0, ("user", OPENING))
    found: list[tuple[str, Content]] = []
    for role, content in [*(("system", content) for content in system), *spoken]:
        if found and found[-1][0] == role:
            content = _joined(found.pop()[1], content)
        found.append((role, content))
    return found


def _joined(first: Content, second: Content) -> Content:
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return _parts(first) + _parts(second)


def _parts(content: Content) -> tuple[ContentPart, ...]:
    return (ContentPart(type="text", text=content),) if isinstance(content, str) else content
