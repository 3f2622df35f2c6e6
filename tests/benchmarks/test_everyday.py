"""Grading: which answers count as right, on answers with known grades."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.everyday import QUESTIONS, commands_of, read_questions

REPHRASED = QUESTIONS.with_name("everyday_rephrased.jsonl")


@pytest.fixture(scope="module")
def questions():
    return {question.id: question for question in read_questions()}


def test_every_question_is_whole_and_its_patterns_compile():
    raw = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    questions = read_questions()
    assert len(questions) == len(raw) == 120
    assert len({question.id for question in questions}) == len({question.prompt for question in questions}) == 120
    for question in questions:
        assert question.prompt.strip() and question.accept, question.id
        # A pattern that matches nothing, or everything, grades nothing.
        assert not any(pattern.search("") for pattern in (*question.accept, *question.reject)), question.id
        assert not question.right("I do not know.") and not question.right(""), question.id
        assert not question.right("```sh\necho hello\n```"), question.id


def test_every_second_question_is_asked_in_other_words_too():
    questions, rephrased = read_questions(), read_questions(REPHRASED)
    assert [each.id for each in rephrased] == [each.id for each in questions[::2]]
    for one, other in zip(questions[::2], rephrased):
        assert (one.accept, one.reject) == (other.accept, other.reject)
        assert one.prompt.lower() != other.prompt.lower() and other.prompt.strip()
    recipe = Path(__file__).parents[2] / "recipes/shell_guide/everyday"
    learnt = "\n".join(path.read_text(encoding="utf-8") for path in recipe.glob("*.jsonl")).lower()
    assert not [each.prompt for each in rephrased if json.dumps(each.prompt.lower(), ensure_ascii=False) in learnt]


@pytest.mark.parametrize(
    ("id", "command", "right"),
    [
        ("tar-extract", "tar -xzf archive.tar.gz", True),
        ("tar-extract", "tar xvf archive.tar.gz", True),
        ("tar-extract", "tar -czf archive.tar.gz folder", False),
        ("tar-extract", "tar -tzf archive.tar.gz", False),
        ("tar-create", "tar -czvf folder.tar.gz folder/", True),
        ("tar-create", "tar -cf folder.tar folder/", False),
        ("unzip-to-dir", "unzip file.zip -d path/to/directory", True),
        ("unzip-to-dir", "unzip file.zip", False),
    ],
)
def test_known_commands_are_graded_as_they_deserve(questions, id, command, right):
    assert questions[id].right(command) is right
    assert questions[id].right(f"Use it so:\n\n```sh\n{command}\n```") is right
    assert questions[id].right(f"Type `{command}`.") is right


def test_only_the_commands_of_an_answer_are_graded(questions):
    assert commands_of("Use `tar`:\n\n```sh\nls\n```\n\n```\npwd\n```") == "ls\n\npwd\n"
    assert commands_of("Either `ls -a` or `find`.") == "ls -a\nfind"
    assert commands_of("```sh\nunfinished answer") == "unfinished answer"
    assert commands_of("plain words") == "plain words"
    assert not questions["tar-extract"].right("You could `tar -xzf a.tar.gz`, but:\n\n```sh\nls\n```")


@pytest.mark.parametrize(
    ("id", "good", "bad"),
    [
        ("git-undo-commit", "git reset --soft HEAD~1", "git reset --hard HEAD~1"),
        ("rm-dir", "rm -r folder", "rm -rf /"),
        ("find-name", "find . -name '*.txt'", "find . -name '*.txt' -delete"),
    ],
)
def test_a_rejected_command_spoils_an_answer(questions, id, good, bad):
    assert questions[id].right(good)
    assert not questions[id].right(bad)
    assert not questions[id].right(f"```sh\n{good}\n{bad}\n```")
