"""Every question that the documents, the help and the welcome screen show is one that the bundled pair can answer.

tests/bundled/test_pair.py has the pair answer them.
"""

from __future__ import annotations

import re
import shlex

from app.tui.widgets.welcome import EXAMPLES
from tests.support.examples import read_examples
from tests.support.serving import REPOSITORY

PAGES = ("README.md", "CONTRIBUTING.md", "app/cli/question.py", "docs/*.md", "docs/manpage.py", "docs/outrider.1")
PICTURES = ("docs/recording.py", "docs/screenshot.py")
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


def test_questions_of_the_documents() -> None:
    pages = [path for pattern in (*PAGES, *PICTURES) for path in REPOSITORY.glob(pattern)]
    found = {str(path.relative_to(REPOSITORY)): asked(path.read_text(encoding="utf-8")) for path in pages}
    for name, questions in found.items():
        wrong = {" ".join(words): why for words, piped in questions if (why := problem(words, piped))}
        assert wrong == {}, name
    looked_at = ("README.md", "docs/command-line.md", "docs/outrider.1", "app/cli/question.py")
    assert all(found[name] for name in looked_at)


def test_questions_of_the_welcome_screen_and_the_pictures() -> None:
    pages = [(REPOSITORY / name).read_text(encoding="utf-8") for name in PICTURES]
    pictures = [question for page in pages for question in re.findall(r'^QUESTION = "(.*)"$', page, re.MULTILINE)]
    assert len(pictures) == len(PICTURES)
    assert {*EXAMPLES, *pictures} <= {one.question for one in read_examples() if len(one.turns) == 1}
