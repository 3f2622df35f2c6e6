"""Conversations as Markdown to read and to share: each text as it was written, below a heading with its speaker.

A text with an unclosed code fence or HTML comment would swallow the rest of the file. So open fences are closed, and
any other such text becomes a quotation, which ends by itself. Titles and names are escaped, never markup. Nothing in
the file can control a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from markdown_it import MarkdownIt

from app.archive.branches import branches, called, names, remark, system_heading, when
from app.attachments.renderer import described, fenced, language
from app.sanitise import one_line, sanitise
from storage import Attachment, Call, Conversation, Message, WholeConversation

_PUNCTUATION = re.compile(r"([\\`*_\[\]<>#|~&$])")
_BLOCKS = MarkdownIt("commonmark", {"html": True}).disable("inline")
"""Parses blocks only. Inline markup does not matter here, and a hostile text could make its parsing slow."""
_AFTER = "what comes after it"


def render(conversations: Iterable[WholeConversation], titles: Sequence[Conversation], *, every: bool) -> Iterator[str]:
    """Yields the file in pieces. It has a table of contents if there are several `titles`. `every`: all branches."""
    several = len(titles) != 1
    if several:
        yield "# Conversations\n\n"
        for number, conversation in enumerate(titles, 1):
            yield f"{number}. [{title_of(conversation)}](#conversation-{number}), {when(conversation.updated)}\n"
    for number, whole in enumerate(conversations, 1):
        if several:
            yield f'\n---\n\n<a id="conversation-{number}"></a>\n\n'
        yield from _conversation(whole, every=every)


def title_of(conversation: Conversation) -> str:
    """The title in one line, escaped."""
    return escaped(conversation.title) or "Untitled"


def escaped(text: str) -> str:
    return _PUNCTUATION.sub(r"\\\1", one_line(text))


def _conversation(whole: WholeConversation, *, every: bool) -> Iterator[str]:
    tags = "".join(f" · #{escaped(tag)}" for tag in whole.conversation.choices.tags)
    yield f"# {title_of(whole.conversation)}\n\n{when(whole.conversation.created)}{tags}\n"
    if system := whole.conversation.choices.system:
        yield f"\n## {escaped(system_heading(whole.conversation))}\n\n{contained(sanitise(system))}\n"
    for branch in branches(whole, every=every):
        if branch.origin:
            yield f"\n---\n\n*Another branch, {branch.origin}:*\n"
        for number, message in branch.messages:
            yield from _message(number, message)
    for queued in whole.queue:
        if queued.kind == "ask":
            yield "\n## You · not sent yet\n"
            yield from _files(queued.attachments)
            yield f"\n{contained(sanitise(queued.text))}\n"


def _message(number: int, message: Message) -> Iterator[str]:
    yield f"\n## {number}. {names(message)} · {when(message.created)}\n"
    yield from _files(message.attachments)
    yield from _calls(message.calls)
    yield f"\n{contained(sanitise(message.text))}\n"
    if said := remark(message):
        yield f"\n> *{escaped(said)}*\n"


def _files(attachments: Sequence[Attachment]) -> Iterator[str]:
    """The files of a question: text in a fence that its content cannot end; for an image, its name and size."""
    for one in attachments:
        kind = "File" if one.is_text else "Image"
        yield f"\n*{kind}: {escaped(described(one))}*\n"
        if one.is_text:
            yield f"\n{fenced(sanitise(one.text), language(one))}\n"


def _calls(calls: Sequence[Call]) -> Iterator[str]:
    """The tool calls of an answer, with arguments and results in fences that their content cannot end."""
    for call in calls:
        yield f"\n*{escaped(called(call))}*\n"
        yield f"\n{fenced(sanitise(call.arguments), 'json')}\n"
        if call.result:
            yield f"\n{fenced(sanitise(call.result), '')}\n"


def contained(text: str) -> str:
    """The text, changed if needed so that it cannot swallow what follows it in the file."""
    text = text.strip("\n")
    if not text.strip():
        return "*(empty)*"
    for ending in ("", *(f"\n{fence}" for fence in _open_fences(text))):
        if _ends(text + ending):
            return text + ending
    return "\n".join(f"> {line}" for line in text.split("\n"))


def _ends(text: str) -> bool:
    *_, opened, inside, _ = [None, None, None, *_BLOCKS.parse(f"{text}\n\n{_AFTER}")]
    return (
        opened is not None
        and inside is not None
        and (opened.type, opened.level, inside.content) == ("paragraph_open", 0, _AFTER)
    )


def _open_fences(text: str) -> list[str]:
    fences = [token.markup for token in _BLOCKS.parse(text) if token.type == "fence"]
    return fences[-1:]
