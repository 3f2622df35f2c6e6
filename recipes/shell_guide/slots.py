"""Slots such as `{file}`: their placeholders, and the concrete values that questions name.

Half of the values come from a pool of likely ones (`slots.json`), and half are invented. A model that has seen nine
numbers learns nine commands; one that has seen hundreds learns to copy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

SLOT = re.compile(r"(?<!\{)\{([a-z0-9_.]+)\}(?!\})")

_SLOTS = json.loads((Path(__file__).parent / "slots.json").read_text(encoding="utf-8"))
POOLS: dict[str, list[str]] = {slot: entry["values"] for slot, entry in _SLOTS.items()}
PLACEHOLDERS: dict[str, str] = {slot: entry["placeholder"] for slot, entry in _SLOTS.items()}

ENDINGS = sorted({Path(value).suffix for value in POOLS["file"]})


def number(rng: np.random.Generator) -> str:
    """A number from 1 to 999, small ones more often."""
    return str(int(np.exp(rng.uniform(0, np.log(1000)))))


def stem(rng: np.random.Generator) -> str:
    """A word without a meaning: two or three syllables, sometimes with a number or a second part."""
    syllables = int(rng.integers(2, 4))
    word = "".join(
        str(rng.choice(list("bdfghklmnprstvz"))) + str(rng.choice(list("aeiou"))) for _ in range(syllables)
    ) + str(rng.choice(["", "n", "r", "s", "x"]))
    draw = rng.random()
    if draw < 0.12:
        return word + str(rng.integers(1, 30))
    return f"{word}{rng.choice(['-', '_'])}{rng.choice(['old', 'new', 'dev', 'v2', 'main'])}" if draw < 0.2 else word


def _file(rng: np.random.Generator) -> str:
    return stem(rng) + str(rng.choice(ENDINGS))


def _directory(rng: np.random.Generator) -> str:
    return str(rng.choice(["", "", "", "~/", "/srv/", "/home/", "./"])) + stem(rng)


def _address(rng: np.random.Generator) -> str:
    return ".".join(str(part) for part in (rng.choice([10, 172, 192]), *rng.integers(1, 255, 3)))


def _host(rng: np.random.Generator) -> str:
    return _address(rng) if rng.random() < 0.3 else stem(rng) + str(rng.choice(["", ".com", ".org", ".local", ".lan"]))


def _url(rng: np.random.Generator) -> str:
    path = str(rng.choice(["", "/" + stem(rng), "/" + _file(rng)]))
    return f"{rng.choice(['https', 'https', 'http'])}://{stem(rng)}.{rng.choice(['com', 'org', 'net'])}{path}"


INVENTED: dict[str, Callable[[np.random.Generator], str]] = {
    **dict.fromkeys(("package", "service", "process", "group", "branch", "image", "container", "name", "user"), stem),
    **dict.fromkeys(("remote", "database", "table", "module", "text", "word", "pattern"), stem),
    **dict.fromkeys(("directory", "source", "destination"), _directory),
    "file": _file,
    "number": number,
    "pid": lambda rng: str(rng.integers(300, 40_000)),
    "port": lambda rng: str(rng.integers(1024, 20_000)),
    "ip": _address,
    "host": _host,
    "url": _url,
    "commit": lambda rng: f"{rng.integers(16**7):07x}",
    "value": lambda rng: number(rng) if rng.random() < 0.3 else stem(rng),
    "variable": lambda rng: stem(rng).upper().replace("-", "_"),
    "device": lambda rng: f"/dev/sd{rng.choice(list('abcdef'))}{rng.integers(1, 9)}",
    "interface": lambda rng: f"{rng.choice(['eth', 'wlan', 'tun'])}{rng.integers(0, 6)}",
}


def draw_value(slot: str, rng: np.random.Generator) -> str:
    """A concrete value of `slot`, or if none are known, its placeholder or name."""
    pool = POOLS.get(slot)
    if not pool:
        return PLACEHOLDERS.get(slot, slot)
    if rng.random() < 0.5:
        if slot in INVENTED:
            return INVENTED[slot](rng)
        if "." in slot:  # archive.tar.gz: another name, the same ending.
            return stem(rng) + slot[slot.index(".") :]
    return str(rng.choice(pool))


COUNTED = re.compile(r"(?<![\w.:/=,\\-])\d{1,4}(?![\w.:/=]|,\d)|(?<=\d-)\d{1,4}\b")
"""A separate number in a question."""
_SPOKEN = dict(
    zip(["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twenty"], [*range(2, 11), 20])
)
_TOLD = re.compile(rf"\b(?:\d{{1,4}}|{'|'.join(_SPOKEN)})\b")
TYPED = re.compile(r"(?<![A-Za-z\d.:])\d+(?![\d.:>])")
"""A number in a command. `+100M` and `10,20p` hold some; `s3`, `1.5`, `00:05` and `2>&1` do not."""
MEANINGFUL = re.compile(r"chmod|umask|cron|-perm|-newer|touch -[dt]|\+\+|mode|permission|hour|half|last day|HTTPS?\b")
"""Commands in which another number would mean something else."""


def renumber(question: str, intent: str, command: str, rng: np.random.Generator) -> tuple[str, str, str]:
    """Replace each number that is in both question and command by another one, everywhere in the same way.

    `top 10 biggest files` -> `... | head -n 37`; `print lines 10 to 20` -> `sed -n '112,340p'`. Order is kept.
    """
    if MEANINGFUL.search(f"{question} {intent} {command}"):
        return question, intent, command
    typed = [int(found) for found in TYPED.findall(command)]
    asked = sorted({int(found) for found in COUNTED.findall(question)})
    if not asked or asked[-1] < 2 or any(typed.count(old) != 1 for old in asked):
        return question, intent, command
    fresh: set[int] = set()
    while len(fresh) < len(asked):
        fresh.add(max(2, int(number(rng))))
    other = dict(zip(asked, sorted(fresh)))

    def swap(found: re.Match[str]) -> str:
        old = _SPOKEN.get(found.group()) or int(found.group())
        return str(other.get(old, found.group()))

    return COUNTED.sub(swap, question), _TOLD.sub(swap, intent), TYPED.sub(swap, command)
