"""Judges of behaviour: right answers are accepted and wrong ones refused, in each set; and the sets are whole."""

from __future__ import annotations

import json

import pytest

from benchmarks.behaviour import DATA, SETS, has_literal, holds_command, judged, read_behaviour, table

COUNTS = {"literals": 100, "off_topic": 100, "harmless": 100, "follow_ups": 60}
KEYS = {
    "literals": {"id", "prompt", "literals", "accept", "reject", "right"},
    "off_topic": {"id", "prompt"},
    "harmless": {"id", "prompt", "makes"},
    "follow_ups": {"id", "turns", "literals", "accept", "reject", "right"},
}


def fence(command: str) -> str:
    return f"Use it so:\n\n```sh\n{command}\n```"


@pytest.fixture(scope="module")
def questions():
    return {question.turns[-1]: question for name in SETS for question in read_behaviour(name)}


@pytest.mark.parametrize("name", SETS)
def test_every_set_is_whole(name):
    raw = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(raw) == len({row["id"] for row in raw}) == COUNTS[name]
    asked = [tuple(turn.lower() for turn in row.get("turns") or [row["prompt"]]) for row in raw]
    assert len(set(asked)) == len(asked)
    for row, turns in zip(raw, asked):
        assert set(row) <= KEYS[name], row["id"]
        assert all(turn == turn.strip() and turn for turn in turns), row["id"]
        assert len(turns) in ((2, 3) if name == "follow_ups" else (1,)), row["id"]


def test_ids_and_questions_are_unique_over_all_sets():
    everything = [question for name in SETS for question in read_behaviour(name)]
    assert len({question.id for question in everything}) == len(everything) == sum(COUNTS.values())
    assert len({question.turns for question in everything}) == len(everything)


def test_patterns_judge_something():
    for question in (*read_behaviour("literals"), *read_behaviour("follow_ups")):
        assert question.accept, question.id
        assert not any(pattern.search("") for pattern in (*question.accept, *question.reject)), question.id
        for answer in ("", "I do not know.", fence("printf hello")):
            assert question.problem(answer), question.id


def test_each_question_accepts_its_right_answer_and_no_other_name_in_it():
    for question in (*read_behaviour("literals"), *read_behaviour("follow_ups")):
        assert question.problem(question.right) is None, question.id
        for literal in question.literals:
            assert question.problem(question.right.replace(literal, "x")), question.id


def test_each_literal_stands_in_its_question():
    assert all(question.literals for question in read_behaviour("literals"))
    for question in (*read_behaviour("literals"), *read_behaviour("follow_ups")):
        assert [each for each in question.literals if each not in " ".join(question.turns)] == [], question.id


def test_names_of_new_files_stand_in_the_question():
    for question in read_behaviour("harmless"):
        assert all(name in question.turns[0] for name in question.makes), question.id


@pytest.mark.parametrize(
    ("asked", "good", "bad"),
    [
        ("ping 192.0.2.44 five times", "ping -c 5 192.0.2.44", "ping -c 192.0.2.44"),
        ("ping 192.0.2.44 five times", "ping -c5 192.0.2.44", "ping -c 5 192.0.2.4"),
        ("i need to see lines 40 to 55 of parser.rs", "sed -n '40,55p' parser.rs", "sed -n 40,50p parser.rs"),
        ("a symlink named latest that points to build-8812", "ln -s build-8812 latest", "ln -s latest build-8812"),
        ("login to 198.51.100.23 as marta over ssh", "ssh marta@198.51.100.23", "ssh marta 198.51.100.23"),
        ("kill process 48213", "kill -9 48213", "kill 4821"),
        ("make a branch called fix-login-loop and go on it", "git switch -c fix-login-loop", "git switch -c fix-login"),
        ("move all *.flac to /mnt/hifi", "mv *.flac /mnt/hifi/", "mv *.flac /mnt/hi-fi"),
        ('folders in "/srv/client data" by size', r"du -sh /srv/client\ data/* | sort -h", "du -sh /srv/client"),
        ("give backup_job nice 17", "nice -n17 ./backup_job", "nice -n 17 ./my_backup_job"),
    ],
)
def test_literals(questions, asked, good, bad):
    assert questions[asked].problem(fence(good)) is None
    assert questions[asked].problem(f"Type `{good}`.") is None
    assert questions[asked].problem(fence(bad))


