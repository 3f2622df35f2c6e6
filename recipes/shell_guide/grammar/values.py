"""What slots hold: how a person says a value, and how a command types it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recipes.shell_guide.grammar import names
from recipes.shell_guide.grammar.names import digits, identifier, stem, word

Random = np.random.Generator

_BARE = re.compile(r"(?:~/)?[\w@%+=:,./-]+|~")
_SPOKEN = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


class SlotError(ValueError):
    """A slot is declared in a way that nothing can be drawn from. The message says what is wrong."""


@dataclass(frozen=True)
class Value:
    """A value of a slot."""

    said: str
    """In a question, and in the sentence above the command."""
    forms: Mapping[str, str]
    """In a command, by the name of the form; "" is the usual one."""


@dataclass(frozen=True)
class Slot:
    """What an intent declares of a slot."""

    type: str
    default: str | None = None
    """What the command holds if the question does not name it. None: the placeholder of the type."""
    ends: tuple[str, ...] = ()
    """Endings that a file may have."""
    choices: tuple[Value, ...] = ()
    """Words with a meaning. Else values are drawn by the type."""
    least: int = 1
    most: int = 1000

    @classmethod
    def read(cls, name: str, raw: Mapping[str, Any]) -> Slot:
        """Read `slots.NAME`. Raises `SlotError`."""
        unknown = set(raw) - {"type", "default", "ends", "choices", "min", "max"}
        if unknown:
            raise SlotError(f"slots.{name} has {', '.join(sorted(unknown))}, which nothing reads")
        choices = tuple(_choice(one) for one in raw.get("choices", ()))
        kind = raw.get("type", re.sub(r"\d+$", "", name))
        if not choices and kind not in DRAW:
            raise SlotError(f"slots.{name}: no type {kind}; the types are {' '.join(sorted(DRAW))}")
        return cls(
            kind, raw.get("default"), tuple(raw.get("ends", ())), choices, raw.get("min", 1), raw.get("max", 1000)
        )

    def draw(self, rng: Random) -> Value:
        """A value that a question can name."""
        if self.choices:
            return self.choices[int(rng.integers(len(self.choices)))]
        return DRAW[self.type](rng, self)

    def unnamed(self) -> Value:
        """What stands in the command of a question that does not name the slot."""
        if self.default is not None:
            for choice in self.choices:
                if self.default in (choice.said, choice.forms[""]):
                    return choice
            return read_value(self, self.default, quote=False) if self.default else Value("", _Constant(""))
        if self.choices:
            return self.choices[0]
        placeholder = PLACEHOLDERS[self.type]
        if self.type in ("file", "archive") and self.ends:
            placeholder = ("archive" if self.type == "archive" else "file") + self.ends[0]
        return read_value(self, placeholder)


class _Constant(dict[str, str]):
    """Every form of a value that is typed in one way only."""

    def __init__(self, text: str) -> None:
        super().__init__({"": text})

    def __missing__(self, form: str) -> str:
        return self[""]


def _choice(raw: Any) -> Value:
    if isinstance(raw, Mapping):
        forms = {name: str(text) for name, text in raw.items() if name not in ("said", "typed")}
        if "said" not in raw or ("typed" not in raw and not forms):
            raise SlotError(f"a choice needs said and typed: {dict(raw)}")
        return Value(str(raw["said"]), {"": str(raw.get("typed", "")), **forms})
    if isinstance(raw, str):
        return Value(raw, _Constant(raw))
    if not isinstance(raw, Sequence) or len(raw) != 2:
        raise SlotError(f"a choice is [said, typed]: {raw}")
    return Value(str(raw[0]), _Constant(str(raw[1])))


# ---- quoting ---------------------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Quote a word for bash as people do: not at all if it needs none, else in single quotes."""
    if _BARE.fullmatch(text):
        return text
    if text.startswith("~/"):
        return "~/" + quoted(text[2:])
    return always_quoted(text)


