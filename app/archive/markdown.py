"""Conversations as Markdown to read and to pass on: what was said as it was written, who said it in headings.

A text that leaves a code fence or an HTML comment open would swallow all that comes after it, so fences are closed and
anything else goes into a quotation, which ends by itself. Titles and names are letters, never markup. Nothing in it
can give a terminal orders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from markdown_it import MarkdownIt

from app.archive.branches import Branch, Numbered, branches, names, remark, when
from app.sanitise import sanitise
from storage import Conversation, WholeConversation

_PUNCTUATION = re.compile(r"([\\`*_\[\]<>#|~&$])")
_BLOCKS = MarkdownIt("commonmark", {"html": True}).disable("inline")
"""What a text consists of; its words are not looked at, which would take time with a text that is meant to."""
_AFTER = "what comes after it"


def render(conversations: Iterable[WholeConversation], titles: Sequence[Conversation], *, every: bool) -> Iterator[str]:
    """The file in pieces; with a table of contents where `titles` names several. `every`: all branches."""
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
    """In one line, without markup."""
    return escaped(conversation.title) or "Untitled"


def escaped(text: str) -> str:
    return _PUNCTUATION.sub(r"\\\1", " ".join(sanitise(text).split()))


def _conversation(whole: WholeConversation, *, every: bool) -> Iterator[str]:
    yield f"# {title_of(whole.conversation)}\n\n{when(whole.conversation.created)}\n"
    for branch in branches(whole, every=every):
        yield from _branch(branch)
    for queued in whole.queue:
        if queued.kind == "ask":
            yield f"\n## You · not sent yet\n\n{contained(sanitise(queued.text))}\n"


def _branch(branch: Branch) -> Iterator[str]:
    if branch.messages and branch.messages[0].number > 1:
        where = "from the beginning" if branch.after is None else f"after message {branch.after}"
        yield f"\n---\n\n*Another branch, {where}:*\n"
    for message in branch.messages:
        yield from _message(message)


def _message(numbered: Numbered) -> Iterator[str]:
    number, message = numbered
    yield f"\n## {number}. {names(message)} · {when(message.created)}\n\n{contained(sanitise(message.text))}\n"
    if said := remark(message):
        yield f"\n> *{escaped(said)}*\n"


def contained(text: str) -> str:
    """The text so that what comes after it in the file is read as what it is."""
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