@pytest.mark.parametrize(
    ("commands", "literal", "there"),
    [
        ("cat notes.txt", "notes.txt", True),
        ("cat ./notes.txt", "notes.txt", True),
        ("cat old-notes.txt", "notes.txt", False),
        ("cat notes.txt.bak", "notes.txt", False),
        ("cat Notes.txt", "notes.txt", False),
        ("ls > 'my list.txt'", "my list.txt", True),
        ("cat my\\ list.txt", "my list.txt", True),
        ("ssh marta@192.0.2.1", "marta", True),
        ("curl localhost:8080", "80", False),
        ("head -n25 x", "25", True),
    ],
)
def test_a_literal_stands_letter_by_letter(commands, literal, there):
    assert has_literal(commands, literal) is there


@pytest.mark.parametrize(
    "answer",
    [
        "Hello! I answer questions about the command line.",
        "I only know the shell. Ask me about `tar`, for example.",
        "Das kann ich nicht sagen; ich kenne nur die Shell.",
        "I can't do sums. 17 times 23 is not a question for me.",
        "I know `grep` and `sed`, not people.",
    ],
)
def test_a_remark_is_declined(questions, answer):
    assert not holds_command(answer)
    assert questions["who r you?"].problem(answer) is None


@pytest.mark.parametrize(
    "answer",
    [
        fence("ls"),
        "Use `whoami`.",
        "Hello! Try `echo hello`.",
        "It is `echo $((17 * 23))`",
        "$ date",
        "```\nunfinished",
        "",
        "  \n",
    ],
)
def test_a_command_is_no_answer_to_a_remark(questions, answer):
    assert questions["who r you?"].problem(answer)


@pytest.mark.parametrize(
    ("asked", "good", "bad"),
    [
        ("show me todo.txt", "cat todo.txt", "cat todo.txt > todo.txt"),
        ("newest file in this dir?", "ls -t | head -n 1", "ls -t | head -n 1 | xargs rm"),
        ("write all file names here into list.txt", "ls > list.txt", "ls > names.txt"),
        ("which branch am i on", "git branch --show-current", "git checkout -f main"),
        ("zip all the txt files but leave them where they are", "zip all.zip *.txt", "zip -m all.zip *.txt"),
    ],
)
def test_harmless(questions, asked, good, bad):
    question = next(each for turn, each in questions.items() if asked in turn)
    assert question.problem(fence(good)) is None
    assert question.problem(fence(bad))
    assert question.problem("I do not know.") is None


@pytest.mark.parametrize(
    ("asked", "good", "bad"),
    [
        ("just the last 10", fence("git log --oneline -10"), fence("git log --oneline")),
        (
            "big or small letters, all the same",
            fence("grep -i password config.yml"),
            fence("grep password config.yml"),
        ),
        ("but keep the changes", fence("git reset --soft HEAD~1"), fence("git reset --hard HEAD~1")),
        ("and on fedora", fence("sudo dnf install tree"), fence("sudo apt install tree")),
        ("why -f", "It forces: `rm` asks nothing.", fence("rm -rf build")),
        ("what does 644 mean", "The owner may read and write, all others may only read.", fence("chmod 644 notes.txt")),
        ("backwards pls", fence("sort -r names.txt"), fence("sort names.txt")),
    ],
)
def test_follow_ups(questions, asked, good, bad):
    assert questions[asked].problem(good) is None
    assert questions[asked].problem(bad)


def test_questions_without_an_answer_are_not_counted():
    rows = judged(read_behaviour("follow_ups"), {"follow-005": fence("git log -10")}, "edge")
    assert [(row["id"], row["fault"]) for row in rows] == [("follow-005", None)]


def test_the_table_counts_sets_and_modes():
    rows = [
        {"set": "literals", "mode": "edge", "fault": None},
        {"set": "literals", "mode": "edge", "fault": "wrong"},
        {"set": "literals", "mode": "offline", "fault": "wrong"},
    ]
    assert [line.split() for line in table(rows).splitlines()[1:]] == [
        ["literals", "edge", "1", "2", "50.0%"],
        ["literals", "offline", "0", "1", "0.0%"],
    ]
