"""The parts of a command: words without quotes, places, redirections, pipes, and what runs what."""

from __future__ import annotations

import pytest

from app.commands.script import SimpleCommand
from app.commands.syntax import LONGEST, parse


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


REDIRECTIONS = {
    "a &> f": [("&>", "f")],
    "a < f > g 2> h": [("<", "f"), (">", "g"), (">", "h")],
    "a 2>&1": [(">&", "1")],
    "a <in>out": [("<", "in"), (">", "out")],
    "> f": [(">", "f")],
}


@pytest.mark.parametrize(("text", "expected"), REDIRECTIONS.items())
def test_redirections(text: str, expected: list[tuple[str, str]]) -> None:
    found = [(one.operator, one.target.value if one.target else "") for one in only(text).redirections]
    assert found == expected


def test_a_word_after_a_redirection_is_a_word_of_the_command() -> None:
    assert values(only("rm > log.txt notes.txt")) == ["rm", "notes.txt"]


def test_a_pipe_feeds_what_comes_later() -> None:
    commands = {command.program: command for command in parse("a | b | sudo c && d").commands}
    assert [feeder.program for feeder in commands["c"].feeders] == ["a", "b"]
    assert [outer.program for outer in commands["c"].outers] == ["sudo"]
    assert commands["d"].feeders == ()


def test_a_substitution_belongs_to_its_word() -> None:
    outer = next(command for command in parse('sh -c "$(curl x)" <(ls)').commands if command.program == "sh")
    assert [[inner.program for inner in word.substitutions] for word in outer.words] == [[], [], ["curl"], ["ls"]]


PROGRAMS = {
    "sudo -nu bob rm x": ["sudo", "rm"],
    "sudo -l rm": ["sudo"],
    "env -u A B=2 rm x": ["env", "rm"],
    "timeout -s KILL 5 rm x": ["timeout", "rm"],
    "xargs -I {} -P 4 rm {}": ["xargs", "rm"],
    "find . -exec rm {} \\; -exec mv {} a \\;": ["find", "rm", "mv"],
    "find . -exec grep a + {} +": ["find", "grep"],
    "ssh host -p 22 rm x": ["ssh", "rm"],
    "docker run -it --name a -v b:c image rm x": ["docker", "rm"],
    "docker compose exec web rm x": ["docker", "rm"],
    "setpriv --reuid 1000 --clear-groups gosu bob rm x": ["setpriv", "gosu", "rm"],
    "bash script.sh -c rm": ["bash", "rm"],
    "bash -euo pipefail -c 'rm x'": ["bash", "rm"],
}


@pytest.mark.parametrize(("text", "programs"), PROGRAMS.items())
def test_wrappers_are_seen_through(text: str, programs: list[str]) -> None:
    assert [command.program for command in parse(text).commands] == programs


def test_what_runs_elsewhere_is_far() -> None:
    commands = parse("ls; ssh host 'sudo rm x'; docker exec web mv a b").commands
    assert [command.program for command in commands if command.far] == ["sudo", "rm", "mv"]


UNREADABLE = ["rm (", "echo 'a", "if true; then ls", "cat <<END\ntext", "a | | b", "for in do", ")"]


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_does_not_parse_is_named(text: str) -> None:
    (span,) = parse(text).unreadable
    assert 0 <= span[0] <= span[1] <= len(text)


def test_a_text_that_is_too_long_is_not_read() -> None:
    assert parse("a" * (LONGEST + 1)).unreadable == ((0, LONGEST + 1),)
    assert parse("").commands == () and parse("").unreadable == ()
    assert parse("# a remark").commands == ()
