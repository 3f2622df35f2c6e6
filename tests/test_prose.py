"""The prose of code and documents: plain sentences that make sense alone, and no names of things that are gone.

For readers whose English is plain. The rules for docstrings are read from the syntax trees.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.prose import Words, comments, docstrings
from tests.support.serving import REPOSITORY
from tests.test_documents import NAMES, text

ROOMS = (
    *(f"app/{room}" for room in ("archive", "remotes", "commands", "drafting", "reply", "tui", "shell", "cli")),
    "app",
    "remote",
    "drafter",
    "storage",
    "benchmarks",
    "recipes",
    "docs",
    "tools",
    "tests",
)
"""Folders in which each rule is a test of its own; a file belongs to the first that it lies in."""

BEGINNINGS = re.compile(
    r"(?:Of|Likewise|Said|By|In the place|Where|As|And|But|Then|So) "
    r"|The same(?! \w+ (?:may|can|is|are|has|have)\b)"
)
"""What a docstring begins with if it runs on from the line above it, or puts the subject last."""

LOWER = re.compile(r"(?:asyncio|llm|msgspec|oterm|strace|tau|tldr|transformers|uvicorn|zsh)\b|[a-z]+[\w.]*[_(./=:0-9,]")
"""Names and code, with which a docstring may begin in small letters."""

PHRASES = (
    r"said again",
    r"likewise,",
    r"(?:^|[.;] )the same for",
    r"in other words, beside",
    r"other words, another answer",
)
"""Phrases that readers of plain English stumble over."""

GONE = (
    "app/writing",
    "app/starting",
    "app/finishing",
    "app/opening",
    "app/verification",
    "app/remote_desk",
    "tui/remembered",
    "tui/figures",
    "widgets/prose",
    "widgets/mounting",
    "screens/acting",
    "screens/opened",
    "screens/pointing",
    "screens/composing",
    "screens/organising",
    "archive/shading",
    "storage/asked",
    "storage/ordering",
)
"""Modules that have other names now."""

PARTICIPLES = re.compile(r"^(?:\w+ing|\w+_ed|asked|opened|named|later|waits|told|folded|remembered)$")
NOUNS = {"drafting", "learning", "rounding", "streaming", "string", "training"}
"""Nouns that end like participles."""

TEST = re.compile(r"tests/test_prose\.py$")


@cache
def files() -> dict[str, list[Path]]:
    """The modules of each room."""
    found: dict[str, list[Path]] = {room: [] for room in ROOMS}
    for path in sorted(REPOSITORY.glob("*/**/*.py")):
        name = path.relative_to(REPOSITORY).as_posix()
        room = next((room for room in ROOMS if name.startswith(f"{room}/")), None)
        if room and not TEST.search(name):
            found[room].append(path)
    return found


def odd(words: str) -> list[str]:
    """The phrases and the old names in a text."""
    words = " ".join(words.split()).lower()
    return [phrase for phrase in (*PHRASES, *GONE) if re.search(rf"(?<!\w)(?:{phrase})(?!\w)", words)]


def place(path: Path, words: Words) -> str:
    return f"{path.relative_to(REPOSITORY)}:{words.line}: {words.text.strip().splitlines()[0][:90]}"


def told(found: list[str]) -> str:
    return f"{len(found)} of them:\n" + "\n".join(found)


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_make_sense_alone(room: str) -> None:
    """They begin with their subject, and with a capital letter, a digit or code."""
    wrong = []
    for path in files()[room]:
        for docstring in docstrings(path):
            begins = docstring.text.strip()
            if BEGINNINGS.match(begins) or (begins[:1].islower() and not LOWER.match(begins)):
                wrong.append(place(path, docstring))
    assert not wrong, told(wrong)


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_a_whole_sentence(room: str) -> None:
    """Their first paragraph ends with a full stop, a colon or a question mark. A few words need none."""
    wrong = []
    for path in files()[room]:
        for docstring in docstrings(path):
            first = docstring.text.strip().partition("\n\n")[0]
            if not first.rstrip(' \n)"').endswith((".", ":", "?", "`", "…")) and len(first.split()) > 4:
                wrong.append(place(path, docstring))
    assert not wrong, told(wrong)


@pytest.mark.parametrize("room", ROOMS)
def test_no_odd_phrases_and_no_old_names_in_code(room: str) -> None:
    wrong = [
        f"{place(path, words)}: {phrase}"
        for path in files()[room]
        for words in (*docstrings(path), *comments(path))
        for phrase in odd(words.text)
    ]
    assert not wrong, told(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_no_odd_phrases_and_no_old_names_in_documents(name: str) -> None:
    assert odd(text(REPOSITORY / name)) == []


@pytest.mark.parametrize("room", [room for room in ROOMS if room.startswith(("app", "remote", "drafter", "storage"))])
def test_modules_have_nouns_for_names(room: str) -> None:
    stems = {path.stem for path in files()[room]} | {path.parent.name for path in files()[room]}
    assert sorted(stem for stem in stems - NOUNS if PARTICIPLES.match(stem)) == []


def test_spelling() -> None:
    """The settings of codespell are in pyproject.toml."""
    ran = subprocess.run([sys.executable, "-m", "codespell_lib"], cwd=REPOSITORY, capture_output=True, text=True)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[:2000]
