"""The types of slots: how their values are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from models.guide.values import (
    SPOKEN,
    UNITS,
    Value,
    age_value,
    clock_value,
    constant,
    date_value,
    glob_value,
    path_forms,
    plain,
    seconds_value,
    size_value,
    text_value,
)
from recipes.shell_guide.grammar import names
from recipes.shell_guide.grammar.names import digits, identifier, pick, stem, word
from recipes.shell_guide.grammar.values import WORDS, Slot, SlotError

Random = np.random.Generator


def _list(words: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(words.split()) if isinstance(words, str) else tuple(words)


_LISTS = {name: _list(words) for name, words in WORDS.items() if not isinstance(words, Mapping)}
_KNOWN = {name: _list(words) for name, words in WORDS["known"].items()}
_OWN_ROOTS = ("~/", "./", "../", "/srv/", "/tmp/")
_HEXADECIMAL = tuple("0123456789abcdef")


def draw(slot: Slot, rng: Random) -> Value:
    """A value that a question can name. Raises `SlotError` if there is no such type."""
    if slot.choices:
        return slot.choices[int(rng.integers(len(slot.choices)))]
    if slot.type not in DRAW:
        raise SlotError(f"no type {slot.type}; the types are {' '.join(sorted(DRAW))}")
    return DRAW[slot.type](rng, slot)


# ---- files -----------------------------------------------------------------------------------------------------------


def _said_path(path: str, rng: Random) -> str:
    """A path as people write it: names with spaces mostly in quotes."""
    if " " not in path or rng.random() < 0.25:
        return path
    return f'"{path}"' if rng.random() < 0.6 else f"'{path}'"


def folder_name(rng: Random, *, own: bool = False) -> str:
    """A folder, with or without a path before it. `own`: below the home folder, or relative."""
    known = rng.random() < 0.4
    last = pick(rng, _LISTS["folders"]) if known else stem(rng, spaces=0.03).replace(".", "_")
    draw = rng.random()
    if draw < 0.55:
        return last
    if draw < 0.8:
        return pick(rng, _OWN_ROOTS if own else _LISTS["roots"]) + last
    return f"{pick(rng, _LISTS['folders'])}/{last}" if own or draw < 0.9 else pick(rng, _LISTS["places"])


def _file(rng: Random, slot: Slot) -> Value:
    name = stem(rng) + pick(rng, slot.ends or _LISTS["endings"])
    if not slot.ends and rng.random() < 0.04:
        name = pick(rng, _LISTS["bare_files"])
    path = name if rng.random() < 0.78 else f"{folder_name(rng, own=slot.own)}/{name}"
    return Value(_said_path(path, rng), path_forms(path))


def _folder(rng: Random, slot: Slot) -> Value:
    path = folder_name(rng, own=slot.own)
    said = _said_path(path, rng)
    return Value(said + "/" if rng.random() < 0.06 and said == path and path != "~" else said, path_forms(path))


def _path(rng: Random, slot: Slot) -> Value:
    return _file(rng, slot) if rng.random() < 0.5 else _folder(rng, slot)


def _archive(rng: Random, slot: Slot) -> Value:
    return _file(rng, replace(slot, ends=slot.ends or _LISTS["archives"]))


def _ending(rng: Random, slot: Slot) -> str:
    """An ending without its dot."""
    return pick(rng, [ending[1:] for ending in slot.ends or _LISTS["endings"] if ending.count(".") == 1])


def _ext(rng: Random, slot: Slot) -> Value:
    ending = _ending(rng, slot)
    draw = rng.random()
    said = ending if draw < 0.5 else f".{ending}" if draw < 0.85 else ending.upper()
    return constant(said, said if said.isupper() else ending)


def _glob(rng: Random, slot: Slot) -> Value:
    ending, draw = _ending(rng, slot), rng.random()
    if draw < 0.12 and not slot.ends:
        start = word(rng)
        return Value(f"{start}*", {"": f"'{start}*'", "raw": f"{start}*", "ext": start})
    said = f"*.{ending}" if draw < 0.45 else f".{ending} files" if draw < 0.75 else f"{ending} files"
    return glob_value(f"*.{ending}", said)


# ---- quantities ------------------------------------------------------------------------------------------------------


def _spoken(number: int, rng: Random, share: float = 0.3) -> str:
    """A number, sometimes as a word."""
    return SPOKEN[number] if number <= 10 and rng.random() < share else str(number)


def _size(rng: Random, slot: Slot) -> Value:
    unit = int(rng.choice((0, 1, 1, 1, 2, 2)))
    usual = rng.random() < 0.5
    number = int(rng.choice((1, 2, 5, 10, 20, 50, 100, 200, 500))) if usual else int(digits(rng, 1, 3))
    number = min(number, 40) if unit == 2 else number
    short, upper, spelled, _ = UNITS[unit]
    if unit and rng.random() < 0.3:
        spelled = ("megs", "gigs")[unit - 1]
    spelled = spelled[:-1] if number == 1 else spelled
    lower = upper.lower()
    forms = (f"{number} {upper}", f"{number}{upper}", f"{number}{short}", f"{number} {lower}", f"{number}{lower}")
    if rng.random() < 0.2:
        return size_value(number, unit, f"{_spoken(number, rng, 0.5)} {spelled}")
    return size_value(number, unit, pick(rng, forms))


_SPAN_SHARES = ("minute", "hour", "day", "day", "day", "week", "month", "year")
_MOST = {"minute": 90, "hour": 72, "day": 400, "week": 12, "month": 12, "year": 5}


def _age(rng: Random, slot: Slot) -> Value:
    unit = pick(rng, _SPAN_SHARES)
    usual = rng.random() < 0.6
    number = int(rng.choice((1, 2, 3, 5, 7, 10, 14, 30, 60, 90))) if usual else int(rng.integers(1, _MOST[unit] + 1))
    number = min(number, _MOST[unit])
    if number == 1 and rng.random() < 0.5:
        return age_value(number, unit, f"{'an' if unit == 'hour' else 'a'} {unit}")
    return age_value(number, unit, f"{_spoken(number, rng)} {unit}{'s' * (number != 1)}")


def _count(rng: Random, slot: Slot) -> Value:
    low, high = max(1, slot.least), min(slot.most, 200)
    round_ones = [number for number in (3, 5, 10, 20, 50, 100) if low <= number <= high]
    if round_ones and rng.random() < 0.25:
        number = int(rng.choice(round_ones))
    else:
        number = int(np.exp(rng.uniform(np.log(low), np.log(high + 1))))
    return constant(_spoken(number, rng, 0.35), str(number))


def _number(rng: Random, slot: Slot) -> Value:
    if slot.least < 1:
        return constant(*2 * (str(int(rng.integers(slot.least, slot.most + 1))),))
    number = min(slot.most, int(np.exp(rng.uniform(np.log(slot.least), np.log(slot.most + 1)))))
    return constant(str(number), str(number))


_ORDINALS = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def _column(rng: Random, slot: Slot) -> Value:
    number = int(rng.integers(1, 9)) if rng.random() < 0.85 else int(rng.integers(9, 31))
    noun = pick(rng, ("column", "column", "field"))
    if number > 10 or rng.random() < 0.5:
        return constant(f"{noun} {number}", str(number))
    short = f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number, 'th') }"
    return constant(f"the {_ORDINALS[number] if rng.random() < 0.65 else short} {noun}", str(number))


def _line(rng: Random, slot: Slot) -> Value:
    number = digits(rng, 1, 3)
    return constant(f"line {number}", number)


def _date(rng: Random, slot: Slot) -> Value:
    year, month, date = names.day(rng)
    name = _LISTS["months"][month - 1]
    name = name if rng.random() < 0.6 else name[:3]
    name = name if rng.random() < 0.6 else name.lower()
    iso = f"{year}-{month:02}-{date:02}"
    said = (iso, iso, f"{name} {date} {year}", f"{date} {name} {year}", f"{name} {date}, {year}")
    return date_value(year, month, date, pick(rng, said))


def _clock(rng: Random, slot: Slot) -> Value:
    hour, minute = int(rng.integers(24)), int(rng.choice((0, 0, 0, 15, 30, 45, 5, 10, 20)))
    half, twelve = ("am" if hour < 12 else "pm"), hour % 12 or 12
    minutes = f":{minute:02}" if minute else ""
    said = (f"{hour:02}:{minute:02}", f"{hour}:{minute:02}", f"{twelve}{minutes}{half}", f"{twelve}{minutes} {half}")
    return clock_value(hour, minute, pick(rng, said))


def _seconds(rng: Random, slot: Slot) -> Value:
    seconds = rng.random() < 0.7
    number = int(rng.choice((1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90) if seconds else (1, 2, 3, 5, 10, 15, 30)))
    unit = "second" if seconds else "minute"
    said = f"{_spoken(number, rng)} {unit}{'s' * (number != 1)}"
    return seconds_value(number, unit, said)


# ---- words -----------------------------------------------------------------------------------------------------------


def _words(rng: Random, least: int, most: int) -> str:
    return " ".join(word(rng) for _ in range(int(rng.integers(least, most + 1))))


def _marked(text: str, rng: Random) -> str:
    """A text in quotes."""
    return f"'{text}'" if "'" not in text and rng.random() < 0.4 else f'"{text}"'


def _pattern(rng: Random, slot: Slot) -> Value:
    draw = rng.random()
    if draw < 0.25:
        text = pick(rng, _LISTS["patterns"])
    elif draw < 0.6:
        text = word(rng)
    elif draw < 0.75:
        text = identifier(rng, "_")
    elif draw < 0.82:
        text = digits(rng, 2, 5)
    else:
        others = (_words(rng, 2, 3), f"{word(rng)}={digits(rng, 1, 2)}", f"user {word(rng)}")
        text = pick(rng, (*_LISTS["sentences"], *others))
    said = text if " " not in text and rng.random() < 0.65 else _marked(text, rng)
    return Value(said, plain(text).forms)


def _text(rng: Random, slot: Slot) -> Value:
    others = (_words(rng, 1, 2), _words(rng, 2, 4), f"{word(rng).title()} {_words(rng, 1, 3)}")
    text = pick(rng, ("hello world", "hello", "done", f"don't {word(rng)}", *others, *others))
    said = _marked(text, rng) if rng.random() < 0.8 else text
    return text_value(text, said)


def _message(rng: Random, slot: Slot) -> Value:
    text = "initial commit" if rng.random() < 0.08 else f"{pick(rng, _LISTS['verbs'])} {_words(rng, 1, 3)}"
    text = text.capitalize() if rng.random() < 0.4 else text
    said = _marked(text, rng) if rng.random() < 0.8 else text
    return text_value(text, said)


def _name(make: Callable[[Random], str]) -> Callable[[Random, Slot], Value]:
    """A type whose values are typed as they are said."""
    return lambda rng, slot: plain(make(rng))


def _known(
    kind: str, other: Callable[[Random], str] = identifier, share: float = 0.4
) -> Callable[[Random, Slot], Value]:
    """A type of which some values are well known."""
    return _name(lambda rng: pick(rng, _KNOWN[kind]) if rng.random() < share else other(rng))


def _user(rng: Random) -> str:
    if rng.random() < 0.4:
        return pick(rng, _LISTS["users"])
    return pick(rng, (word(rng), word(rng) + digits(rng, 1, 2), f"{word(rng)}.{word(rng)}"))


def _host(rng: Random) -> str:
    draw = rng.random()
    if draw < 0.3:
        return names.address(rng)
    return names.domain(rng) if draw < 0.65 else identifier(rng, "-") if draw < 0.9 else "localhost"


def _url(rng: Random) -> str:
    host = names.domain(rng) if rng.random() < 0.85 else f"localhost:{_port(rng)}"
    file = stem(rng, spaces=0) + pick(rng, _LISTS["endings"])
    path = pick(
        rng, ("", "", f"/{word(rng)}", f"/{word(rng)}/{file}", f"/{file}", f"/api/v{digits(rng, 1, 1)}/{word(rng)}")
    )
    return f"{pick(rng, ('https', 'https', 'https', 'http'))}://{host}{path}"


def _port(rng: Random) -> str:
    usual = (22, 80, 443, 3000, 3306, 5000, 5432, 6379, 8000, 8080, 8443, 9000, 9090)
    return str(int(rng.choice(usual))) if rng.random() < 0.4 else str(int(rng.integers(1024, 65000)))


def _repository(rng: Random) -> str:
    owner, name = identifier(rng, "-"), identifier(rng, "-_")
    host = pick(rng, ("github.com", "github.com", "gitlab.com", "codeberg.org", names.domain(rng)))
    forms = (f"https://{host}/{owner}/{name}.git", f"git@{host}:{owner}/{name}.git", f"https://{host}/{owner}/{name}")
    return pick(rng, forms)


def _branch(rng: Random) -> str:
    prefix = pick(rng, _LISTS["branches"])
    forms = (f"{prefix}/{identifier(rng, '-')}", f"{prefix}-{digits(rng)}", f"{word(rng)}-{word(rng)}-{word(rng)}")
    return pick(rng, (identifier(rng, "-"), *forms, "main", "develop"))


def _version(rng: Random) -> str:
    return ".".join(digits(rng, 1, 1 + (rng.random() < 0.2)) for _ in range(int(rng.integers(2, 4))))


def _image(rng: Random) -> str:
    name = pick(rng, _LISTS["images"]) if rng.random() < 0.5 else identifier(rng, "-")
    name = f"{word(rng)}/{name}" if rng.random() < 0.15 else name
    return f"{name}:{pick(rng, ('latest', 'alpine', _version(rng)))}" if rng.random() < 0.35 else name


def _hexadecimal(rng: Random, length: int) -> str:
    return "".join(pick(rng, _HEXADECIMAL) for _ in range(length))


def _commit(rng: Random) -> str:
    draw = rng.random()
    if draw < 0.7:
        return _hexadecimal(rng, int(rng.choice((7, 7, 8, 10))))
    return f"HEAD~{digits(rng, 1, 1)}" if draw < 0.9 else _branch(rng)


def _device(rng: Random) -> str:
    scsi = f"/dev/sd{pick(rng, tuple('abcde'))}{pick(rng, ('', '1', '2', '3'))}"
    return pick(rng, (scsi, scsi, f"/dev/nvme0n1p{digits(rng, 1, 1)}", f"/dev/mmcblk0p{digits(rng, 1, 1)}"))


def _value(rng: Random) -> str:
    return identifier(rng) if rng.random() < 0.6 else digits(rng)


def _hyphenated(rng: Random) -> str:
    return identifier(rng, "-")


def _underscored(rng: Random) -> str:
    return identifier(rng, "_")


DRAW: Mapping[str, Callable[[Random, Slot], Value]] = {
    "file": _file,
    "folder": _folder,
    "path": _path,
    "archive": _archive,
    "ext": _ext,
    "glob": _glob,
    "size": _size,
    "age": _age,
    "count": _count,
    "number": _number,
    "column": _column,
    "line": _line,
    "date": _date,
    "clock": _clock,
    "seconds": _seconds,
    "pattern": _pattern,
    "text": _text,
    "message": _message,
    "word": _name(word),
    "user": _name(_user),
    "host": _name(_host),
    "domain": _name(names.domain),
    "ip": _name(names.address),
    "cidr": _name(lambda rng: f"{names.address(rng).rpartition('.')[0]}.0/{rng.choice((24, 16, 28, 8))}"),
    "port": _name(_port),
    "url": _name(_url),
    "email": _name(lambda rng: f"{_user(rng)}@{names.domain(rng)}"),
    "mac": _name(lambda rng: ":".join(_hexadecimal(rng, 2) for _ in range(6))),
    "pid": _name(lambda rng: str(int(rng.integers(2, 65000)))),
    "device": _name(_device),
    "mount": _name(lambda rng: f"/{pick(rng, ('mnt', 'media', 'mnt/data', 'srv'))}/{word(rng)}"),
    "branch": _name(_branch),
    "commit": _name(_commit),
    "tag": _name(lambda rng: f"{pick(rng, ('v', 'v', '', 'release-'))}{_version(rng)}"),
    "version": _name(_version),
    "repo": _name(_repository),
    "image": _name(_image),
    "container": _name(lambda rng: identifier(rng) if rng.random() < 0.8 else _hexadecimal(rng, 12)),
    "pod": _name(lambda rng: f"{identifier(rng, '-')}-{_hexadecimal(rng, 5)}"),
    "variable": _name(lambda rng: _underscored(rng).upper()),
    "value": _name(_value),
    "command": _name(lambda rng: pick(rng, (*_LISTS["commands"], f"./{stem(rng, spaces=0)}.sh"))),
    "script": _name(lambda rng: stem(rng, spaces=0) + pick(rng, (".sh", ".sh", ".py", ".pl", ""))),
    **dict.fromkeys(("volume", "network", "name", "session"), _name(identifier)),
    **dict.fromkeys(("deployment",), _name(_hyphenated)),
    **dict.fromkeys(("database", "table"), _name(_underscored)),
    **{kind: _known(kind) for kind in ("group", "process", "service", "package", "namespace", "module")},
    **{kind: _known(kind, share=1.0) for kind in ("interface", "signal", "mode", "character", "disk")},
    "remote": _known("remote", share=0.75),
}
"""Type -> a function that draws a value."""
