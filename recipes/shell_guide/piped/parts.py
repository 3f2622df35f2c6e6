"""What the texts are built from: the text with what can be asked about it, names, numbers, times, columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from recipes.shell_guide.grammar.names import pick

Rng = np.random.Generator
Item = TypeVar("Item")


@dataclass(frozen=True)
class Text:
    """A text, and what can be asked about it.

    Everything that an answer shows in backquotes stands in the text. `name`: of the file, where the text is attached.
    `asked`: a key of questions.toml or a phrase, and its answer. The first answer is also that to the text alone.
    """

    name: str
    body: str
    asked: tuple[tuple[str, str], ...]


Maker = Callable[[Rng], Text]

CANNOT = "I cannot tell from this text"
PEOPLE = (
    "alice", "amir", "anna", "ben", "carla", "chen", "dana", "david", "elena", "emma", "felix", "finn", "grace",
    "hanna", "igor", "iris", "jan", "jonas", "julia", "karim", "lena", "leo", "lucia", "marc", "maria", "mia", "nadia",
    "nils", "olga", "omar", "paul", "petra", "priya", "rosa", "sam", "sofia", "tariq", "tom", "uma", "vera", "yuki",
)  # fmt: skip
NOUNS = (
    "account", "address", "basket", "book", "budget", "cache", "calendar", "client", "color", "config", "contact",
    "course", "customer", "device", "event", "export", "filter", "folder", "group", "image", "invoice", "item", "job",
    "label", "ledger", "letter", "member", "message", "order", "page", "payment", "photo", "player", "price", "product",
    "profile", "queue", "recipe", "record", "report", "request", "review", "route", "score", "session", "shipment",
    "signal", "stock", "student", "task", "ticket", "token", "track", "upload", "user", "widget", "window",
)  # fmt: skip
VERBS = (
    "apply", "build", "check", "clean", "close", "collect", "compare", "convert", "count", "draw", "fetch", "fill",
    "find", "format", "load", "merge", "open", "parse", "print", "read", "remove", "render", "resolve", "save", "scan",
    "send", "sort", "store", "update", "validate", "write",
)  # fmt: skip
SERVICES = (
    "nginx", "postgresql", "redis-server", "docker", "cron", "ssh", "mosquitto", "grafana-server", "prometheus",
    "apache2", "mariadb", "haproxy", "bind9", "dovecot", "postfix", "gitea", "syncthing", "minio", "rabbitmq-server",
)  # fmt: skip
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def between(rng: Rng, least: int, most: int) -> int:
    """A whole number, both ends included."""
    return int(rng.integers(least, most + 1))


def some(rng: Rng, options: Sequence[Item], count: int) -> list[Item]:
    """So many different ones of the options, in random order."""
    return [options[int(at)] for at in rng.permutation(len(options))[:count]]


def hexadecimal(rng: Rng, length: int) -> str:
    """So many hexadecimal digits."""
    return "".join("0123456789abcdef"[int(at)] for at in rng.integers(16, size=length))


def clock(second: int) -> str:
    """A second of the day as HH:MM:SS."""
    return f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"


def stamps(rng: Rng, count: int) -> list[str]:
    """Times of a day that rise, as HH:MM:SS."""
    start = between(rng, 0, 80_000)
    steps = np.cumsum(rng.integers(0, int(pick_int(rng, (3, 30, 200))), size=count))
    return [clock(start + int(step)) for step in steps]


def pick_int(rng: Rng, options: Sequence[int]) -> int:
    """One of these numbers."""
    return options[int(rng.integers(len(options)))]


def date(rng: Rng) -> tuple[int, int, int]:
    """Year, month and day."""
    return between(rng, 2021, 2027), between(rng, 1, 12), between(rng, 1, 28)


def iso(rng: Rng) -> str:
    """A date as 2024-03-05."""
    year, month, day = date(rng)
    return f"{year}-{month:02}-{day:02}"


def short_date(rng: Rng) -> str:
    """A date as syslog and `ls` write it: `Mar  5`."""
    return f"{pick(rng, MONTHS)} {between(rng, 1, 28):>2}"


def weekday(rng: Rng) -> str:
    """The short name of a day."""
    return pick(rng, _DAYS)


def columns(rows: Sequence[Sequence[object]], right: Sequence[int] = (), gap: int = 1) -> str:
    """Rows as columns of one width each; those in `right` are flush right."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in texts) for at in range(len(texts[0]))]
    return "\n".join(
        (" " * gap)
        .join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        .rstrip()
        for row in texts
    )


def quoted(items: Sequence[object]) -> str:
    """`a`, `b` and `c`, each in backquotes."""
    shown = [f"`{item}`" for item in items]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def number(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: 1 row, 3 rows."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def spelt(count: int) -> str:
    """A small number as a word."""
    return _SMALL[count] if count < len(_SMALL) else str(count)


def run(sentence: str, command: str) -> str:
    """A sentence, and a command below it."""
    return f"{sentence}\n\n```sh\n{command}\n```"


def unknown(why: str, command: str = "") -> str:
    """The honest answer to what the text does not say, with the command that finds out."""
    said = f"{CANNOT}: {why}"
    return run(said, command) if command else said
