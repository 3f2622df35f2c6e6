"""Questions as people ask them: a tldr task in many wordings, synonyms and typos; and the one form of the answers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from models.guide.flags import Flag, flags_of
from recipes.shell_guide.pages import Example, Page

_WITH_SUBCOMMANDS = frozenset({"docker", "git", "ip", "kubectl", "npm", "openssl", "pip", "systemctl", "tmux"})

SYNONYMS: dict[str, tuple[str, ...]] = {
    "extract": ("unpack", "untar", "unzip", "uncompress", "open"),
    "unpack": ("extract", "open", "uncompress"),
    "compress": ("zip", "pack", "shrink"),
    "directory": ("folder", "dir"),
    "directories": ("folders", "dirs"),
    "folder": ("directory", "dir"),
    "folders": ("directories",),
    "show": ("list", "print", "see", "display", "view", "get"),
    "display": ("show", "print", "see", "view"),
    "print": ("show", "display", "output"),
    "list": ("show", "see", "print", "get", "display"),
    "see": ("show", "view", "check", "list"),
    "check": ("see", "find out", "test", "look at"),
    "remove": ("delete", "get rid of", "erase"),
    "delete": ("remove", "get rid of", "erase"),
    "create": ("make", "add", "set up"),
    "make": ("create",),
    "find": ("search for", "locate", "look for"),
    "search": ("look", "grep", "find"),
    "change": ("modify", "set", "edit", "switch"),
    "copy": ("duplicate",),
    "rename": ("change the name of",),
    "run": ("execute", "start", "launch"),
    "execute": ("run", "launch"),
    "start": ("launch", "run", "begin"),
    "stop": ("halt", "end", "kill"),
    "kill": ("stop", "terminate", "end"),
    "download": ("fetch", "get", "grab"),
    "install": ("add", "set up", "get"),
    "uninstall": ("remove", "delete"),
    "update": ("refresh", "upgrade"),
    "upgrade": ("update",),
    "open": ("launch", "view"),
    "biggest": ("largest",),
    "largest": ("biggest",),
    "size": ("sizes",),
    "current": ("present", "this"),
    "file": ("files",),
    "computer": ("machine", "pc", "box"),
    "convert": ("turn", "transform", "change"),
    "specific": ("given", "certain", "particular"),
    "specified": ("given", "specific"),
    "all": ("every", "all the"),
    "without": ("w/o",),
    "archive": ("archive file",),
    "recursively": ("including subfolders", "with everything inside"),
}
_FRAMES = (
    ("how do i {}?", 10),
    ("how to {}", 8),
    ("{}", 10),
    ("how can i {}?", 3),
    ("i want to {}", 2),
    ("command to {}", 3),
    ("what's the command to {}?", 2),
    ("how would i {}?", 1),
    ("i need to {}", 1),
    ("please {}", 0.5),
    ("can you show me how to {}", 0.5),
    ("what command lets me {}?", 0.5),
    ("best way to {}", 0.5),
)
_FRAME_TEXTS = [text for text, _ in _FRAMES]
_FRAME_WEIGHTS = np.array([weight for _, weight in _FRAMES])
_FRAME_WEIGHTS /= _FRAME_WEIGHTS.sum()
_STOP_WORDS = frozenset(
    [
        *(
            "a",
            "an",
            "the",
            "of",
            "to",
            "in",
            "on",
            "for",
            "with",
            "and",
            "or",
            "from",
            "by",
            "at",
            "into",
            "its",
            "their",
        ),
        *("this", "that", "it", "is", "as", "using", "use", "given", "specific", "specified"),
    ]
)


def synonyms(text: str, rng: np.random.Generator, chance: float) -> str:
    """Replace each word that has synonyms with probability `chance`. Slots such as `{file}` stay."""

    def swap(match: re.Match[str]) -> str:
        options = SYNONYMS.get(match.group(0).lower())
        return str(rng.choice(options)) if options and rng.random() < chance else match.group(0)

    return re.sub(r"\{[^{}]*\}|[A-Za-z]+", swap, text)


def typo(text: str, rng: np.random.Generator) -> str:
    """Make one slip in one word of five letters or more: two letters swapped, one lost or one doubled."""
    words = text.split(" ")
    long_words = [i for i, word in enumerate(words) if len(word) >= 5 and word.isalpha()]
    if not long_words:
        return text
    i = int(rng.choice(long_words))
    word, at = words[i], int(rng.integers(1, len(words[i]) - 2))
    slip = rng.integers(3)
    words[i] = (
        word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        if slip == 0
        else word[:at] + word[at + 1 :]
        if slip == 1
        else word[:at] + word[at] + word[at:]
    )
    return " ".join(words)


def surface(question: str, rng: np.random.Generator) -> str:
    """Vary case, question mark and typos as on a keyboard."""
    if rng.random() < 0.06:
        question = typo(question, rng)
    if rng.random() < 0.35:
        question = question[:1].upper() + question[1:]
    elif rng.random() < 0.5:
        question = question[:1].lower() + question[1:]
    draw = rng.random()
    if draw < 0.25:
        question = question.rstrip("?")
    elif draw < 0.4 and re.match(r"(how|what|which|where|can|is|why)\b", question, re.I):
        question = question.rstrip("?") + "?"
    return question


def keywords(text: str) -> str:
    """Keep the important words: `list all files in a directory` -> `list all files directory`."""
    return " ".join(word for word in text.split() if word.lower() not in _STOP_WORDS)


def ask(page: Page, example: Example, rng: np.random.Generator, name_chance: float) -> str:
    """Ask one question for a page's example. It contains the command's name with probability `name_chance`."""
    task = synonyms(example.task, rng, 0.15)
    if rng.random() < 0.15:
        task = keywords(task)
        if rng.random() < name_chance:
            return surface(f"{page.name} {task}" if rng.random() < 0.7 else f"{task} {page.name}", rng)
        return surface(task, rng)
    frame = str(rng.choice(_FRAME_TEXTS, p=_FRAME_WEIGHTS))
    if rng.random() < name_chance:
        form = rng.integers(4)
        if form == 0:
            return surface(f"{page.name}: {task}", rng)
        if form == 1:
            return surface(frame.format(f"use {page.name} to {task}"), rng)
        return surface(frame.format(f"{task} {('with', 'using')[int(rng.integers(2))]} {page.name}"), rng)
    return surface(frame.format(task), rng)


def splice(task: str, other: str, rng: np.random.Generator) -> str:
    """Join the beginning of one task and the end of another: `list all files` -> `list all branches by date`."""
    head, tail = task.split(), other.split()
    return " ".join(head[: int(rng.integers(1, len(head) + 1))] + tail[int(rng.integers(len(tail))) :])


def answer(name: str, task: str, command: str) -> str:
    """The one form of a how-to answer. Program and task come first, so the model settles them before the command."""
    return f"Use `{name}` to {task}:\n\n```sh\n{command}\n```"


_ANSWER = re.compile(r"Use `(.+?)` to (.+?):\n\n```sh\n(.+)\n```", re.DOTALL)


def read_answer(text: str) -> tuple[str, str, str] | None:
    """Name, task and command of a how-to answer, or None if the text is none."""
    found = _ANSWER.fullmatch(text)
    return None if found is None else (found[1], found[2], found[3])


def known_flags(command: str) -> list[Flag]:
    """The flags whose meaning is certain. A letter of git or docker means something else for each subcommand."""
    return [one for one in flags_of(command) if len(one.flag) > 2 or one.program not in _WITH_SUBCOMMANDS]


def explanation(programs: Sequence[str], task: str, command: str) -> str:
    """What a command does, in one sentence, and what its flags mean."""
    listed = "\n".join(f"- `{one.flag}`: {one.meaning}" for one in known_flags(command))
    sentence = f"With `{'` and `'.join(programs[:2])}`, this command would {task}."
    return f"{sentence}\n\n{listed}" if listed else sentence


def ask_what_is(page: Page, rng: np.random.Generator) -> str:
    forms = (
        "what is {}?",
        "what does {} do?",
        "what's {}",
        "explain {}",
        "{}",
        "tell me about {}",
        "what is the {} command",
        "{} command meaning",
        "what is {} used for?",
    )
    return surface(str(rng.choice(forms)).format(page.name), rng)


def answer_what_is(page: Page) -> str:
    first = page.examples[0]
    return f"`{page.name}`: {page.description}\n\nTo {first.task}:\n\n```sh\n{first.command}\n```"


def ask_examples(page: Page, rng: np.random.Generator) -> str:
    forms = (
        "show me examples of {}",
        "examples of {}",
        "{} examples",
        "how do I use {}?",
        "how to use {}",
        "{} usage",
        "give me some {} examples",
        "{} cheat sheet",
        "common {} commands",
    )
    return surface(str(rng.choice(forms)).format(page.name), rng)


def answer_examples(page: Page) -> str:
    shown = page.examples[:4]
    parts = [f"To {example.task}:\n\n```sh\n{example.command}\n```" for example in shown]
    return f"Examples of `{page.name}`:\n\n" + "\n\n".join(parts)


def ask_next(example: Example, rng: np.random.Generator) -> str:
    """Ask a follow-up that relies on the command in the turn before."""
    forms = (
        "and {}?",
        "how do i {}?",
        "and how do i {}?",
        "what about to {}?",
        "now {}",
        "and to {}?",
        "how would i {} with it?",
        "and if i want to {}?",
    )
    return surface(str(rng.choice(forms)).format(synonyms(example.task, rng, 0.15)), rng)
