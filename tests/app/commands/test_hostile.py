"""The shell code of an answer, its words and their places; and texts that are made to hide something or to cost time.

Every answer of a model may be one.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.commands.blocks import LONGEST, shell_blocks
from app.commands.known import unknown_programs
from app.commands.requests import unasked
from app.commands.risk import Kind, Severity
from app.commands.risks import answer_risks, risks
from app.commands.script import SimpleCommand
from app.commands.syntax import LONGEST as LONGEST_COMMAND
from app.commands.syntax import masked, parse

PIECES = st.sampled_from(
    r"""
    rm -rf / ~ * a sudo xargs sh -c ' " ` $( ) ( { } [ ] [[ ]] ; | || & && > >> < << <<< <( >( \ $ ${ # ! = : x=1 $x é
    for in do done if then fi case esac while function f() find -exec {} + -delete curl sh dd of=/dev/sda 2>&1 <a> {{b}}
    -- --force git push eval echo $'\x72 <<END END
    """.strip().split()
)
TEXTS = st.lists(st.one_of(PIECES, st.sampled_from([" ", "\n", "\t", ""]))).map(
    lambda pieces: "".join(piece if piece.isspace() else f"{piece} " for piece in pieces)
)

STATEMENTS = [
    "true && { COMMAND; }",
    "if true; then COMMAND; fi",
    "( COMMAND )",
    'echo "$(COMMAND)"',
    "x=$(COMMAND)",
    "f() { COMMAND; }",
    "for i in 1 2; do COMMAND; done",
    "ls | while read -r line; do COMMAND; done",
    "case $x in\na) COMMAND ;;\nesac",
    "cat <<END | bash\nCOMMAND\nEND\n",
]
"""Texts that hold a command in the place of `COMMAND`."""


@given(st.one_of(TEXTS, st.text()))
@settings(max_examples=300, deadline=None)
def test_any_text_has_an_answer_whose_places_are_in_it(text: str) -> None:
    for risk in risks(text):
        assert 0 <= risk.span[0] <= risk.span[1] <= len(text)
        assert risk.sentence and "\n" not in risk.sentence
    assert len(masked(text)) == len(text)
    assert set(unasked(text, risks(text))) <= set(risks(text))
    unknown_programs(text, parse(text), lambda name: False, path="")


@given(TEXTS, st.sampled_from(["", "sh", "console", "python"]), st.sampled_from(["", "> ", "- ", "1. ", "\t"]))
@settings(max_examples=200, deadline=None)
def test_any_answer_has_blocks_whose_places_are_in_it(text: str, language: str, mark: str) -> None:
    lines = [f"```{language}", *text.splitlines(), "```"]
    answer = "Text.\n\n" + "\n".join(mark + line for line in lines)
    for block in shell_blocks(answer):
        for number, (inside, outside) in enumerate(block.lines):
            line = block.command.split("\n")[number]
            assert block.command[inside : inside + len(line)] == line
            assert answer[outside : outside + len(line)] == line or "\t" in answer
    for risk in answer_risks(answer):
        assert 0 <= risk.span[0] <= risk.span[1] <= len(answer)


@given(st.sampled_from(["rm -rf /", "dd if=a of=/dev/sda", "mkfs.ext4 /dev/sda", "chmod -R 777 /"]), st.data())
@settings(max_examples=100, deadline=None)
def test_wrapping_hides_no_danger(command: str, data: st.DataObject) -> None:
    for wrapper in data.draw(
        st.lists(st.sampled_from(["sudo {}", "nohup {}", "env A=1 {}", "nice -n 5 {}"]), max_size=2)
    ):
        command = wrapper.format(command)
    for wrapper in data.draw(st.lists(st.sampled_from(STATEMENTS), max_size=4)):
        command = wrapper.replace("COMMAND", command)
    assert Severity.DANGER in {risk.severity for risk in risks(command)} or parse(command).unreadable


HEAVY = {
    "brackets": "$(" * 3000, "closed brackets": "$(" * 300 + "rm x" + ")" * 300, "quotes": '"$(' * 2000,
    "redirections": "> a " * 4900, "heredocs": "<<E " * 4900, "groups": "{ " * 3900 + "rm x" + "; }" * 3900,
    "pipes": "a | " * 4000 + "b", "lists": "a && " * 3500 + "rm x", "lines": "rm x\n" * 3900,
    "wrappers": "sudo " * 3900 + "rm x", "scripts": "eval " * 3900 + "rm x", "placeholders": "{{" * 9900,
    "backslashes": "\\" * 19_000, "one word": "rm " + "a" * 19_000, "expansions": "${a:-" * 3900,
    "errors": ") ( ' " * 3000,
    "readers": "echo " + "a " * 8000 + "| sh -c '" + "bash;" * 480 + "'",
}  # fmt: skip


@pytest.mark.parametrize("text", HEAVY.values(), ids=HEAVY)
def test_heavy_texts_are_read_or_refused(text: str) -> None:
    """They end, within the stack that Python has."""
    assert len(text) <= LONGEST_COMMAND
    assert all(0 <= risk.span[0] <= risk.span[1] <= len(text) for risk in risks(text))


def test_a_long_list_is_read_to_its_end() -> None:
    """A list is a deep tree, but no deep nesting."""
    assert [risk.kind for risk in risks("true && " * 300 + "rm x")] == [Kind.DELETES]


def test_scripts_in_scripts_end_with_a_remark() -> None:
    text = "rm x"
    for _ in range(8):
        text = "sh -c " + "'" + text.replace("'", "'\\''") + "'"
    assert Kind.UNREADABLE in {risk.kind for risk in risks(text)}


# ---- the shell code of an answer, and where it stands there ----------------------------------------------------------


ANSWERS = {
    "a fence with a language": ("Text.\n\n```sh\nls -l\n```\n\nMore.", ["ls -l"]),
    "a fence in attributes": ("```{.bash}\nls -l\n```", ["ls -l"]),
    "words after the language": ("```bash title=x\nls -l\n```", ["ls -l"]),
    "another language": ("```python\nimport os\n```", []),
    "two fences": ("```sh\na\n```\n\n```fish\nb\n```", ["a", "b"]),
    "a fence that is open": ("```sh\nls -l\n", ["ls -l"]),
    "an empty fence": ("```sh\n\n```", []),
    "a fence in a list": ("1. do\n\n   ```sh\n   ls -l\n   ```\n", ["ls -l"]),
    "a fence in a quote": ("> ```sh\n> ls -l\n> ```\n", ["ls -l"]),
    "four marks": ("````sh\ncat <<END\n```\nEND\n````", ["cat <<END\n```\nEND"]),
    "a prompt in a fence of sh": ("```sh\n$ ls\n```", ["ls"]),
    "the prompt of zsh": ("```\n% ls\n```", ["ls"]),
    "a prompt with user and host": ("```\nbob@host:~/x$ ls\na.txt\n```", ["ls"]),
    "the prompt of root": ("```console\n# reboot\n```", ["reboot"]),
    "a remark is no prompt": ("```sh\n# reboot\nls\n```", ["# reboot\nls"]),
    "several prompts": ("```console\n$ cd x\n$ ls\na  b\n$ pwd\n/x\n```", ["cd x\nls\npwd"]),
    "a command that goes on": ("```console\n$ ls \\\n> -l\nout\n```", ["ls \\\n-l"]),
    **{
        f"the prompt {prompt}": (f"```\n{prompt} rm x\nout\n```", ["rm x"])
        for prompt in (
            "[me@host ~]$",
            "[root@host my folder]#",
            "host:~ me$",
            "➜  ~",
            "➜  src git:(main) ✗",
            "➜",
            "me@host ~/a>",
            "└─$",
            "bash-5.2#",
            "/ #",
            "~/src $",
            "(venv) me@host:~$",
        )
    },
    "a loop that goes on": ("```\n$ for f in *; do\n>   rm x\n> done\n> out\n```", ["for f in *; do\n  rm x\ndone"]),
    "a loop without marks": ("```\n$ if a; then\n  rm x\nfi\nout\n```", ["if a; then\n  rm x\nfi"]),
    "a loop in zsh": ("```\n% while a\nwhile> do b\nwhile> done\n> out\n```", ["while a\ndo b\ndone"]),
    "a here-document": (
        "```\n$ sh <<E\n> rm x\n> E\n> out\n$ sh << 'E'\nls\nE\nout\n```",
        ["sh <<E\nrm x\nE\nsh << 'E'\nls\nE"],
    ),
    "an open quote": ("```\n$ sh -c 'ls\n> rm x'\n> out\n$ echo it's\nout\n```", ["sh -c 'ls\nrm x'\necho it's"]),
    "a pipe that goes on": ("```\n$ ls |\n>  cat\nout\n```", ["ls |\n cat"]),
    "output with marks of quotes": ("```console\n$ npm test\n> app@1.0.0 test\n> node x.js\n```", ["npm test"]),
    "line ends of Windows": ("```sh\r\nls\r\n```\r\n", ["ls"]),
}


@pytest.mark.parametrize(("answer", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_the_commands_of_an_answer_and_where_their_lines_stand_in_it(answer: str, expected: list[str]) -> None:
    blocks = shell_blocks(answer)
    assert [block.command for block in blocks] == expected
    for block in blocks:
        for (_, outside), line in zip(block.lines, block.command.split("\n"), strict=True):
            assert answer[outside : outside + len(line)] == line
        assert block.span[0] <= block.lines[0][1] and block.lines[-1][1] <= block.span[1]


def test_a_risk_is_placed_in_the_answer() -> None:
    answer = "Größe?\n\n- so:\n\n  ```console\n  $ cd /tmp\n  $ rm -rf 'ä b'\n  ```\n\n```sh\nsudo ls\n```\n"
    found = {answer[slice(*risk.span)]: risk.kind for risk in answer_risks(answer)}
    assert found == {"rm -rf 'ä b'": Kind.DELETES, "sudo ls": Kind.ROOT}


def test_a_block_without_a_language_may_be_something_else_and_a_huge_answer_is_not_searched() -> None:
    assert answer_risks("```\n(this is (no shell\n```") == ()
    assert [risk.kind for risk in answer_risks("```sh\n(this is (no shell\n```")] == [Kind.UNREADABLE]
    assert shell_blocks("```sh\nls\n```\n" + "a" * LONGEST) == ()


# ---- words and their places ------------------------------------------------------------------------------------------


def only(text: str) -> SimpleCommand:
    (command,) = parse(text).commands
    return command


def values(command: SimpleCommand) -> list[str]:
    return [word.value for word in command.words]


WORDS = {
    "echo 'a b' \"c d\"": ["echo", "a b", "c d"],
    'echo "a\\"b" \'c\\d\'': ["echo", 'a"b', "c\\d"],
    'echo "a\\tb\\$c"': ["echo", "a\\tb$c"],
    r"echo $'a\tb\x41\102\u00e9\'c'": ["echo", "a\tbABé'c"],
    "echo pre'mid'\"post\"": ["echo", "premidpost"],
    'echo "$HOME/a b" ${X:-y} $((1 + 2))': ["echo", "$HOME/a b", "${X:-y}", "$((1 + 2))"],
    "echo über 'größer' 日本": ["echo", "über", "größer", "日本"],
    "cat <file> {{path/to/file}} <path/to/file ...>": ["cat", "<file>", "{{path/to/file}}", "<path/to/file ...>"],
    "ssh <user>@<host>": ["ssh", "<user>@<host>"],
    "git commit -m ''": ["git", "commit", "-m", ""],
    "echo a\\\nb": ["echo", "ab"],
}


@pytest.mark.parametrize(("text", "words"), WORDS.items())
def test_words_have_no_quotes_and_know_their_source(text: str, words: list[str]) -> None:
    assert values(only(text)) == words
    at = 0
    for word in only(text).words:
        assert text[at : word.span[0]].strip() == "", "the sources, with the white space between them, are the text"
        at = word.span[1]
    assert at == len(text)


def test_expansions_and_patterns_are_told_from_plain_words() -> None:
    words = only("rm \"$a\" '$a' *.txt '*.txt' a\\* x{1,2} b").words
    assert [word.plain for word in words] == [True, False, True, True, True, True, True, True]
    assert [word.pattern for word in words] == [False, False, False, True, False, False, True, False]


def test_the_place_of_a_quoted_script_is_exact_and_with_escapes_the_whole_word() -> None:
    text = "sudo sh -c 'cd /tmp; rm -rf build'"
    inner = parse(text).commands[-1]
    assert text[slice(*inner.span)] == "rm -rf build"
    assert [text[slice(*word.span)] for word in inner.words] == ["rm", "-rf", "build"]
    text = 'sh -c "rm \\"a b\\""'
    inner = parse(text).commands[-1]
    assert values(inner) == ["rm", "a b"] and text[slice(*inner.span)] == '"rm \\"a b\\""'


def test_a_text_that_is_too_long_is_not_read() -> None:
    assert parse("a" * (LONGEST_COMMAND + 1)).unreadable == ((0, LONGEST_COMMAND + 1),)
    assert parse("").commands == () and parse("").unreadable == ()
    assert parse("# a remark").commands == ()