def always_quoted(text: str) -> str:
    """Quote a text for bash, in double quotes if it holds a single one and nothing that they would change."""
    if "'" not in text:
        return f"'{text}'"
    return f'"{text}"' if not re.search(r'["$`\\!]', text) else shlex.quote(text)


def _path_forms(path: str) -> dict[str, str]:
    name = path.rstrip("/").rpartition("/")[2]
    base, dot, ending = name.partition(".")
    if not base:  # .bashrc
        base, dot, ending = name, "", ""
    if ending.count("."):  # notes.v2.txt, but backup.tar.gz
        known = ending if ending.startswith("tar.") else ending.rpartition(".")[2]
        base, ending = name[: -len(known) - 1], known
    return {
        "": quoted(path), "raw": path, "stem": quoted(base), "ext": ending, "name": quoted(name),
        "rawstem": base, "folder": quoted(path.rpartition("/")[0] or "."),
    }  # fmt: skip


def _said_path(path: str, rng: Random) -> str:
    """Say a path: names with spaces mostly in quotes."""
    if " " not in path or rng.random() < 0.25:
        return path
    return f'"{path}"' if rng.random() < 0.6 else f"'{path}'"


# ---- the types -------------------------------------------------------------------------------------------------------


def _pick(rng: Random, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


ENDINGS = (
    ".txt .txt .txt .md .md .csv .csv .log .log .json .py .py .sh .conf .yml .yaml .xml .html .css .js .ts .c .h .cpp .go .rs "
    ".java .rb .php .sql .ini .toml .tex .pdf .pdf .docx .xlsx .pptx .odt .jpg .jpg .jpeg .png .png .gif .svg .webp .mp3 .wav "
    ".flac .mp4 .mkv .mov .avi .zip .tar.gz .gz .bak .tmp .dat .bin .iso .db .env .lock .patch .pem .key .ipynb"
).split()
_FOLDERS = (
    "src", "docs", "tests", "build", "dist", "images", "photos", "music", "videos", "backup", "backups", "data", "logs", "tmp", "bin",
    "Downloads", "Documents", "Desktop", "Pictures", "projects", "work", "node_modules", "assets", "public", "static", "scripts",
)  # fmt: skip
_ROOTS = ("~/", "~/", "/var/", "/srv/", "/opt/", "/home/", "/tmp/", "./", "../", "/mnt/", "/etc/", "/usr/local/")


def folder_name(rng: Random) -> str:
    """A folder, with a path before it or not."""
    last = _pick(rng, _FOLDERS) if rng.random() < 0.4 else stem(rng, spaces=0.03).replace(".", "_")
    draw = rng.random()
    if draw < 0.55:
        return last
    if draw < 0.8:
        return str(_pick(rng, _ROOTS)) + last
    if draw < 0.9:
        return f"{_pick(rng, _FOLDERS)}/{last}"
    return str(
        _pick(
            rng,
            ("/var/log", "/etc", "/home", "/tmp", "/var/www", "/usr/share", "~/Downloads", "~/Documents", "/opt", "~"),
        )
    )


def _file(rng: Random, slot: Slot) -> Value:
    ending = _pick(rng, slot.ends or ENDINGS)
    name = stem(rng) + ending
    if not slot.ends and rng.random() < 0.04:
        name = _pick(
            rng,
            ("Makefile", "README", "LICENSE", "Dockerfile", ".bashrc", ".gitignore", ".env", "notes", "data", "hosts"),
        )
    draw = rng.random()
    path = name if draw < 0.78 else f"{folder_name(rng)}/{name}"
    return Value(_said_path(path, rng), _path_forms(path))


def _folder(rng: Random, slot: Slot) -> Value:
    path = folder_name(rng)
    said = _said_path(path, rng)
    return Value(said + "/" if rng.random() < 0.06 and said == path and path != "~" else said, _path_forms(path))


def _archive(rng: Random, slot: Slot) -> Value:
    return _file(
        rng,
        Slot("file", ends=slot.ends or (".tar.gz", ".tar.gz", ".zip", ".tgz", ".tar", ".tar.xz", ".tar.bz2", ".7z")),
    )


def _ext(rng: Random, slot: Slot) -> Value:
    ending = str(_pick(rng, [e[1:] for e in slot.ends or ENDINGS if e.count(".") == 1]))
    draw = rng.random()
    said = ending if draw < 0.5 else f".{ending}" if draw < 0.85 else ending.upper()
    typed = said.lstrip(".") if said.isupper() else ending
    return Value(said, {"": typed, "raw": typed})


def _glob(rng: Random, slot: Slot) -> Value:
    ending = str(_pick(rng, [e[1:] for e in slot.ends or ENDINGS if e.count(".") == 1]))
    draw = rng.random()
    if draw < 0.12 and not slot.ends:
        start = word(rng)
        return Value(f"{start}*", {"": f"'{start}*'", "raw": f"{start}*", "ext": start})
    said = f"*.{ending}" if draw < 0.45 else f".{ending} files" if draw < 0.75 else f"{ending} files"
    return Value(said, {"": f"'*.{ending}'", "raw": f"*.{ending}", "ext": ending})


_UNITS = (("K", "KB", "kilobytes", 2**10), ("M", "MB", "megabytes", 2**20), ("G", "GB", "gigabytes", 2**30))


def size_value(number: int, unit: int, said: str) -> Value:
    """A size of so many kibi-, mebi- or gibibytes (`unit` 0, 1, 2)."""
    short, _, _, factor = _UNITS[unit]
    find = f"{number}{'k' if unit == 0 else short}"
    return Value(said, {"": f"{number}{short}", "find": find, "bytes": str(number * factor), "number": str(number)})


def _size(rng: Random, slot: Slot) -> Value:
    unit = int(_pick(rng, (0, 1, 1, 1, 2, 2)))
    number = (
        int(_pick(rng, (1, 2, 5, 10, 20, 50, 100, 200, 500))) if rng.random() < 0.5 else int(names.digits(rng, 1, 3))
    )
    number = min(number, 40) if unit == 2 else number
    short, upper, spelled, _ = _UNITS[unit]
    spelled = spelled[:-1] if number == 1 else spelled
    forms = (
        f"{number} {upper}",
        f"{number}{upper}",
        f"{number}{short}",
        f"{number} {upper.lower()}",
        f"{number}{upper.lower()}",
        f"{number} {spelled}",
    )
    said = f"{_SPOKEN[number]} {spelled}" if number <= 10 and rng.random() < 0.1 else str(_pick(rng, forms))
    return size_value(number, unit, said)


_AGES = (
    ("minute", 60),
    ("hour", 3600),
    ("day", 86400),
    ("day", 86400),
    ("day", 86400),
    ("week", 604800),
    ("month", 2592000),
    ("year", 31536000),
)


def age_value(number: int, unit: str, said: str) -> Value:
    """A time span in minutes, hours, days, weeks, months of 30 or years of 365 days."""
    seconds = number * dict(_AGES)[unit]
    days, minutes = -(-seconds // 86400), -(-seconds // 60)
    test = f"-mtime {{}}{days}" if unit not in ("minute", "hour") or seconds % 86400 == 0 else f"-mmin {{}}{minutes}"
    plural = unit if number == 1 else unit + "s"
    return Value(said, {
        "": str(days), "newer": test.format("-"), "older": test.format("+"), "days": str(days), "minutes": str(minutes),
        "seconds": str(seconds), "date": f"{number} {plural} ago", "span": f"{number} {plural}",
    })  # fmt: skip


def _age(rng: Random, slot: Slot) -> Value:
    unit, _ = _pick(rng, _AGES)
    most = {"minute": 90, "hour": 72, "day": 400, "week": 12, "month": 12, "year": 5}[unit]
    number = (
        int(_pick(rng, (1, 2, 3, 5, 7, 10, 14, 30, 60, 90))) if rng.random() < 0.6 else int(rng.integers(1, most + 1))
    )
    number = max(1, min(number, most))
    plural = unit if number == 1 else unit + "s"
    said = f"{_SPOKEN[number]} {plural}" if number <= 10 and rng.random() < 0.3 else f"{number} {plural}"
    return age_value(number, unit, said)


def _count(rng: Random, slot: Slot) -> Value:
    number = int(np.exp(rng.uniform(np.log(max(1, slot.least)), np.log(min(slot.most, 200) + 1))))
    if slot.least <= 10 <= slot.most and rng.random() < 0.25:
        number = int(_pick(rng, [n for n in (3, 5, 10, 20, 50, 100) if slot.least <= n <= slot.most]))
    said = _SPOKEN[number] if number < len(_SPOKEN) and rng.random() < 0.35 else str(number)
    return Value(said, _Constant(str(number)))


def _number(rng: Random, slot: Slot) -> Value:
    low, high = max(1, slot.least), slot.most
    number = (
        int(np.exp(rng.uniform(np.log(low), np.log(high + 1))))
        if slot.least >= 0
        else int(rng.integers(slot.least, high))
    )
    text = str(min(number, high))
    return Value(text, _Constant(text))


_ORDINALS = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def _column(rng: Random, slot: Slot) -> Value:
    number = int(rng.integers(1, 9)) if rng.random() < 0.85 else int(rng.integers(9, 31))
    noun = str(_pick(rng, ("column", "column", "field")))
    if number <= 10 and rng.random() < 0.5:
        suffix = {1: "st", 2: "nd", 3: "rd"}.get(number, "th")
        said = f"the {_ORDINALS[number] if rng.random() < 0.65 else f'{number}{suffix}'} {noun}"
    else:
        said = f"{noun} {number}"
    return Value(said, _Constant(str(number)))


def _line(rng: Random, slot: Slot) -> Value:
    number = digits(rng, 1, 3)
    return Value(f"line {number}", _Constant(number))


def date_value(year: int, month: int, date: int, said: str) -> Value:
    """A day of the calendar."""
    iso = f"{year}-{month:02}-{date:02}"
    return Value(said, {"": iso, "raw": iso, "compact": f"{year}{month:02}{date:02}", "year": str(year)})


def _date(rng: Random, slot: Slot) -> Value:
    year, month, date = names.day(rng)
    name = _MONTHS[month - 1]
    name = name if rng.random() < 0.6 else name[:3]
    name = name if rng.random() < 0.6 else name.lower()
    iso = f"{year}-{month:02}-{date:02}"
    return date_value(
        year,
        month,
        date,
        str(_pick(rng, (iso, iso, f"{name} {date} {year}", f"{date} {name} {year}", f"{name} {date}, {year}"))),
    )


def clock_value(hour: int, minute: int, said: str) -> Value:
    """A time of the day."""
    return Value(said, {"": f"{hour:02}:{minute:02}", "hour": str(hour), "minute": str(minute)})


def _clock(rng: Random, slot: Slot) -> Value:
    hour, minute = int(rng.integers(24)), int(_pick(rng, (0, 0, 0, 15, 30, 45, 5, 10, 20)))
    half, twelve = ("am" if hour < 12 else "pm"), hour % 12 or 12
    spoken = f"{twelve}{half}" if not minute else f"{twelve}:{minute:02}{half}"
    return clock_value(
        hour,
        minute,
        str(_pick(rng, (f"{hour:02}:{minute:02}", f"{hour}:{minute:02}", spoken, spoken.replace(half, f" {half}")))),
    )


def _seconds(rng: Random, slot: Slot) -> Value:
    if rng.random() < 0.7:
        number = int(_pick(rng, (1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90)))
        text = _SPOKEN[number] if number < 11 and rng.random() < 0.3 else str(number)
        return Value(f"{text} second{'s' * (number != 1)}", {"": str(number), "minutes": str(-(-number // 60))})
    number = int(_pick(rng, (1, 2, 3, 5, 10, 15, 30)))
    text = _SPOKEN[number] if number < 11 and rng.random() < 0.3 else str(number)
    return Value(f"{text} minute{'s' * (number != 1)}", {"": str(60 * number), "minutes": str(number)})


def _words(rng: Random, least: int, most: int) -> str:
    return " ".join(word(rng) for _ in range(int(rng.integers(least, most + 1))))


def _pattern(rng: Random, slot: Slot) -> Value:
    draw = rng.random()
    if draw < 0.25:
        text = str(
            _pick(
                rng,
                (
                    "error",
                    "TODO",
                    "warning",
                    "FIXME",
                    "failed",
                    "timeout",
                    "ERROR",
                    "WARN",
                    "fatal",
                    "null",
                    "404",
                    "500",
                    "password",
                    "localhost",
                    "import",
                    "main",
                    "debug",
                ),
            )
        )
    elif draw < 0.6:
        text = word(rng)
    elif draw < 0.75:
        text = identifier(rng, "_")
    elif draw < 0.82:
        text = digits(rng, 2, 5)
    else:
        text = str(
            _pick(
                rng,
                (
                    "connection refused",
                    "not found",
                    "permission denied",
                    "out of memory",
                    _words(rng, 2, 3),
                    f"{word(rng)}={digits(rng, 1, 2)}",
                    f"user {word(rng)}",
                ),
            )
        )
    said = text if " " not in text and rng.random() < 0.65 else _marked(text, rng)
    return Value(said, {"": quoted(text), "raw": text, "quoted": always_quoted(text)})


def _marked(text: str, rng: Random) -> str:
    quote = "'" if rng.random() < 0.4 else '"'
    return f"{quote}{text}{quote}"


def _text(rng: Random, slot: Slot) -> Value:
    text = str(
        _pick(
            rng,
            (
                "hello world",
                "hello",
                "done",
                _words(rng, 1, 2),
                _words(rng, 2, 4),
                f"{word(rng).title()} {_words(rng, 1, 3)}",
                f"don't {word(rng)}" if rng.random() < 0.3 else _words(rng, 2, 3),
            ),
        )
    )
    said = _marked(text, rng) if rng.random() < 0.8 and "'" not in text else f'"{text}"' if rng.random() < 0.6 else text
    return Value(said, {"": always_quoted(text), "raw": text})


def _message(rng: Random, slot: Slot) -> Value:
    verb = _pick(rng, ("fix", "add", "update", "remove", "rename", "initial", "refactor", "bump", "improve", "test"))
    text = f"{verb} {_words(rng, 1, 3)}" if verb != "initial" else "initial commit"
    text = text.capitalize() if rng.random() < 0.4 else text
    said = _marked(text, rng) if rng.random() < 0.8 else text
    return Value(said, {"": always_quoted(text), "raw": text})


def _plain(make: Callable[[Random], str]) -> Callable[[Random, Slot], Value]:
    """A type that is typed as it is said."""

    def draw(rng: Random, slot: Slot) -> Value:
        text = make(rng)
        return Value(text, {"": quoted(text), "raw": text})

    return draw


def _one(
    *options: str, other: Callable[[Random], str] = identifier, share: float = 0.4
) -> Callable[[Random, Slot], Value]:
    """A type of which some values are well known."""
    return _plain(lambda rng: str(_pick(rng, options)) if rng.random() < share else other(rng))


_USERS = (
    "alice",
    "bob",
    "deploy",
    "admin",
    "www-data",
    "root",
    "git",
    "ubuntu",
    "postgres",
    "backup",
    "jenkins",
    "maria",
    "tom",
    "chen",
    "priya",
    "omar",
)


def _user_name(rng: Random) -> str:
    return (
        str(_pick(rng, _USERS))
        if rng.random() < 0.4
        else _pick(rng, (word(rng), word(rng) + digits(rng, 1, 2), f"{word(rng)}.{word(rng)}"))
    )


def _host_name(rng: Random) -> str:
    draw = rng.random()
    return (
        names.address(rng)
        if draw < 0.3
        else names.domain(rng)
        if draw < 0.65
        else identifier(rng, "-")
        if draw < 0.9
        else "localhost"
    )


def _url_text(rng: Random) -> str:
    host = names.domain(rng) if rng.random() < 0.85 else f"localhost:{_port_text(rng)}"
    path = _pick(
        rng,
        (
            "",
            "",
            f"/{word(rng)}",
            f"/{word(rng)}/{stem(rng, spaces=0)}{_pick(rng, ENDINGS)}",
            f"/{stem(rng, spaces=0)}{_pick(rng, ENDINGS)}",
            f"/api/v{digits(rng, 1, 1)}/{word(rng)}",
        ),
    )
    return f"{_pick(rng, ('https', 'https', 'https', 'http'))}://{host}{path}"


def _port_text(rng: Random) -> str:
    return (
        str(_pick(rng, (22, 80, 443, 3000, 3306, 5000, 5432, 6379, 8000, 8080, 8443, 9000, 9090)))
        if rng.random() < 0.4
        else str(int(rng.integers(1024, 65000)))
    )


def _repo_url(rng: Random) -> str:
    owner, name = identifier(rng, "-"), identifier(rng, "-_")
    host = _pick(rng, ("github.com", "github.com", "gitlab.com", "codeberg.org", names.domain(rng)))
    return str(
        _pick(
            rng,
            (f"https://{host}/{owner}/{name}.git", f"git@{host}:{owner}/{name}.git", f"https://{host}/{owner}/{name}"),
        )
    )


def _branch_name(rng: Random) -> str:
    prefix = _pick(rng, ("feature", "fix", "bugfix", "release", "hotfix", "chore", "docs"))
    return str(
        _pick(
            rng,
            (
                identifier(rng, "-"),
                f"{prefix}/{identifier(rng, '-')}",
                f"{prefix}-{digits(rng, 1, 4)}",
                "main",
                "develop",
                f"{word(rng)}-{word(rng)}-{word(rng)}",
            ),
        )
    )


def _version(rng: Random) -> str:
    return ".".join(digits(rng, 1, 1 + (rng.random() < 0.2)) for _ in range(int(rng.integers(2, 4))))


def _image_name(rng: Random) -> str:
    name = (
        str(_pick(rng, ("nginx", "postgres", "redis", "ubuntu", "alpine", "python", "node", "mysql", "debian")))
        if rng.random() < 0.5
        else identifier(rng, "-")
    )
    name = f"{word(rng)}/{name}" if rng.random() < 0.15 else name
    return f"{name}:{_pick(rng, ('latest', 'alpine', _version(rng)))}" if rng.random() < 0.35 else name


def _hexadecimal(rng: Random) -> str:
    return "".join(_pick(rng, list("0123456789abcdef")) for _ in range(int(_pick(rng, (7, 7, 8, 10)))))


def _commit_name(rng: Random) -> str:
    draw = rng.random()
    return _hexadecimal(rng) if draw < 0.7 else f"HEAD~{digits(rng, 1, 1)}" if draw < 0.9 else _branch_name(rng)


def _device_name(rng: Random) -> str:
    return str(
        _pick(
            rng,
            (
                f"/dev/sd{_pick(rng, list('abcde'))}{_pick(rng, ('', '1', '2', '3'))}",
                f"/dev/nvme0n1p{digits(rng, 1, 1)}",
                f"/dev/mmcblk0p{digits(rng, 1, 1)}",
            ),
        )
    )


DRAW: dict[str, Callable[[Random, Slot], Value]] = {
    "file": _file, "folder": _folder, "archive": _archive, "ext": _ext, "glob": _glob, "size": _size, "age": _age,
    "path": lambda rng, slot: (_file if rng.random() < 0.5 else _folder)(rng, slot),
    "count": _count, "number": _number, "column": _column, "line": _line, "date": _date, "clock": _clock, "seconds": _seconds,
    "pattern": _pattern, "word": _plain(word), "text": _text, "message": _message,
    "user": _plain(_user_name), "group": _one("developers", "sudo", "docker", "www-data", "staff", "users", "wheel"),
    "host": _plain(_host_name), "domain": _plain(names.domain), "ip": _plain(names.address),
    "cidr": _plain(lambda rng: names.address(rng).rpartition(".")[0] + f".0/{_pick(rng, (24, 16, 28, 8))}"),
    "port": _plain(_port_text), "url": _plain(_url_text),
    "email": _plain(lambda rng: f"{_user_name(rng)}@{names.domain(rng)}"),
    "mac": _plain(lambda rng: ":".join("".join(_pick(rng, list("0123456789abcdef")) for _ in range(2)) for _ in range(6))),
    "pid": _plain(lambda rng: str(int(rng.integers(2, 65000)))),
    "process": _one("firefox", "chrome", "node", "python", "nginx", "java", "code", "slack", "sshd", "postgres", "spotify"),
    "service": _one("nginx", "apache2", "ssh", "docker", "cron", "postgresql", "mysql", "redis", "bluetooth", "NetworkManager"),
    "package": _one("git", "vim", "curl", "htop", "nodejs", "ffmpeg", "tmux", "nginx", "requests", "numpy", "python3-venv", "jq", "tree"),
    "interface": _one("eth0", "wlan0", "enp3s0", "lo", "tun0", "docker0", other=lambda rng: f"{_pick(rng, ('eth', 'wlan', 'enp', 'wg', 'br'))}{digits(rng, 1, 2)}"),
    "device": _plain(_device_name), "disk": _plain(lambda rng: f"/dev/{_pick(rng, ('sda', 'sdb', 'sdc', 'nvme0n1', 'vda'))}"),
    "mount": _plain(lambda rng: f"/{_pick(rng, ('mnt', 'media', 'mnt/data', 'srv'))}/{word(rng)}"),
    "signal": _plain(lambda rng: str(_pick(rng, ("HUP", "INT", "TERM", "USR1", "USR2", "STOP", "CONT", "QUIT")))),
    "branch": _plain(_branch_name), "commit": _plain(_commit_name),
    "tag": _plain(lambda rng: f"{_pick(rng, ('v', 'v', '', 'release-'))}{_version(rng)}"),
    "remote": _one("origin", "upstream", "fork", "backup", share=0.7), "repo": _plain(_repo_url),
    "image": _plain(_image_name), "container": _plain(lambda rng: identifier(rng, "-_") if rng.random() < 0.8 else _hexadecimal(rng)),
    "volume": _plain(identifier), "network": _plain(identifier), "pod": _plain(lambda rng: f"{identifier(rng, '-')}-{_hexadecimal(rng)[:5]}"),
    "namespace": _one("default", "kube-system", "staging", "production", "monitoring"), "deployment": _plain(lambda rng: identifier(rng, "-")),
    "variable": _plain(lambda rng: identifier(rng, "_").upper()), "value": _plain(lambda rng: identifier(rng) if rng.random() < 0.6 else digits(rng)),
    "name": _plain(identifier), "command": _one("ls", "make", "date", "df -h", "make test", "npm test", "./run.sh", "free -m", "python3 main.py", other=lambda rng: f"./{stem(rng, spaces=0)}.sh", share=0.7),
    "script": _plain(lambda rng: stem(rng, spaces=0) + str(_pick(rng, (".sh", ".sh", ".py", ".pl", "")))),
    "module": _one("requests", "numpy", "json", "http.server", "flask", "os", "pandas"), "database": _plain(lambda rng: identifier(rng, "_")),
    "table": _plain(lambda rng: identifier(rng, "_")), "session": _plain(identifier),
    "mode": _plain(lambda rng: str(_pick(rng, ("755", "644", "600", "700", "640", "750", "664", "775", "400", "444")))),
    "character": _plain(lambda rng: str(_pick(rng, (",", ";", ":", "|", "-", "_", "=", "#", "/", ".", "@")))),
    "version": _plain(_version),
}  # fmt: skip

PLACEHOLDERS: dict[str, str] = {
    "file": "file.txt", "folder": "folder", "path": "path", "archive": "archive.tar.gz", "ext": "txt", "glob": "*.txt", "size": "100 MB",
    "age": "7 days", "count": "10", "number": "10", "column": "column 2", "line": "line 10", "date": "2025-01-31", "clock": "18:30",
    "seconds": "5 seconds", "pattern": "pattern", "word": "word", "text": "text", "message": "message", "user": "user", "group": "group",
    "host": "example.com", "domain": "example.com", "ip": "192.168.1.10", "cidr": "192.168.1.0/24", "port": "8080", "url": "https://example.com",
    "email": "user@example.com", "mac": "00:11:22:33:44:55", "pid": "1234", "process": "process", "service": "service", "package": "package",
    "interface": "eth0", "device": "/dev/sdb1", "disk": "/dev/sdb", "mount": "/mnt/disk", "signal": "TERM", "branch": "branch",
    "commit": "commit", "tag": "v1.0", "remote": "origin", "repo": "https://example.com/repo.git", "image": "image", "container": "container",
    "volume": "volume", "network": "network", "pod": "pod", "namespace": "default", "deployment": "deployment", "variable": "NAME",
    "value": "value", "name": "name", "command": "command", "script": "script.sh", "module": "module", "database": "database", "table": "table",
    "session": "session", "mode": "644", "character": ",", "version": "1.0",
}  # fmt: skip
"""What a command holds for a slot that the question does not name."""


# ---- values that a proof or a default gives as text ------------------------------------------------------------------

_SIZE = re.compile(r"(\d+) ?(k|m|g)b?", re.IGNORECASE)
_AGE = re.compile(r"(\d+) (minute|hour|day|week|month|year)s?")
_SECONDS = re.compile(r"(\d+) (second|minute)s?")
_CLOCK = re.compile(r"(\d+):(\d\d)")
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_LAST_NUMBER = re.compile(r"(\d+)\D*$")


def read_value(slot: Slot, text: str, *, quote: bool = True) -> Value:
    """The value that a text stands for: `"7 days"` of an age, `"1 MB"` of a size. `quote`: as a value of a question is.

    Raises `SlotError` if the text is no value of the type.
    """
    for choice in slot.choices:
        if text in (choice.said, choice.forms[""]):
            return choice
    kind = slot.type
    if kind == "size" and (found := _SIZE.fullmatch(text)):
        return size_value(int(found[1]), "kmg".index(found[2].lower()), text)
    if kind == "age" and (found := _AGE.fullmatch(text)):
        return age_value(int(found[1]), found[2], text)
    if kind == "seconds" and (found := _SECONDS.fullmatch(text)):
        number = int(found[1]) * (60 if found[2] == "minute" else 1)
        return Value(text, {"": str(number), "minutes": str(-(-number // 60))})
    if kind == "clock" and (found := _CLOCK.fullmatch(text)):
        return clock_value(int(found[1]), int(found[2]), text)
    if kind == "date" and (found := _ISO.fullmatch(text)):
        return date_value(int(found[1]), int(found[2]), int(found[3]), text)
    if kind in ("column", "line") and (found := _LAST_NUMBER.search(text)):
        return Value(text, _Constant(found[1]))
    if kind == "count" and text in _SPOKEN:
        return Value(text, _Constant(str(_SPOKEN.index(text))))
    if kind in ("size", "age", "seconds", "clock", "date", "column", "line") and quote:
        raise SlotError(f"{text!r} is no {kind}; write it as {PLACEHOLDERS[kind]!r}")
    if kind in ("file", "folder", "path", "archive"):
        return Value(text, _path_forms(text) if quote else {**_path_forms(text), "": text})
    if kind == "glob":
        return Value(text, {"": f"'{text}'", "raw": text, "ext": text.rpartition(".")[2]})
    if kind in ("text", "message"):
        return Value(text, {"": always_quoted(text), "raw": text})
    return Value(text, {"": quoted(text) if quote else text, "raw": text, "quoted": always_quoted(text)})
