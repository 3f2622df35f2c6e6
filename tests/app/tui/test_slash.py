"""Which prompts are commands. Most of what begins with a slash and was pasted is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tui.completion import Completion
from app.tui.slash import COMMANDS, Question, TypedCommand, UnknownCommand, completion_of_commands, parse

QUESTIONS = (
    "list hidden files",
    "how do I use /help in irc?",
    "/etc/hosts is missing",
    "/usr/bin/env: no such file",
    "/bin/sh: 1: foo: not found",
    "/help.txt",
    "/help?",
    "/help: command not found",
    "/^help$/",
    "/* a comment in C */",
    "/",
    "// TODO: quit here",
    "//example.org/path",
    "/1",
    "/-h",
    "／help",
    "\\/help",
    "```\n/help\n```",
    "/help\nand then more lines",
    "/export\tmd\nis a line of my script",
    "\n/help",
    " /help",
    "//help",
    "//model what does this mean",
)


@pytest.mark.parametrize("text", QUESTIONS)
def test_what_people_paste_is_a_question(text: str) -> None:
    typed = parse(text, COMMANDS)
    assert isinstance(typed, Question)
    known = text.startswith(("//help", "//model"))
    assert typed.text == (text[1:] if known else text.strip()), "only the slash that was put before a command goes"


@pytest.mark.parametrize(
    ("text", "word", "argument"),
    [
        ("/help", "help", ""),
        ("/HELP", "help", ""),
        ("/help  \n", "help", ""),
        ("/model qwen3:8b", "model", "qwen3:8b"),
        ("/model   org/name-7B  ", "model", "org/name-7B"),
        ("/rename /etc/hosts, and what is in it", "rename", "/etc/hosts, and what is in it"),
        ("/search\ttar -xzf", "search", "tar -xzf"),
        ("/export md ~/notes/a file.md", "export", "md ~/notes/a file.md"),
        ("/exit", "quit", ""),
        ("/retry", "again", ""),
        ("/clear", "new", ""),
    ],
)
def test_a_command_and_what_follows_it(text: str, word: str, argument: str) -> None:
    typed = parse(text, COMMANDS)
    assert isinstance(typed, TypedCommand)
    assert (typed.command.word, typed.argument, typed.problem) == (word, argument, "")


def test_a_command_that_takes_nothing_is_not_done_with_something_after_it() -> None:
    typed = parse("/source code of ls, where is it?", COMMANDS)
    assert isinstance(typed, TypedCommand) and "begin it with a space" in typed.problem


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("/hlep", "help"),
        ("/mode", "model"),
        ("/expert", "export"),
        ("/qui", "quit"),
        ("/Re", "rename"),
        ("/exi", "quit"),
        ("/remotse", "servers"),
    ],
)
def test_an_unknown_word_alone_offers_the_nearest_commands(text: str, near: str) -> None:
    typed = parse(text, COMMANDS)
    assert isinstance(typed, UnknownCommand) and typed.near[0] == near
    assert f"no command {text}. Did you mean /{near}" in typed.problem


def test_an_unknown_word_that_is_near_nothing_sends_nothing_either() -> None:
    typed = parse("/xyzzy", COMMANDS)
    assert isinstance(typed, UnknownCommand) and not typed.near
    assert typed.problem.startswith("There is no command /xyzzy. /help lists the commands.")


@given(st.text(max_size=40))
def test_no_letter_of_a_question_is_lost(text: str) -> None:
    typed = parse(text, COMMANDS)
    if isinstance(typed, Question):
        assert typed.text in (text.strip(), text[1:].strip())
        assert typed.text == text.strip() or text.startswith("//")
    else:
        assert text.startswith("/") and "\n" not in text.strip()


@given(st.text(alphabet="/ahelpnwtc .\n", max_size=30))
def test_a_space_before_it_always_makes_a_question(text: str) -> None:
    assert parse(f" {text}", COMMANDS) == Question(text.strip())


def test_each_word_means_one_command() -> None:
    words = [word for one in COMMANDS for word in (one.word, *one.others)]
    assert len(words) == len(set(words))


# ---- completion ------------------------------------------------------------------------------------------------------


def completed(text: str, cursor: int | None = None) -> Completion | None:
    complete = completion_of_commands(
        lambda: COMMANDS, lambda command: ("md", "html") if command.word == "export" else (), lambda one: one.help
    )
    return complete(text, len(text) if cursor is None else cursor)


def offered(text: str, cursor: int | None = None) -> list[str]:
    completion = completed(text, cursor)
    return [] if completion is None else [one.text for one in completion.candidates]


def test_a_word_is_replaced_whole_and_what_follows_stays() -> None:
    completion = completed("/exp md notes.md", 3)
    assert completion is not None and (completion.start, completion.end) == (0, 4)


def test_the_first_word_after_a_command_is_completed_but_enter_waits_for_a_choice() -> None:
    completion = completed("/export h")
    assert completion is not None and not completion.eager
    assert (completion.start, completion.end, [one.text for one in completion.candidates]) == (8, 9, ["html"])
    assert offered("/export ") == ["md", "html"]
    assert offered("/export md notes") == offered("/new ") == []
