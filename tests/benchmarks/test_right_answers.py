"""Judges of answers: right ones are accepted and wrong ones refused, and the sets of questions are whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.answers import FENCE, NoAnswers, answers_in, ask_all, drafter_reading, generate_all, prompt_of, share
from benchmarks.behaviour import SETS, has_literal, holds_command, judged, read_behaviour
from benchmarks.bundled import DRAFTER, TARGET
from benchmarks.everyday import QUESTIONS, commands_of, read_questions
from drafter.runtime import Drafter

PROMPTS = [{"id": "one", "prompt": "list files"}, {"id": "two", "turns": ["unpack a.tar.gz", "how do I list it?"]}]


def fence(command: str) -> str:
    return f"Use it so:\n\n```sh\n{command}\n```"


# ---- who answers -----------------------------------------------------------------------------------------------------


def test_the_last_answer_of_a_conversation_counts_and_lines_without_one_do_not() -> None:
    lines = ['{"id": "a", "text": "first"}', '{"id": "a", "text": "second"}', "", '{"id": "b", "error": "away"}']
    assert answers_in("\n".join(lines)) == {"a": "second"}
    rows = [{"mode": "edge", "fault": None}, {"mode": "edge", "fault": "x"}, {"mode": "offline", "fault": "x"}]
    assert (share(rows, "edge"), share(rows, "hosted")) == ("50.0% (1 of 2)", "")


def test_a_checkpoint_alone_says_what_the_app_with_drafts_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "1")  # A setting of the caller changes nothing.
    prompt = prompt_of(DRAFTER, TARGET)
    assert prompt is not None
    asked = ask_all(PROMPTS, "edge", options=["--max-tokens", "40"])
    assert generate_all(TARGET, PROMPTS, prompt, 40) == asked and set(asked) == {"one", "two"}


def test_a_server_that_is_not_there_gives_no_share() -> None:
    with pytest.raises(NoAnswers, match="after 0 answers"):
        ask_all(PROMPTS[:1], "hosted", remote="http://127.0.0.1:9")


@pytest.mark.parametrize("pages", ["with", "without"])
def test_pages_stand_before_a_question_or_none_do(pages: str) -> None:
    with drafter_reading(pages) as folder:
        drafter = Drafter.load(folder)
        said = drafter.text.decode(drafter.asked_as("unpack a.tar"))
    assert "Answer with a shell command for " in said and ("=>" in said) == (pages == "with")


# ---- everyday questions ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def everyday():
    return {question.id: question for question in read_questions()}


def test_every_question_is_whole_and_grades_something(everyday):
    assert len(everyday) == len({question.prompt for question in everyday.values()}) == 120
    for question in everyday.values():
        assert question.accept and not any(one.search("") for one in (*question.accept, *question.reject)), question.id
        assert not any(question.right(answer) for answer in ("", "I do not know.", fence("echo hello"))), question.id


def test_every_second_question_is_asked_in_other_words_too():
    questions, rephrased = read_questions(), read_questions(QUESTIONS.with_name("everyday_rephrased.jsonl"))
    assert [each.id for each in rephrased] == [each.id for each in questions[::2]]
    for one, other in zip(questions[::2], rephrased):
        assert (one.accept, one.reject) == (other.accept, other.reject) and one.prompt.lower() != other.prompt.lower()
    recipe = Path(__file__).parents[2] / "recipes/shell_guide/everyday"
    learnt = "\n".join(path.read_text(encoding="utf-8") for path in recipe.glob("*.jsonl")).lower()
    assert not [each.prompt for each in rephrased if json.dumps(each.prompt.lower(), ensure_ascii=False) in learnt]


def test_only_the_commands_of_an_answer_are_graded():
    assert FENCE.findall("```sh\nls\n```\nand\n```\npwd") == ["ls\n", "pwd"], "the end of the text closes a fence"
    assert commands_of("Use `tar`:\n\n```sh\nls\n```\n\n```\npwd\n```") == "ls\n\npwd\n"
    assert commands_of("Either `ls -a` or `find`.") == "ls -a\nfind"
    assert commands_of("plain words") == "plain words"


# ---- behaviour -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def questions():
    return {question.turns[-1]: question for name in SETS for question in read_behaviour(name)}


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
        ("sed -n '40,55p' parser.rs", "40", True),
    ],
)
def test_a_literal_stands_letter_by_letter(commands, literal, there):
    assert has_literal(commands, literal) is there


@pytest.mark.parametrize(
    ("answer", "holds"),
    [
        ("I only know the shell. Ask me about `tar`, for example.", False),
        ("I can't do sums. 17 times 23 is not a question for me.", False),
        (fence("ls"), True),
        ("Use `whoami`.", True),
        ("It is `echo $((17 * 23))`", True),
        ("$ date", True),
    ],
)
def test_a_command_is_no_answer_to_a_remark(questions, answer, holds):
    assert holds_command(answer) is holds
    assert (questions["who r you?"].problem(answer) is None) is not holds


@pytest.mark.parametrize(
    ("asked", "good", "bad"),
    [
        ("show me todo.txt", "cat todo.txt", "cat todo.txt > todo.txt"),
        ("newest file in this dir?", "ls -t | head -n 1", "ls -t | head -n 1 | xargs rm"),
        ("which branch am i on", "git branch --show-current", "git checkout -f main"),
        ("just the last 10", "git log --oneline -10", "git log --oneline"),
        ("but keep the changes", "git reset --soft HEAD~1", "git reset --hard HEAD~1"),
        ("and on fedora", "sudo dnf install tree", "sudo apt install tree"),
    ],
)
def test_harm_and_what_was_said_before_count(questions, asked, good, bad):
    question = next(each for turn, each in questions.items() if asked in turn)
    assert question.problem(fence(good)) is None and question.problem(fence(bad))


def test_questions_without_an_answer_are_not_counted():
    rows = judged(read_behaviour("follow_ups"), {"follow-005": fence("git log -10")}, "edge")
    assert [(row["id"], row["fault"]) for row in rows] == [("follow-005", None)]
