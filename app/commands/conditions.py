"""Finds conditions of a question that a risky command ignores: "delete *.log files older than a month" is more than
`find . -mtime +30 -delete` says.

The rules know English. A condition counts as met if the command says anything of its kind: a wrong size is not
reported, a missing one is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.commands.risk import Kind, Risk, Severity
from app.commands.script import name_set

BROAD = "ignores a condition of your question: {}"
LONGEST = 1_000
"""Characters of a question that are read. Conditions come first; what follows is a file or a log."""
KINDS = frozenset({Kind.DELETES, Kind.OVERWRITES, Kind.REWRITES, Kind.SHUTS_DOWN, Kind.RIGHTS, Kind.ROOT})
"""The kinds of risk for which it matters how much a command does."""

_NUMBERS = {"a": "1", "an": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "ten": "10"}
_DAYS = {"week": 7, "month": 30, "year": 365}
_UNITS = r"(?:minute|hour|day|week|month|year)s?"
_FILES = r"(?:files?|images?|photos?|pictures?|videos?|archives?|scripts?|documents?)"
_FOLDERS = r"(?:sub)?(?:folders?|director(?:y|ies))"
_WITHIN = "in|into|under|below|beneath|inside|within|from|of"
_IN = rf"\b(?:{_WITHIN})"
_TYPES = (
    "avi|bak|conf|cpp|css|csv|db|docx?|flac|gif|go|html?|ini|iso|java|jpe?g|js|json|log|md|mkv|mov|mp3|mp4|pdf|php|pl|png"
    "|py|rb|rs|sql|svg|tar|tmp|toml|ts|txt|wav|xlsx?|xml|ya?ml|zip"
)
"""Endings of names that people write without a dot: "all jpg files"."""
_NO_NAMES = name_set(
    "a all an and any anything each everything file files folder folders first here him his home in it its last latest"
    " me mine my newest nobody none of one ones oldest our parent root same some that the their them these they this"
    " those user what which who you your"
)
_TAKEN_BACK = re.compile(r"\b(?:not (?:only|just)|even|including|regardless|ignor\w+|no matter)\b[^.;,]{0,40}$", re.I)
"""Words that negate the condition after them."""


class _Rule(NamedTuple):
    said: re.Pattern[str]
    """How a question says it. The group, if there is one, is the name that a command has to have; else a number will
    do."""
    options: re.Pattern[str] | None = None
    """Other parts of a command that set a condition of this kind."""


def _rule(said: str, options: str | None = None) -> _Rule:
    return _Rule(re.compile(said, re.IGNORECASE), None if options is None else re.compile(options, re.IGNORECASE))


_RULES = (
    _rule(r"(?<![\w./~-])\*?\.([a-z]\w{0,9})(?![\w./])", "-regex"),
    _rule(rf"(?<![\w.])({_TYPES}) files\b", "-regex"),
    _rule(r"(?<![\w./~'*@:=-])(\w[\w-]*(?:_|\.[a-z])[\w.-]*\w)(?![\w/*:@=(]|\.\w)"),
    _rule(r"\b(?:end|start|begin)(?:s|ing)? (?:in|with) ([\w.~-]*\w|~)(?![\w*])", r"-regex|\^|\$|~"),
    _rule(
        rf"\b(?:older|newer|younger|more|less|earlier|later) than (?:\d+|{'|'.join(_NUMBERS)})[ -]{_UNITS}\b"
        rf"|\b(?:{_WITHIN}|for|during|over) the (?:last|past) (?:\d+ )?{_UNITS}\b"
        r"|\b\d+ (?:day|week|month|year)s\b",
        r"-[acmB](?:time|min)\b|-newer|vacuum-time|--keep-|changed-|-older-than"
        r"|\b(?:older|since|until|before|after|within|expires?|retention|ago|date|days?|weeks?|hours?)\b",
    ),
    _rule(
        r"\b(?:larger|bigger|smaller|greater|more|less|over|above|exceed(?:s|ing)?) (?:than )?"
        r"\d+(?:\.\d+)? ?(?:bytes?|[kmgt]i?b?|(?:kilo|mega|giga|tera)bytes?)\b",
        r"size|\$5|length|-S\b|limit|bytes",
    ),
    _rule(
        rf"(?<=\w )empty (?:{_FILES}|{_FOLDERS})\b"
        rf"|(?<!of )\b(?:zero[- ]bytes?|contain(?:s|ing)? nothing|without (?:any )?{_FILES})\b",
        r"empty|rmdir|-size|-s\b|wc|find -c",
    ),
    _rule(r"\b(?:owned by|belong(?:s|ing)? to|of user) (?:the )?(?:user |group )?([a-z_][\w-]*)\b"),
    _rule(rf"{_IN} (?:the )?((?:~|\.\.?)?(?:/[\w.+@-]*\w)+)/?(?![\w:/*])", r"\bcd\b"),
    _rule(rf"{_IN} (?:the |my )?(?:folder|directory) ([\w.-]*\w)\b", r"\bcd\b"),
    _rule(rf"{_IN} (?:the |my )(?!current|working)([\w.-]*\w) (?:folder|directory)\b", r"\bcd\b"),
    _rule(
        r"\b(?:except|excluding|other than|apart from|but not(?= \S*[\d._*/-]\S*\w)) (?:for )?(?:the )?"
        r"(?:(?:files?|folder|branch) )?(?:(?:called|named|in) )?([\w*./~-]*\w)",
        r"!|-not\b|-v\b|-prune\b|exclude|ignore|invert|except|keep",
    ),
)


def left_out(question: str, command: str, found: Sequence[Risk]) -> tuple[Risk, ...]:
    """A warning if a question sets conditions that a command leaves out, and the command can do harm.

    Only the first paragraph of the question counts. `command`: all commands of the answer. `found`: their risks, or
    those of one block; the warning has the span of the first one that matters.
    """
    harmful = next((risk for risk in found if risk.kind in KINDS), None)
    if harmful is None:
        return ()
    paragraph = re.split(r"```|\n\s*\n", question[:LONGEST], maxsplit=1)[0]
    words = tuple(dict.fromkeys(_missing(paragraph, command)))
    if not words:
        return ()
    sentence = BROAD.format(", ".join(f"`{word}`" for word in words))
    return (Risk(Kind.BROAD, Severity.WARNING, words, sentence, harmful.span),)


def _missing(question: str, command: str) -> Iterator[str]:
    """The conditions of a question that nothing in a command meets, as the question says them."""
    for rule in _RULES:
        for said in rule.said.finditer(question):
            name = said[1] if rule.said.groups else None
            if (name or "").lower() in _NO_NAMES or _TAKEN_BACK.search(question[: said.start()]):
                continue
            met = _has_number(command, said[0]) if name is None else _has(command, name)
            if not met and (rule.options is None or not rule.options.search(command)):
                yield " ".join(said[0].split())


def _has(command: str, name: str) -> bool:
    """Whether a command has a name: `log` in `*.log`, `{log,txt}` and `\\.log$`, not in `login`. Of a path, its end."""
    before, name = (r"\w.*", name.rpartition("/")[2]) if "/" in name else ("A-Za-z0-9", name.strip("*."))
    return re.search(rf"(?<![{before}]){re.escape(name)}(?![A-Za-z0-9])", command, re.IGNORECASE) is not None


def _has_number(command: str, said: str) -> bool:
    """Whether a command has the number of a condition, in figures; of an age, perhaps in days."""
    words = said.lower().split()
    numbers = [
        int(number) for number in re.findall(r"\d+", said) or [_NUMBERS[word] for word in words if word in _NUMBERS]
    ]
    days = next((days for unit, days in _DAYS.items() if words[-1].startswith(unit)), 1)
    return any(str(number * factor) in command for number in numbers for factor in {1, days})
