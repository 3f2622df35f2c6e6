"""Reads tldr pages as training material: cleans, weights and holds out.

Each line is one page as a JSON object: `platform`, `name`, `alias`, `translations`, `description`, `examples` (`task`,
`command`). The text is (c) the tldr-pages team and contributors, CC-BY 4.0.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

PLATFORM_WEIGHT = {"common": 1.0, "linux": 1.0, "osx": 0.5, "windows": 0.3, "freebsd": 0.2, "android": 0.2}
HELD_OUT_SHARE = 0.03

_MNEMONIC = re.compile(r"\[(\w)\]")
_ASIDE = re.compile(r"\((\w+)\)(?= \w)")
_PARENTHESES = re.compile(r"\s*\([^()]*\)")
_OPTIONAL_CHOICE = re.compile(r"\[([^\[\]|\s]+)(?:\|[^\[\]|\s]+)+\]")
_CHOICE = re.compile(r"(?<![|\S])[\w.+:@/=-]+(?:\|[\w.+:@/=-]+)+(?![|\S])")


@dataclass(frozen=True)
class Example:
    task: str
    """What it does, as a lower-case verb phrase without a final dot."""
    command: str


@dataclass(frozen=True)
class Page:
    platform: str
    name: str
    translations: int
    description: str
    examples: tuple[Example, ...]

    @property
    def weight(self) -> float:
        """How often the page is shown: by popularity (the number of languages it exists in), then by platform."""
        return (1.0 + self.translations) ** 1.5 * PLATFORM_WEIGHT.get(self.platform, 0.1)

    @property
    def held_out(self) -> bool:
        """True for the 3 % of pages that no training sample is made from. It depends on a hash, so it never changes."""
        digest = hashlib.sha256(f"{self.platform}/{self.name}".encode()).digest()
        return int.from_bytes(digest[:4], "little") / 2**32 < HELD_OUT_SHARE


def lower_first(text: str) -> str:
    """Lower-case the first letter, unless the first word is an acronym or a name (`SSH`, `GitHub`)."""
    first = text.split(" ", 1)[0]
    return text if sum(c.isupper() for c in first) > 1 else text[:1].lower() + text[1:]


def clean_task(task: str) -> str:
    """Clean a task: `[C]reate a (small) file (see also: touch).` -> `create a small file`."""
    text = _ASIDE.sub(r"\1", _MNEMONIC.sub(r"\1", task))
    text = _PARENTHESES.sub("", text).strip().rstrip(".:")
    return lower_first(text)


def resolve_choices(task: str, command: str) -> list[Example]:
    """Turn `start|stop unit` into single commands: one for each if the task names them too, else only the first.

    >>> [e.command for e in resolve_choices("Start/Stop a service", "systemctl start|stop unit")]
    ['systemctl start unit', 'systemctl stop unit']
    """
    command = _OPTIONAL_CHOICE.sub(lambda m: m.group(1), command)
    found = _CHOICE.search(command)
    if not found:
        return [Example(clean_task(task), command)]
    options = found.group(0).split("|")
    if len(options) == 2 and options[0].startswith("-") and options[1].startswith("-"):
        options = options[:1]
    words = re.search(r"\w+(?:/\w+)+", task)
    named = words.group(0).split("/") if words else []
    if words and len(named) == len(options):
        pairs = [(task.replace(words.group(0), word, 1), option) for word, option in zip(named, options)]
    else:
        pairs = [(task, options[0])]
    out: list[Example] = []
    for text, option in pairs:
        out += resolve_choices(text, command[: found.start()] + option + command[found.end() :])
    return out


def first_sentence(description: str) -> str:
    """The description without notes and links: `Archiving utility.`"""
    text = re.sub(r"\s*<https?://[^>]*>", "", description)
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", text, maxsplit=1)[0].strip()


def read_pages(path: Path) -> list[Page]:
    """All pages that are not aliases, in the order of the file.

    Raises `ValueError` that names the invalid line.
    """
    pages = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            raw = json.loads(line)
            if raw["alias"]:
                continue
            examples = [e for x in raw["examples"] for e in resolve_choices(x["task"], x["command"]) if e.task]
            pages.append(
                Page(
                    raw["platform"],
                    raw["name"],
                    raw["translations"],
                    first_sentence(raw["description"]),
                    tuple(examples),
                )
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(
                f"{path}:{number} is not a tldr page ({error!r}); see recipes/shell_guide/README.md"
            ) from None
    return pages
