"""Judges of answers: right ones are accepted and wrong ones refused, and the sets of questions are whole."""

from __future__ import annotations

import pytest

from benchmarks.answers import answers_in, ask_all, generate_all, prompt_of, share
from benchmarks.behaviour import SETS, has_literal, read_behaviour
from benchmarks.bundled import DRAFTER, TARGET
from benchmarks.everyday import QUESTIONS, commands_of, read_questions

PROMPTS = [{"id": "one", "prompt": "list files"}, {"id": "two", "turns": ["unpack a.tar.gz", "how do I list it?"]}]


def fence(command: str) -> str:
    return f"Use it so:\n\n```sh\n{command}\n```"


def test_the_last_answer_of_a_conversation_counts_and_lines_without_one_do_not() -> None:
    lines = ['{"id": "a", "text": "first"}', '{"id": "a", "text": "second"}', "", '{"id": "b", "error": "away"}']
    assert answers_in("\n".join(lines)) == {"a": "second"}
    rows = [{"mode": "edge", "fault": None}, {"mode": "edge", "fault": "x"}, {"mode": "offline", "fault": "x"}]
    assert (share(rows, "edge"), share(rows, "hosted")) == ("50.0% (1 of 2)", "")


def test_a_checkpoint_alone_says_what_the_app_with_drafts_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "1")  # A setting of the caller changes nothing.
    prompt = prompt_of(DRAFTER, TARGET)
    assert prompt is not None
    asked = ask_all(PROMPTS, "edge", options=["--max-tokens", "24"])
    assert generate_all(TARGET, PROMPTS, prompt, 24) == asked and set(asked) == {"one", "two"}


def test_every_question_is_whole_and_grades_something():
    questions, rephrased = read_questions(), read_questions(QUESTIONS.with_name("everyday_rephrased.jsonl"))
    assert len({question.prompt for question in (*questions, *rephrased)}) == 120 + 60
    for question in (*questions, *rephrased):
        assert question.accept and not any(one.search("") for one in (*question.accept, *question.reject)), question.id
        assert not any(question.right(answer) for answer in ("", "I do not know.", fence("echo hello"))), question.id


def test_only_the_commands_of_an_answer_are_graded():
    assert commands_of("Use `tar`:\n\n```sh\nls\n```\n\n```\npwd\n```") == "ls\n\npwd\n"
    assert commands_of("Either `ls -a` or `find`.") == "ls -a\nfind"
    assert commands_of("plain words") == "plain words"


def test_sets_are_whole_and_each_accepts_its_right_answer_and_no_other_name_in_it():
    everything = [question for name in SETS for question in read_behaviour(name)]
    assert len({question.id for question in everything}) == len({one.turns for one in everything}) == 360
    for question in (*read_behaviour("literals"), *read_behaviour("follow_ups")):
        assert question.accept and question.problem(question.right) is None, question.id
        for literal in question.literals:
            assert literal in " ".join(question.turns), question.id
            assert question.problem(question.right.replace(literal, "x")), question.id
        for answer in ("", "I do not know.", fence("printf hello")):
            assert question.problem(answer), question.id


@pytest.mark.parametrize(
    ("commands", "literal", "there"),
    [
        ("cat ./notes.txt", "notes.txt", True),
        ("cat old-notes.txt notes.txt.bak Notes.txt", "notes.txt", False),
        ("ls > 'my list.txt'", "my list.txt", True),
        ("cat my\\ list.txt", "my list.txt", True),
        ("ssh marta@192.0.2.1", "marta", True),
        ("curl localhost:8080", "80", False),
        ("head -n25 x", "25", True),
    ],
)
def test_a_literal_stands_letter_by_letter(commands, literal, there):
    assert has_literal(commands, literal) is there
