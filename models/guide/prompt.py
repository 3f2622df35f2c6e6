"""Shell Guide's own prompt: each question comes after the examples that fit it best, and its names have marks.

    system: Answer with a shell command for Linux.
            tar: extract a gzip-compressed archive => tar xzf photos.tar.gz
            tar: list the contents of an archive => tar tf photos.tar.gz
    user:   How do I unpack photos.tar.gz?

The examples are filled with what the question names (`models/guide/assignment.py`). Each question gets its own system
message, which depends only on the questions up to it, the platform and the pages. So the beginning of a conversation
stays the same, and what was computed for it stays valid, until a long conversation has to drop examples
(`app/drafting/prompt.py`). The target was trained on prompts of this form (`recipes/shell_guide`). Any change here
requires a new version.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from models.guide.names import Marks, NoMarks
from models.guide.pages import Pages
from models.guide.search import Hit, search
from models.guide.words import terms

NAME, VERSION = "pages", 5
"""The name of this recipe in artefacts."""
WITHOUT_NAMES = 3
"""The version of it that marks no names (`models/guide/names.py`)."""
SYSTEMS = {"linux": "Linux", "osx": "macOS", "windows": "Windows"}
"""Names of the platforms; others are called Unix."""
EXAMPLES = 4
"""Most examples before a question."""
CHARACTERS = 400
"""Most characters of all examples before a question: about 130 tokens of the bundled vocabulary."""
MEMORY = 3
"""Most questions before a follow-up that are searched together with it."""

REMEMBERED = 1_000
"""Most questions whose examples are remembered: more than one conversation can have."""

_LINKS = re.compile(
    r"\W*(?:and|or|but|now|then|also|plus|instead|only|same|the same|again|otherwise|what about|how about|what if|"
    r"with(?:out)?|including|excluding|except|recursively|in reverse|as root|why|explain|just|sorry|i mean(?:t)?|"
    r"do (?:it|that|this)|(?:on|for|the) (?:a |my )?mac(?:os)?|sorted|"
    r"(?:that|it|this|which) (?:does|did|is|was|gives|gave|says|said|fails|failed|shows|only|works?)|"
    r"(?:does|did)(?: not|n'?t)|not)\b",
    re.I,
)
_POINTS_BACK = re.compile(r"\b(?:it|its|them|their|that|those|one|ones|same|instead)\b", re.I)
_FEW_TERMS = 3
_EXAMPLES_OF = re.compile(
    r"\W*(?:(?:please )?(?:can you )?(?:show|give|list) (?:me )?)?(?:some |a few |more |common |usage |typical )*"
    r"examples? (?:of|for|on|with)(?: how to use| using)?(?: the)? `?([a-z0-9][\w.+ -]*?)`?"
    r"(?: command| program)?(?: please)?\W*",
    re.I,
)


def goes_on(question: str) -> bool:
    """Whether a question is a follow-up: it begins with a linking word, or says little but "it".

    >>> goes_on("and recursively?"), goes_on("How do I find a file and delete it?")
    (True, False)
    """
    if _LINKS.match(question):
        return True
    return bool(_POINTS_BACK.search(question)) and len(terms(question)) < _FEW_TERMS


def earlier(questions: Sequence[str]) -> str:
    """The questions that the last one continues, to be searched together with it, or an empty string."""
    first = len(questions) - 1
    while first > 0 and goes_on(questions[first]):
        first -= 1
    return " ".join(questions[max(first, len(questions) - 1 - MEMORY) : -1])


def find(pages: Pages, questions: Sequence[str], platforms: Sequence[str], without: Collection[int] = ()) -> list[Hit]:
    """The examples for the last of the questions of a conversation, best first. `without`: as for `search`."""
    hits = of_page(pages, questions[-1], platforms)
    hits = hits or search(pages, questions[-1], platforms, EXAMPLES + 2, without, before=earlier(questions))
    fitting: list[Hit] = []
    left = CHARACTERS
    for hit in hits:
        if len(fitting) < EXAMPLES and len(line(hit)) < left:
            fitting.append(hit)
            left -= len(line(hit)) + 1
    return fitting


def of_page(pages: Pages, question: str, platforms: Sequence[str]) -> list[Hit]:
    """All examples of a page, in its order, for a question that wants examples of a program; else none."""
    asked = _EXAMPLES_OF.fullmatch(question)
    page = None if asked is None else pages.find(asked[1].lower(), platforms)
    return [] if page is None else [Hit(page, example, 1.0) for example in page.examples]


def line(hit: Hit) -> str:
    """An example in one line of the prompt."""
    return " ".join(f"{hit.page.name}: {hit.shown.task} => {hit.shown.command}".split())


def task(platform: str) -> str:
    """The first line of each system message, even if no example fits. `platform`: as of a page."""
    return f"Answer with a shell command for {SYSTEMS.get(platform, 'Unix')}."


def system(hits: Iterable[Hit], platform: str, marks: Marks) -> str:
    """The system message with these examples; `marks`: of the conversation up to the question that follows."""
    return marks.said("\n".join([task(platform), *(line(hit) for hit in hits)]))


@dataclass
class Prompt:
    """The recipe with its pages, for one platform. It caches its search results."""

    pages: Pages
    platforms: Sequence[str]
    marks_names: bool = True
    _found: dict[tuple[str, str], list[Hit]] = field(default_factory=dict, repr=False)

    def hits(self, questions: Sequence[str]) -> list[Hit]:
        """The examples before the last of these questions. Raises `DrafterCorrupt`."""
        key = questions[-1], earlier(questions)
        if (found := self._found.get(key)) is None:
            if len(self._found) >= REMEMBERED:
                self._found.clear()
            found = self._found[key] = find(self.pages, questions, self.platforms)
        return found

    @property
    def task(self) -> str:
        """The first line of each system message."""
        return task(self.platforms[0])

    def system(self, questions: Sequence[str], marks: Marks) -> str:
        """The system message before the last of these questions, which `marks` has read. Raises `DrafterCorrupt`."""
        return system(self.hits(questions), self.platforms[0], marks)

    def marks(self, questions: Iterable[str] = ()) -> Marks:
        """The marks of a conversation's names after these questions."""
        return Marks(questions, self.pages.called) if self.marks_names else NoMarks()

    def asked_as(self, questions: Sequence[str]) -> list[tuple[str, str]]:
        """The messages before the answer to the last of these questions. Raises `DrafterCorrupt`."""
        marks = self.marks(questions[:-1])
        read = marks.read(questions[-1])
        return [("system", self.system(questions, marks)), ("user", read)]

    def apply(self, messages: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """A conversation, (role, text), with a system message before each question. Raises `DrafterCorrupt`."""
        out: list[tuple[str, str]] = []
        questions: list[str] = []
        marks = self.marks()
        for role, text in messages:
            if role == "user":
                questions.append(text)
                read = marks.read(text)
                out += [("system", self.system(questions, marks)), ("user", read)]
            else:
                out.append((role, marks.said(text)))
        return out
