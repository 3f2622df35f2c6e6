"""Draw conversations from intents: how it is asked, what is answered, what follows."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recipes.shell_guide import phrasing
from recipes.shell_guide.grammar.intents import Asked, Intent
from recipes.shell_guide.grammar.phrases import Phrase
from recipes.shell_guide.grammar.values import Slot, Value

ENDING_SHARE = 0.15
"""Share of questions that ask for an ending in the same breath, where one fits."""
FOLLOW_SHARE = 0.3
"""Share of conversations with a follow-up question."""

_SAID = re.compile(r"\{([a-z_]+\d*)\}")


@dataclass(frozen=True)
class Spoken:
    """A question, and what answers it."""

    question: str
    programs: tuple[str, ...]
    task: str
    command: str

    @property
    def answer(self) -> str:
        """The answer in the one form that all answers have."""
        return phrasing.answer("` and `".join(self.programs[:2]), self.task, self.command)


@dataclass(frozen=True)
class Ending:
    """What may follow any command that prints."""

    on: tuple[str, ...]
    also: tuple[Phrase, ...]
    after: tuple[Asked, ...]
    task: Phrase
    add: str
    slots: Mapping[str, Slot]


def read_endings(path: Path = Path(__file__).with_name("endings.toml")) -> list[Ending]:
    """The endings."""
    endings = []
    for raw in tomllib.loads(path.read_text(encoding="utf-8"))["ending"]:
        task = Phrase.read(raw["task"])
        also = tuple(map(Phrase.read, raw["also"]))
        after = tuple(Asked(Phrase.read(text), False) for text in raw["after"])
        slots = {name: Slot.read(name, {}) for name in task.slots()}
        endings.append(Ending(tuple(raw["on"]), also, after, task, raw["add"], slots))
    return endings


class Drawer:
    """Turns intents into conversations. What it draws depends on the generator that is passed in, and on nothing else."""

    def __init__(self) -> None:
        self._endings = read_endings()

    def conversation(self, intent: Intent, rng: np.random.Generator, *, follow: float = FOLLOW_SHARE) -> list[Spoken]:
        """One question, and perhaps a follow-up: of the intent itself, an ending, or for a Mac."""
        asked = intent.asks[int(rng.integers(len(intent.asks)))]
        pattern, named = asked.phrase.draw(rng)
        values = intent.values(sorted(named), rng, {})
        question, task = _say(pattern, values), intent.told(values)
        command, ending = intent.typed(intent.command, values), None
        question = frame(question, rng) if asked.framed and question.split(maxsplit=1)[0] in VERBS else question
        fitting = [one for one in self._endings if intent.output in one.on] if _may_end(command) else []
        if fitting and rng.random() < ENDING_SHARE:
            ending = fitting[int(rng.integers(len(fitting)))]
            said, task, command = self._end(
                ending, ending.also[int(rng.integers(len(ending.also)))], task, command, rng
            )
            question = f"{question}{', ' if rng.random() < 0.4 else ' '}{said}"
        turns = [Spoken(_surface(question, rng), _programs(intent, ending), task, command)]
        if rng.random() < follow:
            turns += self._follow_up(intent, values, turns[0], fitting if ending is None else [], rng)
        return turns

    def _follow_up(
        self,
        intent: Intent,
        values: Mapping[str, Value],
        first: Spoken,
        fitting: list[Ending],
        rng: np.random.Generator,
    ) -> list[Spoken]:
        ways = ["then"] * (2 * bool(intent.thens)) + ["ending"] * bool(fitting)
        ways += ["macos"] * bool(intent.macos and intent.macos != intent.command)
        ways += ["again"] * bool(values)
        if not ways:
            return []
        way = ways[int(rng.integers(len(ways)))]
        if way == "then":
            then = intent.thens[int(rng.integers(len(intent.thens)))]
            asked = then.asks[int(rng.integers(len(then.asks)))]
            pattern, named = asked.phrase.draw(rng)
            both = then.values(sorted(named), rng, values)
            return [
                Spoken(
                    _surface(_say(pattern, both), rng), then.programs, then.told(both), then.typed(then.command, both)
                )
            ]
        if way == "ending":
            ending = fitting[int(rng.integers(len(fitting)))]
            said, task, command = self._end(
                ending, ending.after[int(rng.integers(len(ending.after)))].phrase, first.task, first.command, rng
            )
            return [Spoken(_surface(said, rng), _programs(intent, ending), task, command)]
        if way == "macos":
            assert intent.macos is not None
            asked_mac = str(rng.choice(_MAC))
            return [
                Spoken(
                    _surface(asked_mac, rng),
                    intent.programs,
                    f"{first.task} on macOS",
                    intent.typed(intent.macos, values),
                )
            ]
        return self._again(intent, values, rng)

    def _again(self, intent: Intent, values: Mapping[str, Value], rng: np.random.Generator) -> list[Spoken]:
        """The question again for another value of one slot: "and for notes.txt?"."""
        name = sorted(values)[int(rng.integers(len(values)))]
        others = {slot: value for slot, value in values.items() if slot != name}
        if name in intent.increasing or intent.slots[name].choices:
            return []
        both = {**others, name: intent.slots[name].draw(rng)}
        said = str(rng.choice(_OTHER)).format(both[name].said)
        return [Spoken(_surface(said, rng), intent.programs, intent.told(both), intent.typed(intent.command, both))]

    def _end(
        self, ending: Ending, phrase: Phrase, task: str, command: str, rng: np.random.Generator
    ) -> tuple[str, str, str]:
        pattern, named = phrase.draw(rng)
        values = {name: ending.slots[name].draw(rng) for name in sorted(named)}
        typed = re.sub(_SAID, lambda found: values[found[1]].forms[""], ending.add)
        return _say(pattern, values), f"{task} and {_say(ending.task.told(named), values)}", f"{command} {typed}"


_MAC = (
    "that doesn't work on macOS", "how do i do that on a mac", "and on macos", "on my mac", "i'm on a mac", "same thing for mac", "macOS says illegal option",
    "what about mac os", "does that work on macos", "it fails on my macbook", "the mac version please",
)  # fmt: skip
_OTHER = (
    "and for {}",
    "what about {}",
    "and {}",
    "the same for {}",
    "now for {}",
    "do it for {} instead",
    "i meant {}",
    "sorry, {}",
    "now {}",
    "with {} instead",
)


def _programs(intent: Intent, ending: Ending | None) -> tuple[str, ...]:
    if ending is None or not ending.add.startswith("| "):
        return intent.programs
    added = ending.add.split()[1]
    return intent.programs if added in intent.programs else (intent.programs[0], added)


def _may_end(command: str) -> bool:
    """True if `| head` can follow: one simple command or a pipeline, and no redirection."""
    return not re.search(r">|<<|\n|&&|;|\bdone\b", command)


def _say(pattern: str, values: Mapping[str, Value]) -> str:
    return _SAID.sub(lambda found: values[found[1]].said, pattern)


_FRAMES = (
    ("{}", 22), ("how do i {}", 10), ("how to {}", 9), ("how can i {}", 4), ("i want to {}", 3), ("i need to {}", 2), ("command to {}", 3), ("please {}", 2),
    ("can you {}", 1.5), ("what's the command to {}", 2), ("how would i {}", 1), ("what's the (best|easiest) way to {}", 1), ("help me {}", 1), ("i'd like to {}", 1),
    ("is there a way to {}", 1), ("show me how to {}", 1), ("{} please", 1), ("{} pls", 0.7), ("trying to {}", 0.7), ("hey, {}", 0.4), ("could you {}", 0.7),
    ("quickest way to {}", 0.5), ("how does one {}", 0.3), ("need to {}", 0.8), ("what do i type to {}", 0.6), ("tell me how to {}", 0.5), ("{}, how?", 0.4), ("let's {}", 0.3), ("i have to {}", 0.5),
)  # fmt: skip
_FRAME_TEXTS = [Phrase.read(text.replace("{}", r"\{\}")) for text, _ in _FRAMES]
_FRAME_WEIGHTS = np.cumsum([weight for _, weight in _FRAMES]) / sum(weight for _, weight in _FRAMES)


def frame(question: str, rng: np.random.Generator) -> str:
    """Put an imperative into a sentence as people ask: `find files` -> `how do i find files`."""
    at = int(np.searchsorted(_FRAME_WEIGHTS, rng.random()))
    text, _ = _FRAME_TEXTS[at].draw(rng)
    return text.replace("{}", question)


VERBS = frozenset(
    """
    abort accept access activate add adjust allow amend analyse analyze annotate append apply archive ask assign attach authenticate automate back backup ban begin
    benchmark bind bisect block blame boot break bring browse build bump burn calculate call cancel capitalize change check checkout cherry-pick choose clean clear
    clone close collect colour color combine commit compare compile compress compute concatenate configure confirm connect continue convert copy correct count create crop
    cut date deactivate debug decode decompress decrease decrypt define delete deploy detach detect determine diff disable discard disconnect discover display
    divide do double download draw drop duplicate dump edit eject empty enable encode encrypt end enter erase escape estimate examine exclude execute exit expand explain export
    expose extend extract factor fetch figure filter find finish fix flatten flip flush follow force forget fork format forward free freeze generate get give go grab grant
    grep group halt hash have hide highlight identify ignore import include increase indent init initialise initialize insert inspect install interrupt invert invoke
    join jump keep kill label launch leave let lint list listen load locate lock log login look lookup loop lowercase make mark match measure merge migrate
    minify mirror mix modify monitor mount move mute name navigate note number open optimise optimize order output overwrite pack package pad page partition paste patch
    pause peek permit pick ping pipe play point pop post prefix prepare preserve press prevent preview print probe produce profile promote protect prune publish pull
    purge push put query quit rank read reapply rebase reboot rebuild receive recompress record recover recreate redirect redo reduce refresh regenerate register reload rename remove
    render reorder repair repeat replace replay report request reset resize resolve restart restore restrict resume retrieve retry return reveal reverse revert review
    revoke rewind rewrite rotate round run sample save scale scan schedule scroll search see select send separate serve set share shorten show shred shrink shuffle shut
    sign silence simulate skip sleep slice sort speed spell split squash squeeze stage start stash stop store stream strip sum summarise summarize suppress suspend swap
    switch sync synchronise synchronize tag tail take talk tally tar tell terminate test time toggle touch trace track transfer transform translate transpose trigger trim truncate turn
    unban unblock uncompress uncover undelete undo uninstall unlock unmount unmute unpack unset unstage untar untrack unzip update upgrade upload uppercase use validate verify
    view visit wait wake walk warn watch wipe wrap write zip zoom
    """.split()
)
"""Verbs that may begin an imperative. Only after one of them makes "how do i" a sentence."""


def _surface(question: str, rng: np.random.Generator) -> str:
    """Vary case, question mark and slips, but never inside a word that must be copied."""
    words = question.split(" ")
    if rng.random() < 0.08:
        plain = [
            at
            for at, one in enumerate(words)
            if one.isalpha() and one.islower() and 4 < len(one) < 12 and one in _COMMON
        ]
        if plain:
            at = plain[int(rng.integers(len(plain)))]
            words[at] = phrasing.typo(words[at], rng)
    first = words[0]
    if rng.random() < 0.3 and first.isalpha() and first in _COMMON:
        words[0] = first.capitalize()
    question = " ".join(words)
    asks = re.match(r"(how|what|which|where|can|could|is|are|why|who|does|do)\b", question, re.IGNORECASE)
    draw = rng.random()
    return question + "?" if draw < (0.55 if asks else 0.04) else question + "." if draw > 0.97 else question


_COMMON = frozenset(
    """
    about after all alphabetical amount and any are archive available before below between branch can change check column combine command compare compress content
    convert copy could count create current date delete directories directory display does download duplicate each empty every extract file files find first folder
    folders from get give group have help how including inside install into keep kill last latest length limit line lines list long longest look machine make many
    merge message modified month move names need network newest number numbers oldest only open output over package page password permissions please print process
    processes program put quickest read recent recursively remote remove rename replace restart reverse run running save search send server service show single size
    sort space start status stop subfolders system tell text than that their them there these they this those through today together total turn types under undo
    unique unpack until update upload user users using view want watch week what when where which whole with without word words work write yesterday
    """.split()
)
"""Words that may be misspelt: they are never a value."""
