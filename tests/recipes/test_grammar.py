"""The grammar of intents: what phrases say, what slots type, what is refused, and that the real files hold."""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import execution_sandbox
from models.guide.outline import put, slots, unfilled
from models.guide.values import quoted
from recipes.shell_guide.grammar.check import rule_problems
from recipes.shell_guide.grammar.drawing import Drawer
from recipes.shell_guide.grammar.following import Edit, Thread, read_rules
from recipes.shell_guide.grammar.intents import IntentError, read_file, read_intents
from recipes.shell_guide.grammar.proof import prove
from recipes.shell_guide.grammar.values import read_value

pytestmark = pytest.mark.training

FIND = """
[[intent]]
program = "find"
task = "find files larger than {size} [in {dir}]"
command = "find {dir} -type f -size +{size.find}"
ask = ["(find|list) [all] files (bigger|larger) than {size} [in {dir}]", "what is over {size}", "{dir}: over {size}"]
slots.dir = { type = "folder", default = "." }
output = "paths"
macos = "gfind {dir} -size +{size.find}"

[[intent.then]]
ask = ["[and] not below", "only in this folder"]
task = "find files larger than {size} in one folder"
command = "find {dir} -maxdepth 1 -type f -size +{size.find}"

[[intent.proof]]
with = { size = "2 KB", dir = "docs" }
files = { "docs/a.txt" = 3000, "docs/b.txt" = 10, "c.txt" = 9000 }
prints = ["docs/a.txt"]
"""


def intent(text: str, folder: Path):
    path = folder / "one.toml"
    path.write_text(text)
    (read,) = read_file(path)
    return read


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@settings(max_examples=10)
@given(st.lists(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12), min_size=9))
def test_bash_reads_quoted_words_as_the_words(words: list[str]) -> None:
    command = f"HOME='~'; printf '%s\\n' {' '.join(map(quoted, words))}"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert ran.stdout == "".join(f"{word}\n" for word in words)


def test_the_command_holds_what_the_question_named(tmp_path: Path) -> None:
    find = intent(FIND, tmp_path)
    unnamed = find.values(["size"], rng(), {})
    assert find.typed(find.command, unnamed).startswith("find . -type f"), "the default"
    assert "in" not in find.told(unnamed).split()
    values = find.values(["size", "dir"], rng(), {})
    assert values["size"].forms["find"] in find.typed(find.command, values)
    assert find.told(values) == f"find files larger than {values['size'].said} in {values['dir'].said}"
    task, _ = find.outlined(find.command)
    filled = {"size": "2G", "dir": "~/work"}
    assert put(task, lambda slot: filled[slot.name]) == "find files larger than 2G in ~/work"


def test_a_condition_is_typed_exactly_if_the_question_named_it(tmp_path: Path) -> None:
    text = FIND.replace("-size +{size.find}", "⟨-size +{size.find}⟩").replace("files (b", "files [older than {age}] (b")
    find = intent(text.replace("⟩", "⟩ ⟨{age.older}⟩"), tmp_path)
    assert find.typed(find.command, {}) == "find . -type f"
    both = find.values(["size", "age"], rng(), {})
    conditions = {"size": f"-size +{both['size'].forms['find']}", "age": both["age"].forms["older"]}
    assert find.typed(find.command, both) == f"find . -type f {conditions['size']} {conditions['age']}"
    for name, typed in conditions.items():
        assert find.typed(find.command, {name: both[name]}) == f"find . -type f {typed}"
    _, command = find.outlined(find.command)
    assert unfilled(command) == "find . -type f"
    assert put(command, lambda slot: {"size": "2G"}.get(slot.name)) == "find . -type f -size +2G"
    assert all(slot.optional for slot, _ in slots(command))


def test_a_follow_up_keeps_the_values(tmp_path: Path) -> None:
    find, drawer = intent(FIND, tmp_path), Drawer()
    said = [drawer.conversation(find, rng(seed), follow=1.0) for seed in range(40)]
    seen = [(first, turn) for first, *after in said for turn in after[:1] if "-maxdepth 1" in turn.command]
    assert len(seen) > 4 and all(turn.command.replace(" -maxdepth 1", "") == first.command for first, turn in seen)


def test_a_follow_up_of_a_git_command_is_headed_by_the_command_it_shows() -> None:
    thens = [then for one in read_intents() for then in one.thens if then.programs[0].startswith("git ")]
    other = [then.command for then in thens if not any(program in then.command for program in then.programs)]
    assert len(thens) > 100 and [command for command in other if command.startswith("git ")] == []


def test_a_chain_keeps_every_condition_and_any_value_can_change(tmp_path: Path) -> None:
    find, drawer = intent(FIND, tmp_path), Drawer()
    chains = [turns for seed in range(60) if len(turns := drawer.conversation(find, rng(seed), follow=1.0)) > 2]
    assert len(chains) > 9
    assert all("-size +" in turn.command for turns in chains for turn in turns if turn.command.startswith("find"))
    rule = next(rule for rule in read_rules() if "size" in rule.slots and "larger" in rule.task.told(frozenset()))
    size = {text: {"size": read_value(rule.slots["size"], text)} for text in ("1 MB", "9 MB")}
    thread = Thread(("find",), "find files", "find . -type f | head -n 3", (Edit(rule, size["1 MB"]),))
    assert (thread.outcome() or ())[2] == "find . -type f -size +1M | head -n 3"
    other = replace(thread, edits=(Edit(rule, size["9 MB"]),)).outcome() or ()
    assert other[1:3] == ("find files, only those larger than 9 MB", "find . -type f -size +9M | head -n 3")


def test_the_rules_do_what_they_say() -> None:
    try:
        execution_sandbox.check()
    except execution_sandbox.NoSandbox as missing:
        pytest.skip(str(missing))
    assert list(rule_problems(proofs=True)) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('program = "find"\n', "", "program"),
        ('+{size.find}"\nask', '+1M"\nask', "size"),
        ('size.find}"\nask', 'size.fathoms}"\nask', "fathoms"),
        ('size.find}"\nask', 'size.find} ⟨-empty⟩"\nask', "slot in it"),
        ('size.find}"\nask', 'size.find} ⟨-empty"\nask', "does not nest"),
        ('type = "folder"', 'type = "cupboard"', "cupboard"),
        ("(find|list)", "(find|list", "not closed"),
        ('prints = ["docs/a.txt"]', "", "prints"),
        ('output = "paths"', 'colour = "red"', "colour"),
    ],
)
def test_a_wrong_intent_is_refused_and_told_where(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in FIND
    with pytest.raises(IntentError, match=f"one.toml.*{message}|{message}"):
        wrong = intent(FIND.replace(old, new, 1), tmp_path)
        for seed in range(20):
            Drawer().conversation(wrong, rng(seed), follow=1.0)


def test_a_proof_holds_and_fails(tmp_path: Path) -> None:
    try:
        execution_sandbox.check()
    except execution_sandbox.NoSandbox as missing:
        pytest.skip(str(missing))
    find = intent(FIND, tmp_path)
    assert prove(find, find.proofs[0]) is None
    wrong = intent(FIND.replace("-size +", "-size -"), tmp_path)
    assert "docs/b.txt" in (prove(wrong, wrong.proofs[0]) or "")
