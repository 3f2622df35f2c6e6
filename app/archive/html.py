"""Writes conversations as one HTML file that loads nothing and runs nothing, for a light or dark screen and for paper.

Text is escaped or rendered by `app/archive/html_markdown.py`. In case either fails, the page's own policy forbids
scripts and requests. Other branches are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

from app.archive.branches import branches, called, names, remark, system_heading, when
from app.archive.html_markdown import Decode, Span, drafted_spans, render
from app.attachments.images import is_image
from app.attachments.reader import one_line
from app.attachments.renderer import data_url, described
from app.events import ranges_here, stretches_of
from app.sanitise import sanitise
from models.guide.names import Marks, names_said
from storage import Attachment, Call, Conversation, Message, WholeConversation

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --quiet: #63676d; --page: #fdfdfb; --box: #f1f1ec; --line: #d9d9d2;
  --drafted: #fbeccb; --edge: #c98a00; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e4e4df; --quiet: #9a9da3; --page: #17181a;
  --box: #232528; --line: #3a3d41; --drafted: #4a3a12; --edge: #d9a428; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 0 auto;
  max-width: 46rem; padding: 1.5rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
section > h1, section > h2 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; }
section > h2 { margin-top: 2.5rem; }
article > h2, article > h3 { font-size: .85rem; color: var(--quiet); font-weight: 600; margin: 0 0 .25rem; }
.text h3, .text h4, .text h5, .text h6 { font-size: 1rem; line-height: 1.3; margin: 1.4em 0 .4em; }
.text [data-level="1"] { font-size: 1.35rem; } .text [data-level="2"] { font-size: 1.2rem; }
.text [data-level="3"] { font-size: 1.1rem; }
.number, .when { font-weight: 400; color: var(--quiet); }
a { color: inherit; } a.number { text-decoration: none; }
article:target > h2, article:target > h3 { color: var(--edge); }
nav li { margin: .2rem 0; }
article { margin: 1.5rem 0; }
article.user .text { white-space: pre-wrap; background: var(--box); border-radius: .5rem; padding: .6rem .8rem; }
article.system .text { white-space: pre-wrap; color: var(--quiet); }
article .text > :first-child { margin-top: 0; } article .text > :last-child { margin-bottom: 0; }
pre { background: var(--box); border-radius: .5rem; padding: .7rem .8rem; overflow-x: auto; }
pre[data-language]::before { content: attr(data-language); display: block; color: var(--quiet); font-size: .75rem; }
code { font: .9em/1.45 ui-monospace, monospace; }
:not(pre) > code { background: var(--box); border-radius: .25rem; padding: .1em .25em; }
table { border-collapse: collapse; display: block; max-width: 100%; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .25rem .6rem; }
.formula { white-space: pre-wrap; }
blockquote { border-left: 3px solid var(--line); margin-left: 0; padding-left: 1rem; color: var(--quiet); }
.drafted { background: var(--drafted); border-bottom: 1px dotted var(--edge); }
.remark { color: var(--quiet); font-size: .85rem; margin: .4rem 0 0; }
details { border-left: 3px solid var(--line); padding-left: 1rem; margin: 1.5rem 0; }
details.file { margin: .4rem 0; } details.file pre { white-space: pre-wrap; max-height: 40rem; overflow-y: auto; }
details.file img { max-width: 100%; height: auto; }
summary { color: var(--quiet); cursor: pointer; }
section + section { border-top: 1px solid var(--line); }
@media (max-width: 40rem) { body { padding: 1rem; } pre { padding: .6rem; } details { padding-left: .6rem; } }
@media print { body { max-width: none; padding: 0; font-size: 11pt; color: #000; background: #fff; }
  pre { white-space: pre-wrap; } pre, tr { break-inside: avoid; } section + section { break-before: page; }
  h1, h2, h3, h4, h5, h6 { break-after: avoid; }
  .drafted { background: none; border-bottom: 1px dotted #000; } }
"""


