"""Finds what a question names (files, hosts, numbers, sizes, users), with the types of slots that each may fill.

    copy invoice-0417.pdf to /srv/in as user lena
         file             folder            user

A thing has a type by its form (`*.log`, `10.0.0.7`, `20 MB`), by a word next to it (`user lena`, `port 2222`), or
because nobody knows the word. How sure that is, is a number from 0 to 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from models.guide.names import NO_NAMES
from models.guide.synonyms import STOP_WORDS
from models.guide.values import (
    SPANS,
    SPOKEN,
    Value,
    age_value,
    clock_value,
    constant,
    date_value,
    glob_value,
    path_value,
    plain,
    seconds_value,
    size_value,
    text_value,
)
from models.guide.words import READ_CHARACTERS

WORDS = {
    **dict.fromkeys(("user", "username", "account", "login"), "user"),
    **dict.fromkeys(("service", "unit", "daemon", "timer", "socket"), "service"),
    **dict.fromkeys(("package", "module", "library", "formula", "gem", "crate"), "package"),
    **dict.fromkeys(("process", "program", "app", "application", "command", "tool"), "process"),
    **dict.fromkeys(("host", "server", "machine", "hostname", "domain"), "host"),
    **dict.fromkeys(("database", "db"), "database"),
    **dict.fromkeys(("folder", "directory", "dir"), "folder"),
    **dict.fromkeys(("called", "named", "name", "alias"), "name"),
    **dict.fromkeys(("word", "string", "text", "pattern", "phrase", "term"), "word"),
    **dict.fromkeys(("interface", "network", "volume", "namespace", "deployment", "pod", "session"), ""),
    **dict.fromkeys(("branch", "tag", "remote", "group", "container", "image", "table", "variable"), ""),
    "file": "file",
}
"""Words next to a name -> the type that they give it (empty: the word itself)."""
VERBS = {
    **dict.fromkeys(("install", "uninstall", "reinstall", "upgrade"), "package"),
    **dict.fromkeys(("restart", "reload", "start", "stop", "enable", "disable"), "service"),
    **dict.fromkeys(("kill", "killall"), "process"),
    **dict.fromkeys(("ping", "traceroute", "ssh"), "host"),
    **dict.fromkeys(("checkout", "merge", "rebase"), "branch"),
    **dict.fromkeys(("grep", "containing", "contain", "contains", "matching", "mention", "mentions"), "word"),
    **dict.fromkeys(("say", "says", "saying", "have", "has", "having", "with", "without", "for"), "word"),
    **dict.fromkeys(("group",), "group"),
}
"""Words before a name -> the type that they make likely."""
OBJECTS = frozenset({
    "install", "uninstall", "reinstall", "restart", "kill", "killall", "grep", "containing", "contain", "contains",
    "matching", "mention", "mentions",
})  # fmt: skip
"""Those after which any rare word is a name."""

_CALLED = frozenset({
    "called", "named", "user", "username", "word", "string", "group", "branch", "database", "variable", "alias",
})  # fmt: skip
"""Words after which any word is a name."""
_SAYS = ("called", "named", "word", "string")
"""Words after which even "hello" is a name."""
_LINKS = frozenset({
    "a", "an", "and", "are", "by", "for", "from", "in", "is", "it", "its", "my", "of", "on", "or", "that", "the",
    "their", "this", "to", "with",
})  # fmt: skip

ANY_NAME = frozenset({
    "name", "branch", "service", "package", "container", "image", "user", "group", "process", "database", "table",
    "module", "variable", "commit", "session", "word", "pattern", "tag", "remote", "volume", "network", "pod",
    "deployment", "namespace", "interface", "value", "key", "host", "domain", "command", "text", "message", "character",
    "script",
})  # fmt: skip
"""Types that any word may be a value of."""
_FILES = ("file", "script", "archive", "path", "input", "output", "source", "destination")
_FOLDERS = ("folder", "directory", "path", "mount", "source", "destination")
_NUMBERS = ("count", "number", "port", "pid", "line", "column", "mode", "value", "seconds", "word", "name")
_NUMBER_AFTER = tuple(
    (kind, re.compile(rf"\b(?:{words})\W{{1,2}}(?:\d+(?: (?:and|to|or) |, ?))*$"))
    for kind, words in (("port", "ports?"), ("pid", "pid|process(?: id)?"), ("mode", "mode|permissions?|rights"))
)
"""Words before a number that say what it is."""
AMOUNTS = frozenset({
    "age", "clock", "column", "count", "date", "ext", "line", "mode", "number", "port", "seconds", "size",
})  # fmt: skip
"""Types that a command may write differently than a question."""
SURE = 0.5
"""Weight from which on a thing without a hyphen counts as named by the question."""
_ENDINGS = frozenset({
    "txt", "md", "csv", "tsv", "json", "xml", "yaml", "yml", "log", "py", "sh", "js", "ts", "css", "html", "htm", "c",
    "h", "cpp", "rs", "go", "java", "rb", "php", "jpg", "jpeg", "png", "gif", "svg", "webp", "bmp", "tiff", "heic",
    "mp3", "mp4", "mkv", "avi", "mov", "wav", "flac", "ogg", "m4a", "webm", "pdf", "doc", "docx", "xls", "xlsx", "ppt",
    "pptx", "odt", "epub", "tex", "zip", "tar", "gz", "tgz", "xz", "bz2", "zst", "rar", "7z", "iso", "img", "deb",
    "rpm", "conf", "ini", "toml", "bak", "tmp", "sql", "db", "key", "pem", "crt",
})  # fmt: skip
_MONTHS = (
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
)  # fmt: skip
_ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
)  # fmt: skip
_SPOKEN = "|".join(SPOKEN[1:])
_COUNT = rf"\d+|{_SPOKEN}"
_MONTH = rf"(?:{'|'.join(_MONTHS)})[a-z]*"
_QUOTED = re.compile(r"(?<!\w)(?:\"([^\"\n]+)\"|'([^'\n]+)'(?!\w)|“([^”\n]+)”|`([^`\n]+)`)")
_URL = re.compile(r"\b(?:https?|ftp|ssh|git|s3)://[^\s,;\"'<>]+|\bwww\.[^\s,;\"'<>]+", re.I)
_MAC = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.I)
_IPV6 = re.compile(r"(?<![\w:])(?=[0-9a-f:]*::|(?:[0-9a-f]+:){7})[0-9a-f:]*:[0-9a-f:]*(?:/\d{1,3})?(?![\w:])", re.I)
_LOGIN = re.compile(r"(?<![\w/])[\w.+-]+@[\w.-]*\w(?::[^\s,;]*)?")
_ADDRESS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(/\d{1,2})?(:\d+)?\b")
_HOST = re.compile(
    r"(?<![\w./-])(?:[a-z0-9_-]+\.)+(?:com|org|net|edu|gov|io|dev|local|lan|example|test|internal|home|de|co|uk|app)"
    r"(?::\d+)?(?![\w/.-]*\w)",
    re.I,
)
_DATE = re.compile(
    rf"\b(\d{{4}})-(\d\d)-(\d\d)\b|\b({_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}})\b"
    rf"|\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTH}),? (\d{{4}})\b",
    re.I,
)
_CLOCK = re.compile(r"\b(\d{1,2}):(\d\d)(?: ?([ap])\.?m\.?)?(?![\w:])|\b(\d{1,2}) ?([ap])\.?m\b", re.I)
_SIZE = re.compile(
    rf"\b({_COUNT}) ?(?:(k|kb|kib|kilobytes?)|(m|mb|mib|megabytes?|megs?)|(g|gb|gib|gigabytes?|gigs?))\b", re.I
)
_AGE = re.compile(rf"\b({_COUNT}|an?) ?(minute|min|hour|day|week|month|year)s?\b", re.I)
_SECONDS = re.compile(rf"\b({_COUNT}) ?(second|sec|s)s?\b", re.I)
_COLUMN = re.compile(
    rf"\b(?:the )?(?:(?:column|field|col) (?:number )?(\d+)|({'|'.join(_ORDINALS)}|\d+(?:st|nd|rd|th)) "
    r"(?:column|field|col))\b",
    re.I,
)
_LINE = re.compile(r"\blines? (?:number )?(\d+)\b", re.I)
_GLOB = re.compile(r"(?<![\w/])(?:[\w.-]*\*[\w.*-]*)(?![\w/])")
_ENDING_FILES = re.compile(
    rf"\.?\b({'|'.join(sorted(_ENDINGS))})(?:s\b|(?= (?:files?|images?|pictures?|photos?|videos?)\b))", re.I
)
_BARE_ENDING = re.compile(r"(?<![\w*./~])\.([A-Za-z][A-Za-z0-9]{0,4})(?![\w/.-])")
_VERSION = re.compile(r"\bv?\d+(?:\.\d+)+\b")
_NUMBER = re.compile(rf"(?<![\w.+-])(?:\d+|{_SPOKEN})(?![\w.-]*\w)", re.I)
_WORD = re.compile(r"[^\s\"'`,;()<>|&?!]+")
_PATH = re.compile(r"~?/.*|\.{1,2}/.*|[^/]+/.*|~")
_FILE_ENDING = re.compile(r"(?<=[\w)\]])(?:\.(?:7z|[A-Za-z][A-Za-z0-9]{0,7})){1,2}$")
_DOTFILE = re.compile(r"\.[A-Za-z][\w-]+(?:\.[\w-]+)*")
_HEX = re.compile(r"(?=.*\d)[0-9a-f]{7,40}")
_NAME_LIKE = re.compile(r"[\w.]*[\d_][\w.]*|.*[a-z][A-Z].*|[\w.]+(?:[-:@/+][\w.]+)+|[A-Z]{2,}")
_UPPER = re.compile(r"[A-Z][A-Z0-9_]+")
_CALLED_SO = re.compile(r"(?=\S{3})(?!\*\.[a-z]+$)(?=.*[a-z])\S+")
"""What gets a mark: three characters or more with a lower-case letter, without a space, and not `*.log`, which is only
a few tokens."""
_NOTHING: Mapping[str, Value] = MappingProxyType({})


@dataclass(frozen=True)
class Named:
    """One thing that a question names."""

    at: int
    """Place of its first character in the question."""
    text: str
    kinds: Mapping[str, float]
    """Types of slots that it may fill -> how well, 0 to 1 and a little above."""
    weight: float
    """How important it is that an example has a slot for it."""
    values: Mapping[str, Value]
    """Its value as a type that has special forms."""
    before: str = ""
    """The word before it, in lower case."""

    def without(self, tail: str) -> Named:
        """A copy whose text is cut, if it ends with `tail`."""
        return replace(self, text=self.text[: -len(tail)]) if tail and self.text.endswith(tail) else self

    def value(self, kind: str) -> Value:
        """The value for a slot of this type."""
        if (known := self.values.get(kind)) is not None:
            return known
        if kind in (*_FILES, *_FOLDERS, "device", "disk"):
            return path_value(self.text)
        if kind == "glob":
            return glob_value(self.text, self.text)
        if kind in ("text", "message"):
            return text_value(self.text, self.text)
        return plain(self.text)


def named(
    question: str, known: Callable[[str], bool], program: Callable[[str], bool], rare: Callable[[str], bool]
) -> list[Named]:
    """What a question names, from first to last.

    `known`: whether the index has a word. `program`: whether it is mostly the name of a program. `rare`: whether few
    examples have it, so that it is a name after "install".

    >>> [(one.text, one.kinds["folder"]) for one in named("copy a.pdf to /srv/in", bool, bool, bool)]
    [('a.pdf', 0.4), ('/srv/in', 1.0)]
    """
    reading = _Reading(question[:READ_CHARACTERS])
    reading.quoted()
    reading.addresses()
    reading.globs()
    reading.times()
    reading.quantities()
    reading.endings()
    reading.words(known, program, rare)
    reading.numbers()
    return sorted(reading.found, key=lambda one: one.at)


def called(things: Iterable[Named]) -> list[tuple[int, int]]:
    """Beginnings and ends of the things that a command repeats letter by letter: no amounts, and no kinds of files.

    >>> question = "when did user ofelia log in last, 'disk full' 5 times, *.log"
    >>> [question[start:end] for start, end in called(named(question, str.isascii, bool))]
    ['ofelia']
    """
    return [
        (one.at, one.at + len(one.text))
        for one in things
        if _CALLED_SO.fullmatch(one.text)
        and (one.weight >= SURE or "-" in one.text)
        and all(one.kinds.get(amount, 0.0) < max(one.kinds.values()) for amount in AMOUNTS)
    ]


class _Reading:
    """Reads a question from the most certain things to the least certain; each letter belongs to one thing."""

    def __init__(self, text: str) -> None:
        self.found: list[Named] = []
        self._text = text
        self._taken = bytearray(len(text))

    def _take(
        self, start: int, end: int, kinds: Mapping[str, float], weight: float, values: Mapping[str, Value] = _NOTHING
    ) -> None:
        if start == end or any(self._taken[start:end]):
            return
        self._close(start, end)
        before = re.findall(r"[a-z]+(?=\W*$)", self._text[:start].lower())
        self.found.append(Named(start, self._text[start:end], kinds, weight, values, before[0] if before else ""))

    def _close(self, start: int, end: int) -> None:
        self._taken[start:end] = b"\1" * (end - start)

    def quoted(self) -> None:
        """What is in quotes: a text, or a name with a space."""
        for one in _QUOTED.finditer(self._text):
            inner = next(at for at in range(1, 5) if one[at] is not None)
            kinds = dict.fromkeys(ANY_NAME, 0.7) | {"folder": 0.6, "file": 0.5}
            if _FILE_ENDING.search(one[inner]):
                kinds |= {"file": 0.9, "path": 0.9}
            if "/" in one[inner]:
                kinds |= {"folder": 0.95, "path": 0.95}
            kinds |= {"pattern": 1.0, "word": 1.0, "text": 1.0, "message": 1.0, "glob": 0.5}
            self._take(*one.span(inner), kinds, 1.0)
            self._close(*one.span())

    def addresses(self) -> None:
        """URLs, logins and hosts."""
        for one in _URL.finditer(self._text):
            url = one.group().rstrip(".?!:)")
            repository = one.group().rstrip("?!").endswith(".git") or re.search(r"github|gitlab|codeberg", url)
            kinds = {"url": 1.0, "repo": 1.1 if repository else 0.7, "host": 0.2, "value": 0.2}
            self._take(one.start(), one.start() + len(url), kinds, 1.0)
        for one in _MAC.finditer(self._text):
            self._take(*one.span(), {"mac": 1.0}, 1.0)
        for one in _IPV6.finditer(self._text):
            self._take(*one.span(), {"ip": 1.0, "host": 1.0, "domain": 0.8, "cidr": 0.5}, 1.0)
        for one in _LOGIN.finditer(self._text):
            login = one.group().rstrip(".:?")
            kinds = {"email": 1.0, "host": 0.9, "repo": 0.3}
            if ":" in one.group():
                kinds = {"email": 0.2, "host": 0.6, "repo": 1.1}
            kinds |= {"url": 0.5, "user": 0.3, "name": 0.3}
            self._take(one.start(), one.start() + len(login), kinds, 1.0)
        for one in _ADDRESS.finditer(self._text):
            network = {"cidr": 1.1, "ip": 0.5, "network": 0.4}
            self._take(*one.span(), network if one[1] else {"ip": 1.0, "host": 1.0, "domain": 0.9}, 1.0)
        for one in _HOST.finditer(self._text):
            kinds = {"host": 1.0, "domain": 1.0, "ip": 0.8, "url": 0.4, "name": 0.2, "file": 0.1}
            self._take(*one.span(), kinds, 1.0)

    def globs(self) -> None:
        """Patterns of file names: `*.log`."""
        for one in _GLOB.finditer(self._text):
            glob = one.group().rstrip(".")
            values = {"glob": glob_value(glob, glob), "ext": plain(glob.rpartition(".")[2])}
            kinds = {"glob": 1.1, "file": 0.5, "path": 0.5, "ext": 0.6, "pattern": 0.5}
            self._take(one.start(), one.start() + len(glob), kinds, 1.0, values)

    def times(self) -> None:
        """Days of the calendar and times of the day."""
        for one in _DATE.finditer(self._text):
            if one[1]:
                year, month, day = int(one[1]), int(one[2]), int(one[3])
            else:
                name, day, year = (one[4], int(one[5]), int(one[6])) if one[4] else (one[8], int(one[7]), int(one[9]))
                month = _MONTHS.index(name[:3].lower()) + 1
            value = date_value(year, month, day, one[0])
            self._take(*one.span(), {"date": 1.0, "word": 0.3, "pattern": 0.3}, 1.0, {"date": value})
        for one in _CLOCK.finditer(self._text):
            hour, half = int(one[1] or one[4]), (one[3] or one[5] or "").lower()
            hour = hour % 12 + 12 * (half == "p") if half else hour
            if hour < 24:
                self._take(*one.span(), {"clock": 1.0}, 1.0, {"clock": clock_value(hour, int(one[2] or 0), one[0])})

    def quantities(self) -> None:
        """Numbers with a unit, and columns and lines."""
        for one in _SIZE.finditer(self._text):
            unit = next(at for at in range(3) if one[at + 2])
            value = size_value(_number(one[1]), unit, one[0])
            self._take(*one.span(), {"size": 1.0, "value": 0.2}, 1.0, {"size": value})
        for one in _AGE.finditer(self._text):
            span = {"min": "minute"}.get(one[2].lower(), one[2].lower())
            spoken = one[1].lower() in ("a", "an")
            count = 1 if spoken else _number(one[1])
            kinds, values = {"age": 1.0}, {"age": age_value(count, span, one[0])}
            if span in ("minute", "hour"):
                kinds["seconds"] = 0.9
                values["seconds"] = seconds_value(count * SPANS[span] // 60, "minute", one[0])
            self._take(*one.span(), kinds, 0.4 if spoken else 0.8, values)
        for one in _SECONDS.finditer(self._text):
            alone = constant(one[1], str(_number(one[1])))
            values = {"seconds": seconds_value(_number(one[1]), "second", one[0]), "count": alone, "number": alone}
            self._take(*one.span(), {"seconds": 1.0, "count": 0.3, "number": 0.3}, 0.8, values)
        for one in _COLUMN.finditer(self._text):
            said = (one[1] or one[2]).lower()
            digits = str(_ORDINALS.index(said) + 1) if said in _ORDINALS else re.sub(r"\D", "", said)
            values = {"column": constant(one[0], digits), "number": plain(digits)}
            self._take(*one.span(), {"column": 1.0, "number": 0.4}, 0.8, values)
        for one in _LINE.finditer(self._text):
            self._take(
                *one.span(1), {"line": 1.0, "number": 0.8, "count": 0.6}, 0.8, {"line": constant(one[0], one[1])}
            )

    def endings(self) -> None:
        """Kinds of files by their ending: `.log`, `jpg files`, `pdfs`."""
        for one in _ENDING_FILES.finditer(self._text):
            ending = one[1].lower()
            values = {"glob": glob_value(f"*.{ending}", one[0]), "ext": constant(one[0], ending)}
            self._take(*one.span(), {"ext": 0.8, "glob": 0.9}, 0.4, values)
        for one in _BARE_ENDING.finditer(self._text):
            if one[1].lower() in _ENDINGS:
                values = {"glob": glob_value(f"*.{one[1]}", one[0]), "ext": constant(one[0], one[1])}
                self._take(*one.span(), {"ext": 1.0, "glob": 0.9}, 0.6, values)

    def words(self, known: Callable[[str], bool], program: Callable[[str], bool], rare: Callable[[str], bool]) -> None:
        """Paths and names by their form, and words by their neighbours."""
        words = list(_WORD.finditer(self._text))
        for at, found in enumerate(words):
            word = found.group().rstrip(".:").lstrip("[{")
            start = found.start() + found.group().index(word) if word else found.start()
            before = words[at - 1].group().lower() if at else ""
            after = words[at + 1].group().lower().rstrip(".:") if at + 1 < len(words) else ""
            letters = word.lower()
            if letters.lstrip(".") in NO_NAMES or letters in SPOKEN or (word.isupper() and letters in STOP_WORDS):
                continue
            parts = letters.split("-")
            is_word = all(part.isalpha() for part in parts) and len(letters) > 1
            # "side-by-side" is a word, and "fix-login" may be one.
            means = is_word and (known(letters) or (len(parts) > 1 and not STOP_WORDS.isdisjoint(parts)))
            kinds, weight = ({}, 0.0) if means and word == letters else _kinds(word)
            if len(parts) > 1 and is_word and all(map(known, parts)):
                weight = min(weight, 0.25)
            likely = bool(kinds) or not means
            may_be = likely or program(letters) or (before in OBJECTS and rare(letters))
            beside = _beside(letters, before, after if at and likely else "", may_be)
            if before in ("called", "named") and at > 1 and words[at - 2].group().lower() in WORDS:
                noun = words[at - 2].group().lower()
                beside[WORDS[noun] or noun] = 1.1
            if is_word and likely and not kinds and after in ("file", "files") and letters not in STOP_WORDS:
                values = {"glob": glob_value(f"*.{letters}", word), "ext": constant(word, letters)}
                self._take(start, start + len(word), {"ext": 0.8, "glob": 0.9}, 0.4, values)
                continue
            if not kinds and is_word and (beside or (likely and letters not in STOP_WORDS)):
                kinds = dict.fromkeys(ANY_NAME, 0.6) | {"folder": 0.45, "path": 0.4, "file": 0.3}
                weight = 0.5 if beside else 0.25
            if kinds:
                surer = {kind: max(share, kinds.get(kind, 0.0) + 0.2) for kind, share in beside.items()}
                self._take(start, start + len(word), {**kinds, **surer}, weight)

    def numbers(self) -> None:
        """Versions and numbers without a unit."""
        for one in _VERSION.finditer(self._text):
            kinds = {"version": 1.0, "tag": 0.8, "name": 0.3, "value": 0.4, "word": 0.3, "pattern": 0.3}
            self._take(*one.span(), kinds, 0.9)
        for one in _NUMBER.finditer(self._text):
            said, digits = one.group().lower(), str(_number(one.group()))
            kinds = {"count": 1.0, "number": 1.0, "line": 0.7, "column": 0.5, "value": 0.5, "seconds": 0.4}
            kinds |= {"word": 0.3, "pattern": 0.3, "name": 0.2, "version": 0.3, "tag": 0.2, "port": 0.5, "pid": 0.5}
            if said.isdigit():
                kinds |= _number_kinds(digits)
            before = self._text[: one.start()].lower()
            kinds |= {kind: 1.2 for kind, words in _NUMBER_AFTER if re.search(words, before)}
            weight = 1.0 if len(digits) > 2 else 0.7 if said.isdigit() else 0.1 if said == "one" else 0.5
            self._take(*one.span(), kinds, weight, dict.fromkeys(_NUMBERS, constant(one.group(), digits)))


def _number_kinds(digits: str) -> dict[str, float]:
    """Types of a number that depend on how long it is."""
    kinds = {
        "port": 0.9 if len(digits) > 3 else 0.6 if len(digits) > 1 else 0.1,
        "pid": 0.8 if len(digits) > 2 else 0.2,
    }
    if re.fullmatch(r"[0-7]{3,4}", digits):
        kinds["mode"] = 0.9
    if len(digits) > 3:
        kinds |= {"count": 0.8, "number": 0.8}
    return kinds


def _beside(word: str, before: str, after: str, likely: bool) -> dict[str, float]:
    """The types that a word gets from its neighbours. `likely`: whether it may be a name without them."""
    if word in WORDS or word in _LINKS or (word in STOP_WORDS and before not in _SAYS):
        return {}
    found: dict[str, float] = {}
    for neighbour, share in ((after, 0.9), (before, 1.0)):
        if neighbour in WORDS and (likely or neighbour in _CALLED):
            found[WORDS[neighbour] or neighbour] = share
    if likely and before in VERBS and after not in WORDS:
        found.setdefault(VERBS[before], 0.7)
    for kind, same in (("word", "pattern"), ("process", "command"), ("host", "domain"), ("file", "script")):
        if kind in found:
            found[same] = found[kind]
    return found


def _kinds(word: str) -> tuple[dict[str, float], float]:
    """Types of a word by its form, and its weight; none if it looks like an ordinary word."""
    if not word or word.lower() in ("and/or", "i/o", "e.g", "i.e", "tcp/ip", "etc", "vs"):
        return {}, 0.0
    ending = _FILE_ENDING.search(word)
    names = dict.fromkeys(ANY_NAME, 0.5)
    if word.startswith("/dev/"):
        return {**dict.fromkeys(("device", "disk"), 1.1), "path": 0.6, "file": 0.5, "folder": 0.3}, 1.0
    if ending and not _VERSION.fullmatch(word):
        kinds = {**names, **dict.fromkeys(_FILES, 1.0), "folder": 0.4, "directory": 0.4, "glob": 0.3, "service": 0.5}
        if ending.group() in (".service", ".timer", ".socket"):
            kinds |= {"service": 1.2}
        if re.search(r"\.(?:zip|7z|rar|gz|tgz|xz|bz2|zst|tar|jar)$", ending.group()):
            kinds |= {"archive": 1.1}
        elif "archive" in kinds:
            kinds["archive"] = 0.4
        return kinds, 1.0
    if _PATH.fullmatch(word):
        local = word[0] in "/~."
        kinds = {**(names if not local else {}), **dict.fromkeys(_FOLDERS, 1.0), "file": 0.8, "script": 0.7}
        if not local:
            kinds |= {"branch": 0.9, "image": 0.8, "repo": 0.5, "folder": 0.9}
        else:
            kinds |= {"pattern": 0.2, "word": 0.2, "value": 0.4, "command": 0.5, "archive": 0.3}
        return kinds, 1.0
    if _DOTFILE.fullmatch(word):
        return {**dict.fromkeys(_FILES, 0.9), "folder": 0.6, "name": 0.5}, 0.9
    if _VERSION.fullmatch(word) or word.isdigit():
        return {}, 0.0
    if _HEX.fullmatch(word):
        return {**names, "commit": 1.1, "container": 0.8, "branch": 0.5}, 1.0
    if _NAME_LIKE.fullmatch(word) and re.search(r"[A-Za-z]", word):
        kinds = {**dict.fromkeys(ANY_NAME, 0.7), "folder": 0.7, "path": 0.6, "file": 0.5, "directory": 0.7}
        if _UPPER.fullmatch(word):
            kinds |= {"variable": 0.9, "pattern": 0.8, "word": 0.8}
        if ":" in word:
            kinds |= {"image": 1.0, "repo": 0.6}
        elif "." in word:
            kinds |= {"file": 0.8}
        return kinds, 0.9 if re.search(r"[\d_]|[a-z][A-Z]", word) else 0.6
    return {}, 0.0


def _number(said: str) -> int:
    said = said.lower()
    return SPOKEN.index(said) if said in SPOKEN else int(said)


def cues(words: Iterable[str]) -> frozenset[str]:
    """Words before a name, grouped by meaning for comparison."""
    return frozenset(_CUES.get(word, word) for word in words)


_CUES = {
    **dict.fromkeys(("into", "onto", "as", "called", "named", "with"), "to"),
    **dict.fromkeys(("inside", "under", "below", "within", "on"), "in"),
    **dict.fromkeys(("of", "out"), "from"),
    **dict.fromkeys(("folder", "directory", "dir"), "folder"),
}
