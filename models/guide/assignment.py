"""Puts what a question names into an example, which is then nearly the answer.

    example:   cp: copy file.txt to folder => cp file.txt folder/
    question:  cp invoice-0417.pdf into ~/taxes
    filled:    cp: copy invoice-0417.pdf to ~/taxes => cp invoice-0417.pdf ~/taxes/

Each slot takes the thing whose type, place and neighbour fit best, all slots together (`models/guide/mentions.py`). A
slot that nothing fits keeps its placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from models.guide.mentions import Named, cues
from models.guide.outline import Slot, put, slots

LEAST = 0.4
"""The least fit between a thing and a slot."""
SAME_CUE, IN_ORDER, SAME_ENDING = 0.3, 0.1, 0.3
"""Added for the same kind of word before both, for things in the order of their slots, and for a file with the
example's ending."""
EARLIER = 0.35
"""Subtracted for a thing of an earlier question."""
MOST = 8
"""Most things and slots that are considered."""
_QUOTES = re.compile(r"['\"`\\$]")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.", re.S)


@dataclass(frozen=True)
class Filled:
    """An example filled with what a question names."""

    task: str
    command: str
    used: float
    """Weight of the things that found a place, as a share of all that the question names, or of 1 if that is less."""
    empty: int
    """Slots that nothing fits and that have no default."""


def fill(task: str, command: str, things: Sequence[Named], before: Sequence[Named] = ()) -> Filled:
    """Fill an example's task and command, as in the index, with these things; `before`: those of earlier questions."""
    places, fixed = _places(task, command)
    there = [thing for thing in things if thing.text.lower() in fixed]
    new = [thing for thing in things if thing not in there][:MOST]
    options = [*new, *before[:MOST]]
    fits = [[_fit(place, thing, at >= len(new)) for at, thing in enumerate(options)] for place in places]
    chosen = _best(places, options, fits)
    values = {place.slot.name: options[at] for place, at in zip(places, chosen) if at is not None}

    tails = {place.slot.name: place.tail for place in places}

    def said(slot: Slot) -> str | None:
        thing = values.get(slot.name)
        return None if thing is None else thing.value(slot.type).said

    def typed(slot: Slot) -> str | None:
        thing = values.get(slot.name)
        return None if thing is None else thing.without(tails[slot.name]).value(slot.type).typed(slot.form)

    total = sum(thing.weight for thing in things)
    used = sum(thing.weight for thing in things if any(thing is one for one in (*there, *values.values())))
    empty = sum(place.slot.name not in values and not place.slot.optional for place in places)
    return Filled(put(task, said), put(command, typed), used / max(total, 1.0), empty)


@dataclass(frozen=True)
class _Place:
    """A slot and its surroundings."""

    slot: Slot
    cues: frozenset[str]
    forms: frozenset[str]
    """All forms that the command types it in."""
    inside: frozenset[str]
    """Those of these forms that the command may have in quotes of its own."""
    tail: str
    """The ending that the command adds to it, such as `.gz`, or an empty string."""


@lru_cache(maxsize=4_000)
def _places(task: str, command: str) -> tuple[tuple[_Place, ...], frozenset[str]]:
    """The slots of an example, each once, in the order of task and command, with the neighbouring words."""
    found: dict[str, tuple[Slot, list[str]]] = {}
    forms: dict[str, set[str]] = {}
    inside: dict[str, set[str]] = {}
    tails: dict[str, set[str]] = {}
    for text in (task, command):
        for slot, at in slots(text):
            words = re.findall(r"[a-z]+(?=\W*$)", text[:at].lower()) if text is task else []
            found.setdefault(slot.name, (slot, []))[1].extend(words)
            if text is command:
                forms.setdefault(slot.name, set()).add(slot.form)
                if slot.form == "raw" or _in_quotes(text[:at]):
                    inside.setdefault(slot.name, set()).add(slot.form)
                tail = re.match(r"(?:\.[A-Za-z]\w{0,4}){1,2}(?![\w.*])", text[at + len(str(slot)) :])
                tails.setdefault(slot.name, set()).add(tail.group() if tail else "")
    places = (
        _Place(
            slot,
            cues(words),
            frozenset(forms.get(name, {""})),
            frozenset(inside.get(name, ())),
            min(tails.get(name, {""})),
        )
        for name, (slot, words) in found.items()
    )
    fixed = put(f"{task} {command}", lambda _: " ").lower()
    return tuple(places)[:MOST], frozenset(re.findall(r"[^\s'\"`(){}]+", fixed))


def _in_quotes(command: str) -> bool:
    """Whether the beginning of a command ends within quotes."""
    quotes = _QUOTED.sub("", command)
    return "'" in quotes or '"' in quotes


def _fit(place: _Place, thing: Named, earlier: bool) -> float:
    """How well a thing fits a slot, from 0 for not at all."""
    slot = place.slot
    share = thing.kinds.get(slot.type, 0.0)
    if share < LEAST:
        return 0.0
    value = thing.value(slot.type)
    typed = {form: value.typed(form) for form in place.forms}
    if None in typed.values():
        return 0.0
    if any(_QUOTES.search(typed[form] or "") for form in place.inside):
        return 0.0
    if thing.before and cues([thing.before]) & place.cues:
        share += SAME_CUE
    if place.tail and re.search(r"\.[A-Za-z]\w{0,4}$", thing.text) and not thing.text.endswith(place.tail):
        return 0.0
    ending = re.search(r"\.\w+(?:\.\w+)?$", slot.placeholder)
    if ending and slot.type in ("file", "archive", "input", "output", "script"):
        share += SAME_ENDING if thing.text.lower().endswith(ending.group()) else -SAME_ENDING / 3
    return share - EARLIER * earlier


def _best(places: Sequence[_Place], things: Sequence[Named], fits: Sequence[Sequence[float]]) -> list[int | None]:
    """For each slot, the thing that it takes, so that the total fit is best."""
    best: tuple[float, list[int | None]] = (-1.0, [])

    def search(at: int, taken: list[int | None], score: float) -> None:
        nonlocal best
        if at == len(places):
            if score > best[0] + 1e-9:
                best = score, list(taken)
            return
        if score + sum(max(fits[rest], default=0.0) + IN_ORDER for rest in range(at, len(places))) <= best[0]:
            return
        last = max((one for one in taken if one is not None), default=-1)
        for option in sorted(range(len(things)), key=lambda one: -fits[at][one]):
            if fits[at][option] > 0 and option not in taken:
                search(at + 1, [*taken, option], score + fits[at][option] + IN_ORDER * (option > last))
        search(at + 1, [*taken, None], score)

    search(0, [], 0.0)
    return best[1]
