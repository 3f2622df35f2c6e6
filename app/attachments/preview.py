"""Lines about the attachments of a question, for the person who is still writing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.attachments.limits import estimated_tokens, size
from app.attachments.reader import Gathered, one_line
from app.attachments.renderer import described
from storage import Attachment

MOST_LINES = 6
"""Most lines that are shown; the prompt must stay in sight."""


@dataclass(frozen=True)
class PreviewLine:
    """One line. A click on a line with a file removes its mention from the text."""

    text: str
    raw: str | None = None
    """The path as written after its `@`, if the line is about a file."""
    problem: bool = False


def preview(found: Sequence[tuple[str, Gathered]], kept: Sequence[Attachment]) -> list[PreviewLine]:
    """The lines for the paths that a text names, and for the files that stay with a question."""
    lines = [PreviewLine(described(one)) for one in kept]
    for raw, gathered in found:
        files = gathered.attachments
        if len(files) == 1 and not raw.endswith("/"):
            lines.append(PreviewLine(described(files[0]), raw))
        elif files:
            total = size(sum(len(one.data) for one in files))
            count = "1 file" if len(files) == 1 else f"{len(files)} files"
            lines.append(PreviewLine(f"{one_line(raw)} · {count} · {total}", raw))
        lines += [PreviewLine(said, raw if not files else None, problem=True) for said in gathered.problems]
        lines += [PreviewLine(said) for said in gathered.told]
        lines += [
            PreviewLine(f"{one_line(page)} · fetched if you agree when you send it", raw) for page in gathered.pages
        ]
        lines += [PreviewLine(f"{one_line(one)} · read when you send it", raw) for one in gathered.resources]
        if gathered.secrets:
            lines.append(PreviewLine(f"{', '.join(gathered.secrets)} may hold a secret", problem=True))
    if len(lines) > MOST_LINES:
        left = len(lines) - MOST_LINES + 1
        lines = [*lines[: MOST_LINES - 1], PreviewLine(f"and {left} more lines")]
    return lines


def too_large(attachments: Sequence[Attachment], room: int | None) -> str:
    """A warning that the files are probably more than the model can read; empty if they are not, or if that is unknown.

    `room`: how many tokens the model can still read.
    """
    tokens = estimated_tokens(*attachments)
    if room is None or tokens <= room:
        return ""
    return f"the files are about {tokens:,} tokens, and the model has room for {max(0, room):,}"
