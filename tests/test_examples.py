"""Every question that the documents, the help and the welcome screen show is one that the bundled pair can answer.

tests/bundled/test_pair.py has the pair answer them.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from app.tui.widgets.welcome import EXAMPLES
from tests.support.examples import read_examples
from tests.support.serving import REPOSITORY

PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/*.md",
    "docs/manpage.py",
    "docs/outrider.1",
    "docs/recording.py",
    "docs/screenshot.py",
)
SHOWN = [path for pattern in PAGES for path in sorted(REPOSITORY.glob(pattern))] + [REPOSITORY / "app/cli/question.py"]
ELSEWHERE = {"--remote", "--prompts", "--queue"}
"""With these another model answers, or nobody yet."""


def asked(page: str) -> list[tuple[list[str], bool]]:
    """The words after `outrider ask` of each command line that holds a question, and whether text is piped into it."""
    page = page.replace(r"\(dq", '"').replace(r"\-", "-")
    found = []
    for before, words in re.findall(
        r"^(.*?)outrider ask((?: (?:-[\w-]+|edge|offline|hosted|\w+))* \"[^\"\n]*\")", page, re.M
    ):
        found.append((shlex.split(words), "|" in before.split('"')[-1] and not before.lstrip().startswith("|")))
    for words in re.findall(r"outrider ask ((?![-\\[])[^\"'`|<>$…\n-][^\"'`|<>$\n]*?)(?=  |\"|$)", page, re.M):
        found.append(([words], False))
    return found


def problem(words: list[str], piped: bool) -> str | None:
    question = words[-1]
    if question == "…" or ELSEWHERE & set(words):
        return None
    examples = [one for one in read_examples() if one.question == question]
    if piped:
        return "no text that is piped in has been tried"
    if not examples:
        return "nobody has tried it"
    if ("-c" in words) != any(len(one.turns) > 1 for one in examples):
        return "it follows another question in the one, and none in the other"
    if "offline" in words and not any(one.offline for one in examples):
        return "the drafter alone does not answer it"
    return None


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_questions_of_the_documents(path: Path) -> None:
    wrong = {
        " ".join(words): why
        for words, piped in asked(path.read_text(encoding="utf-8"))
        if (why := problem(words, piped))
    }
    assert wrong == {}


def test_questions_are_found_in_the_documents() -> None:
    """That the test above looks at something."""
    found = {str(path.relative_to(REPOSITORY)): len(asked(path.read_text(encoding="utf-8"))) for path in SHOWN}
    assert found["README.md"] >= 2 and found["docs/command-line.md"] >= 2
    assert found["docs/outrider.1"] >= 2 and found["app/cli/question.py"] == 1


@pytest.mark.parametrize("name", ["recording", "screenshot"])
def test_the_question_of_the_pictures(name: str) -> None:
    page = (REPOSITORY / "docs" / f"{name}.py").read_text(encoding="utf-8")
    (question,) = re.findall(r'^QUESTION = "(.*)"$', page, re.MULTILINE)
    assert question in {one.question for one in read_examples()}


@pytest.mark.parametrize("question", EXAMPLES)
def test_questions_of_the_welcome_screen(question: str) -> None:
    assert question in {one.turns[0] for one in read_examples() if len(one.turns) == 1}