def page(
    conversations: Iterable[WholeConversation],
    titles: Sequence[Conversation],
    *,
    every: bool,
    decoder: Callable[[], Decode | None],
) -> Iterator[str]:
    """Yields the file in pieces. It has a table of contents if there are several `titles`. `every`: all branches.

    `decoder` returns a function from tokens to text. It is called only for an answer that was verified in part.
    """
    heading = title_of(titles[0]) if len(titles) == 1 else "Conversations"
    yield (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="referrer" content="no-referrer">\n<title>{heading}</title>\n<style>{STYLE}</style>\n'
        f"</head>\n<body>\n<main>\n"
    )
    level = 1 if len(titles) == 1 else 2
    if level == 2:
        yield f'<h1>{heading}</h1>\n<nav aria-label="Conversations"><ol>\n'
        for number, conversation in enumerate(titles, 1):
            when_written = _when(conversation.updated)
            yield f'<li><a href="#c{number}">{title_of(conversation)}</a> {when_written}</li>\n'
        yield "</ol></nav>\n"
    for number, whole in enumerate(conversations, 1):
        yield f'<section id="c{number}">\n<h{level}>{title_of(whole.conversation)}</h{level}>\n'
        tags = "".join(f" · #{escape(sanitise(tag))}" for tag in whole.conversation.choices.tags)
        yield f"<p>{_when(whole.conversation.created)}{tags}</p>\n"
        if system := whole.conversation.choices.system:
            heading = escape(system_heading(whole.conversation))
            yield _article("system", level + 1, heading, escape(sanitise(system)))
        for branch in branches(whole, every=every):
            if branch.origin:
                yield f"<details>\n<summary>Another branch, {branch.origin}</summary>\n"
            for numbered, message in branch.messages:
                yield _message(numbered, message, level + 1, decoder)
            if branch.origin:
                yield "</details>\n"
        for queued in whole.queue:
            if queued.kind == "ask":
                text = escape(sanitise(queued.text))
                yield _article("user", level + 1, "You · not sent yet", text, above=_files(queued.attachments))
        yield "</section>\n"
    yield "</main>\n</body>\n</html>\n"


def title_of(conversation: Conversation) -> str:
    """The title in one line, escaped."""
    return escape(" ".join(sanitise(conversation.title).split())) or "Untitled"


def _when(time: str) -> str:
    """A stored time. It is not a `<time>`, because an import may hold anything in its place."""
    return f'<span class="when">{escape(when(time))}</span>'


def _message(number: int, message: Message, level: int, decoder: Callable[[], Decode | None]) -> str:
    anchor = f"m{escape(message.id)}"  # The same in each export, so a link to one answer stays right.
    heading = f'{names(message)} <a class="number" href="#{anchor}">{number}</a> {_when(message.created)}'
    text = _answer(message, level, decoder) if message.role == "assistant" else escape(sanitise(message.text))
    above = _files(message.attachments) + _thoughts(message) + _calls(message.calls)
    return _article(message.role, level, heading, text, remark(message), above=above, anchor=anchor)


def _article(
    role: str, level: int, heading: str, text: str, said: str = "", *, above: str = "", anchor: str = ""
) -> str:
    """One message. `level`: of its heading, which the headings within an answer are below.

    `above`: the folded part above the text. `anchor`: its name in a link.
    """
    below = f'<p class="remark">{escape(said)}</p>\n' if said else ""
    head = f"<h{level}>{heading}</h{level}>"
    text = f'<div class="text">{text}</div>'
    named = f' id="{anchor}"' if anchor else ""
    return f'<article class="{role}"{named}>\n{head}\n{above}{text}\n{below}</article>\n'


def _files(attachments: Sequence[Attachment]) -> str:
    """The files of a question, each folded; images are part of the page."""
    parts = []
    for one in attachments:
        if one.is_text:
            shown = f"<pre><code>{escape(sanitise(one.text))}</code></pre>"
        elif is_image(one):
            shown = f'<img src="{data_url(one)}" alt="{escape(one_line(one.name))}">'
        else:
            shown = '<p class="remark">This file cannot be shown.</p>'
        parts.append(_folded(described(one), shown))
    return "".join(parts)


def _thoughts(message: Message) -> str:
    thoughts = sanitise(message.reasoning).strip()
    return _folded("Thoughts before the answer", f"<pre>{escape(thoughts)}</pre>") if thoughts else ""


def _calls(calls: Sequence[Call]) -> str:
    """The tool calls of an answer, each folded, with its arguments and its result."""
    return "".join(
        _folded(
            called(call),
            "".join(f"<pre>{escape(sanitise(text))}</pre>" for text in (call.arguments, call.result) if text),
        )
        for call in calls
    )


def _folded(summary: str, shown: str) -> str:
    return f'<details class="file">\n<summary>{escape(summary)}</summary>\n{shown}\n</details>\n'


def _answer(message: Message, level: int, decoder: Callable[[], Decode | None]) -> str:
    spans = ranges_here(stretches_of(message.stats), len(message.text)) or _drafted(message, decoder)
    text = sanitise(message.text)
    return render(text, spans if text == message.text else (), level)


def _drafted(message: Message, decoder: Callable[[], Decode | None]) -> list[Span]:
    mixed = len(set(message.provenance)) > 1
    decode = _with_names(decoder(), message) if mixed else None
    return drafted_spans(message.text, message.tokens, message.provenance, decode)


def _with_names(decode: Decode | None, message: Message) -> Decode | None:
    """A function from tokens to text that replaces the marks of an answer by their names."""
    names = None if decode is None else names_said(decode(message.tokens), message.text)
    if decode is None or not names:
        return decode
    marks = Marks.of(names)
    return lambda tokens: marks.shown(decode(tokens))
