"""Commands that are typed into the prompt: their words, and how commands and questions are distinguished.

The palette reads the same table. A command is offered where its action exists: `app/tui/screens/chat/commands.py`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from app.prompts import trimmed
from app.tui.completion import Candidate, Completion, Provider

NEAR = 3
"""Maximum number of suggestions for an unknown command."""
MISSPELT = 0.8
"""How alike a word with further words must be to a command; less, and the line is a question, as `/tmp is full` is."""
AS_QUESTION = "To send the line as a question, begin it with a space."
TYPED = re.compile(r"/([A-Za-z][A-Za-z-]*)(?:[ \t]+(.*))?")
"""One line: a slash, a word, and what follows it. A path has another slash or a dot in its first word."""
WORD_SO_FAR = re.compile(r"/([A-Za-z-]*)")
VALUE_SO_FAR = re.compile(r"/([A-Za-z-]+)[ \t]+([^\s/]*)")
OF_SERVER = re.compile(r"/([A-Za-z0-9_-]+):(\S*)(?:\s+(.*))?", re.DOTALL)


class SlashCommand(NamedTuple):
    word: str
    help: str
    action: str
    """Its method is `action_…` of the first part of the screen that has one."""
    argument: str = ""
    """Its argument, as shown to the person; in brackets if it is optional."""
    key: str = ""
    """Id of the binding that does the same, if one does."""
    others: tuple[str, ...] = ()
    """Aliases from other programs, accepted but not offered."""

    @property
    def usage(self) -> str:
        return f"/{self.word} {self.argument}".rstrip()


COMMANDS = (
    SlashCommand("help", "Keys, commands and words", "show_help", key="app.help"),
    SlashCommand("new", "New conversation", "new", key="chat.new", others=("clear",)),
    SlashCommand("model", "Choose the model that answers", "models", "[NAME]", key="app.models", others=("models",)),
    SlashCommand("system", "Choose the system prompt of this conversation", "system", "[NAME]", key="chat.system"),
    SlashCommand("tools", "Choose the tools of this conversation", "tools"),
    SlashCommand("sampling", "Sampling settings of this conversation", "sampling", key="chat.sampling"),
    SlashCommand("servers", "Servers: add, test, switch", "show_remotes", key="app.remotes", others=("remotes",)),
    SlashCommand("local", "Models on this device, which answer while a server is away", "show_local"),
    SlashCommand(
        "again",
        "Regenerate the last answer",
        "regenerate",
        key="message.regenerate",
        others=("retry", "regenerate"),
    ),
    SlashCommand("continue", "Continue an incomplete answer", "resume", key="message.go_on"),
    SlashCommand("stop", "Stop the answer, keep its text", "stop_answer", key="chat.stop"),
    SlashCommand("edit", "Edit the last question", "edit_question", key="message.edit"),
    SlashCommand("copy", "Copy the last answer, or its last code", "copy_last", "[code]"),
    SlashCommand("paste", "Attach the image in the clipboard", "paste_image", key="prompt.paste"),
    SlashCommand(
        "source",
        "Show the pages the last answer is based on",
        "show_sources",
        key="message.source",
        others=("sources",),
    ),
    SlashCommand("check", "Have the model check the drafted answer", "verify", key="chat.verify", others=("verify",)),
    SlashCommand(
        "compact",
        "Summarise older messages; show them, or undo it",
        "compact",
        "[show|undo]",
        others=("summarize",),
    ),
    SlashCommand("queue", "Queue: what waits for the server", "show_queue", key="chat.queue"),
    SlashCommand("list", "Conversations: show or hide the list", "toggle_list", key="chat.list", others=("history",)),
    SlashCommand("search", "Search in all conversations", "search_for", "[WORDS]", key="chat.search"),
    SlashCommand("rename", "Rename this conversation", "rename_open", "[TITLE]", key="list.rename"),
    SlashCommand("pin", "Pin or unpin this conversation", "pin_open", key="list.pin"),
    SlashCommand("tag", "Tag this conversation, or remove a tag: -NAME", "tag_open", "[NAME…]"),
    SlashCommand("fork", "Fork: a new conversation from here", "fork", key="message.fork"),
    SlashCommand(
        "export", "Write this conversation to a file", "export_open", "[md|html|json] [FILE]", key="chat.export"
    ),
    SlashCommand("delete", "Delete this conversation; it is kept for 30 days", "delete_open", key="list.delete"),
    SlashCommand("learn", "Teach the small model with your checked answers", "learn", "[deep]"),
    SlashCommand("theme", "Choose the colours", "set_theme", "[NAME]"),
    SlashCommand("panel", "Panel: statistics of drafting and checking", "toggle_panel", key="chat.panel"),
    SlashCommand("rounds", "Statistics of the last rounds", "toggle_rounds", key="chat.rounds"),
    SlashCommand(
        "usage", "Tokens and costs of this conversation and of the last months", "usage", others=("cost", "costs")
    ),
    SlashCommand("log", "Program log", "show_log", key="app.log"),
    SlashCommand("quit", "Quit", "quit", key="app.quit", others=("exit", "bye")),
)


class TypedCommand(NamedTuple):
    command: SlashCommand
    argument: str

    @property
    def problem(self) -> str:
        """Why it cannot be done as typed; empty if it can."""
        if self.argument and not self.command.argument:
            return f"{self.command.usage} takes no argument. {AS_QUESTION}"
        return ""


class UnknownCommand(NamedTuple):
    """A prompt that begins with a slash and a word that is no command, and that may be meant as one."""

    word: str
    near: tuple[str, ...]
    """Words of commands that may be meant, the likeliest first."""

    @property
    def problem(self) -> str:
        *first, last = [f"/{word}" for word in self.near] or ["/help"]
        offered = f"{', '.join(first)} or {last}" if first else last
        hint = f"Did you mean {offered}?" if self.near else f"{offered} lists the commands."
        return f"There is no command /{self.word}. {hint} {AS_QUESTION}"


class PromptOfServer(NamedTuple):
    """`/SERVER:NAME` and what follows it: a question that an MCP server writes."""

    server: str
    name: str
    rest: str


class Question(NamedTuple):
    text: str


class Misused(Exception):
    """A command cannot be done as it was typed. The message says how to write it."""


def parse(text: str, commands: Sequence[SlashCommand]) -> TypedCommand | UnknownCommand | Question:
    """Classify a prompt. `text`: as it was typed. `commands`: those available now.

    >>> parse("/usr/bin/env: no such file", COMMANDS)
    Question(text='/usr/bin/env: no such file')
    >>> parse("//help me", COMMANDS)
    Question(text='/help me')
    """
    typed = TYPED.fullmatch(text.rstrip())
    if typed is None:
        escaped = TYPED.fullmatch(text[1:].rstrip()) if text.startswith("//") else None
        stands_for_itself = escaped is None or _named(escaped[1], commands) is None
        return _question(text if stands_for_itself else text[1:])
    word, argument = typed[1].lower(), (typed[2] or "").strip()
    command = _named(word, commands)
    if command is not None:
        return TypedCommand(command, argument)
    near = _misspelt(word, commands) if argument else _near(word, commands)
    return _question(text) if argument and not near else UnknownCommand(typed[1], tuple(near))


def _question(text: str) -> Question:
    """The space that makes a question of a command is no part of it."""
    asked = trimmed(text)
    return Question(asked if "\n" in asked else asked.lstrip())


def prompt_of_server(text: str, servers: Collection[str]) -> PromptOfServer | None:
    """The prompt of one of these MCP servers that a text names, if it names one."""
    typed = OF_SERVER.fullmatch(text.rstrip())
    if typed is None or typed[1] not in servers:
        return None
    return PromptOfServer(typed[1], typed[2], typed[3] or "")


def _named(word: str, commands: Iterable[SlashCommand]) -> SlashCommand | None:
    """The command for that word, ignoring case."""
    word = word.lower()
    return next((one for one in commands if word == one.word or word in one.others), None)


def _near(word: str, commands: Sequence[SlashCommand]) -> list[str]:
    """Commands that begin with the word, or are spelled similarly."""
    spellings = {spelling: one.word for one in commands for spelling in (*one.others, one.word)}
    begin = [one.word for one in commands if one.word.startswith(word)]
    alike = (spellings[spelling] for spelling in difflib.get_close_matches(word, spellings, NEAR))
    return list(dict.fromkeys([*begin, *alike]))[:NEAR]


def _misspelt(word: str, commands: Sequence[SlashCommand]) -> list[str]:
    """Commands that are spelled nearly like the word, or with the same letters in another order."""
    words = [one.word for one in commands]
    same = [one for one in words if sorted(one) == sorted(word)]
    return list(dict.fromkeys([*same, *difflib.get_close_matches(word, words, NEAR, MISSPELT)]))


def completion_of_commands(
    commands: Callable[[], Sequence[SlashCommand]],
    values: Callable[[SlashCommand], Iterable[str]],
    about: Callable[[SlashCommand], str],
) -> Provider:
    """Completes commands, and the first word after them.

    `commands`: those that can be done now. `values`: what may follow one. `about`: the description next to it.
    """

    def complete(text: str, cursor: int) -> Completion | None:
        before = text[:cursor]
        if "\n" in text:
            return None
        if so_far := WORD_SO_FAR.fullmatch(before):
            end = cursor + len(text[cursor:].split(" ", 1)[0])
            fitting = [one for one in commands() if one.word.startswith(so_far[1].lower())]
            offered = [Candidate(f"/{one.word}{' ' * bool(one.argument)}", one.usage, about(one)) for one in fitting]
            return Completion(0, end, tuple(offered), eager=True)
        if (so_far := VALUE_SO_FAR.fullmatch(before)) and (command := _named(so_far[1], commands())):
            typed = so_far[2]
            fitting_values = [value for value in values(command) if value.lower().startswith(typed.lower())]
            return Completion(cursor - len(typed), cursor, tuple(Candidate(one, one) for one in fitting_values))
        return None

    return complete
