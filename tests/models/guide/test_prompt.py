"""The prompt recipe: a function of the questions so far, whose beginning never changes."""

from __future__ import annotations

import pytest

from models.guide.names import NoMarks
from models.guide.pages import Pages
from models.guide.prompt import CHARACTERS, Prompt, earlier, find, goes_on, line, system
from models.guide.search import platforms_of

LINUX = platforms_of("linux")


@pytest.fixture
def prompt(pages: Pages) -> Prompt:
    return Prompt(pages, LINUX, marks_names=False)


def test_a_longer_conversation_begins_with_the_shorter_one(prompt: Prompt, pages: Pages) -> None:
    said = [("user", "untar a.tar.gz"), ("assistant", "..."), ("user", "and only list it?"), ("assistant", "...")]
    said += [("user", "sort by a column")]
    whole = prompt.apply(said)
    assert [role for role, _ in whole] == [*["system", "user", "assistant"] * 2, "system", "user"]
    for length in (1, 2, 3, 4):
        begun = Prompt(pages, LINUX, marks_names=False).apply(said[:length])
        assert begun == whole[: len(begun)]
    other = prompt.apply([said[0], ("assistant", "yes, tmux"), *said[2:]])
    assert [each for each in other if each[0] != "assistant"] == [each for each in whole if each[0] != "assistant"]


def test_a_follow_up_is_told_from_a_question_and_searched_with_what_it_goes_on_from(pages: Pages) -> None:
    follow_ups = ["and recursively?", "now as root", "only the last ten", "sorry, i meant notes.txt"]
    follow_ups += ["Do it for notes.txt instead", "on my mac", "just the names", "sort it by date"]
    questions = ["find a file and delete it", "Andrea's files", "justify the text of notes.txt", "sort notes.txt"]
    assert [one for one in follow_ups + questions if goes_on(one)] == follow_ups
    asked = ["show my ip address", "order report.txt numerically", "and from high to low?", "and then?"]
    assert earlier(asked[:1]) == earlier(asked[:2]) == ""
    assert earlier(asked[:3]) == asked[1] and earlier(asked) == " ".join(asked[1:3])
    assert find(pages, asked[:3], LINUX)[0].shown.command == "sort -rn report.txt"
    assert earlier(["and a?", "and b?", "and c?", "and d?", "and e?"]) == "and b? and c? and d?"


def test_the_examples_are_short_together(prompt: Prompt, pages: Pages) -> None:
    for question in ("tar archive", "compressed archive of files", "sort a file by a column"):
        hits = prompt.hits([question])
        assert 0 < sum(len(line(hit)) for hit in hits) <= CHARACTERS
        assert system(hits, "linux", NoMarks()).count("\n") == len(hits)


@pytest.mark.parametrize(("system", "name"), [("linux", "Linux"), ("darwin", "macOS"), ("freebsd14", "Unix")])
def test_the_task_names_the_system(pages: Pages, system: str, name: str) -> None:
    prompt = Prompt(pages, platforms_of(system))
    assert prompt.apply([("user", "thanks!")])[0] == ("system", f"Answer with a shell command for {name}.")
