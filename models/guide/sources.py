"""Which pages of the prompt an answer came from: those about a program that its command runs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from models.guide.pages import OWN
from models.guide.search import Hit

_FENCE = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_BEFORE = r"(?:^|[|&;({`]|\b(?:sudo|doas|xargs|time|nohup|then|do|else|exec)\b(?: +-\S+)*|\b\w+=\S*)\s*"
"""What may precede the name of a program."""


def commands(answer: str) -> str:
    """The text of an answer's code blocks; without any, of its inline code."""
    return "\n".join(_FENCE.findall(answer)) or "\n".join(_INLINE.findall(answer))


def sources(hits: Iterable[Hit], answer: str) -> list[Hit]:
    """The hits about a program of the answer's command, one per page, best first.

    Pages that only Outrider has are left out: nobody can look them up.
    """
    text = commands(answer)
    found: dict[tuple[str, str], Hit] = {}
    for hit in hits:
        name = r"\s+".join(map(re.escape, hit.page.name.split()))
        if hit.page.platform != OWN and re.search(rf"{_BEFORE}{name}(?![\w.-])", text, re.MULTILINE):
            known = found.setdefault((hit.page.name, hit.page.platform), hit)
            if known.own and not hit.own:
                found[hit.page.name, hit.page.platform] = hit
    return list(found.values())
