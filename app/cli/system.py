"""`outrider system`: the library of system prompts, one text file each.

stdout is data; exit codes: 0 ok, 1 the editor failed, 2 usage, also a prompt that cannot be read.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import completion
from app.cli.options import Json
from app.cli.output import print_json
from app.cli.piped import read_piped
from app.exits import FAILED, USAGE, complain, fail
from app.files import NotText, expanded, text_of

if TYPE_CHECKING:
    from app.system_prompts import SystemPrompt, SystemPrompts

EXCERPT = 60
"""Characters of a prompt that the list shows."""

system_commands = typer.Typer(
    help="List, show, add, edit and remove system prompts. Without a command, list them.", rich_markup_mode=None
)
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name in the library.", autocompletion=completion.system_prompts)
]
NewName = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, dots, dashes and underscores.")]


@system_commands.callback(invoke_without_command=True)
def system(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        show_list(json=False)


@system_commands.command("list")
def show_list(json: Json = False) -> None:
    """List the system prompts: name and first words."""
    from app.sanitise import one_line
    from app.system_prompts import name_problem

    prompts = _library()
    count = 0
    for name, text, problem in prompts.all():
        count += 1
        if problem:
            complain(problem)
        if json:
            about = {"text": text or None, "problem": problem or None}
            print_json({"name": name, "file": str(prompts.path(name)), **about})
        elif not problem:
            line = one_line(text)
            print(name, line if len(line) <= EXCERPT else f"{line[: EXCERPT - 1]}…", sep="  ")
    for path in prompts.ignored():
        complain(f"{path} is left out: {name_problem(path.stem)}")
    if not count:
        complain(f"no system prompts; add one: outrider system add NAME. They are files in {prompts.folder}")


@system_commands.command("show")
def show(name: Name, json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Print a system prompt."""
    from app.sanitise import sanitise

    prompts = _library()
    text = prompts.get(name)
    if json:
        print_json({"name": name, "file": str(prompts.path(name)), "text": text})
    else:
        print(sanitise(text))


@system_commands.command("add")
def add(
    name: NewName,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="Default: a file, stdin, or your editor.")] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the text from this file, or from stdin with -.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the prompt of that name.")] = False,
) -> None:
    """Add a system prompt: TEXT, a file or stdin, or what you write in $VISUAL or $EDITOR."""
    prompts = _library()
    if text is not None and file is not None:
        fail("Give either TEXT or --file, not both.", USAGE)
    if name in prompts and not replace:
        fail(f"A system prompt named {name} exists already; --replace replaces it.", USAGE)
    prompts.path(name)  # An invalid name is reported before the person writes.
    if text is not None:
        _put(prompts, name, text)
    elif file is not None and str(file) != "-":
        _put(prompts, name, _text_of(file))
    elif file is not None or sys.stdin is None or not sys.stdin.isatty():
        _put(prompts, name, _from_stdin())
    else:
        _put_edited(prompts, name, "")


@system_commands.command("edit")
def edit(name: Name) -> None:
    """Edit a system prompt in $VISUAL or $EDITOR. Conversations that use it keep the old text."""
    prompts = _library()
    _put_edited(prompts, name, prompts.get(name))


@system_commands.command("rm")
def remove(name: Name) -> None:
    """Remove a system prompt. Conversations that use it keep it."""
    _library().remove(name)


def meant(given: str | None) -> SystemPrompt | None:
    """The system prompt that `--system` names, or None if it was not given. Raises `ConfigError`."""
    if given is None:
        return None
    from app.system_prompts import name_problem

    prompts = _library()
    prompt = prompts.meant_by(given)
    if prompt.text and prompt.name is None and name_problem(given) is None:
        complain(
            f"there is no system prompt {given!r} in the library, so this word itself is used as the system prompt"
        )
    return prompt


def _library() -> SystemPrompts:
    from app.config import Folders
    from app.system_prompts import SystemPrompts

    return SystemPrompts(Folders.locate())


def _put(prompts: SystemPrompts, name: str, text: str) -> None:
    """Save a prompt, and say where it is. Raises `ConfigError`."""
    complain(f"the system prompt {name} is in {prompts.put(name, text)}")


def _put_edited(prompts: SystemPrompts, name: str, text: str) -> None:
    """Let the person write it. A text that cannot be saved stays in a file that the message names."""
    from app.config import ConfigError
    from app.editor import EditedFile, EditorFailed, editor_command, editor_problem, start_problem

    try:
        command = editor_command()
        file = EditedFile(f"{text}\n" if text else "")
        try:
            code = subprocess.run([*command, str(file.path)], check=False).returncode
            problem = editor_problem(command, code)
        except (OSError, ValueError) as error:
            problem = start_problem(command, error)
        written = file.result(problem)
    except EditorFailed as error:
        fail(str(error), FAILED)
    if written.strip() == text:
        complain("no text was written, so nothing was saved" if not text else f"{name} is unchanged")
        return
    try:
        _put(prompts, name, written)
    except ConfigError as error:
        if not written.strip():
            raise
        try:
            kept = f"your text is in {EditedFile(written).path}"
        except EditorFailed as worse:
            kept = str(worse)
        fail(f"{error}; {kept}", FAILED)


def _text_of(file: Path) -> str:
    try:
        data = expanded(str(file)).read_bytes()
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}.", FAILED)
    return _decoded(data, str(file))


def _from_stdin() -> str:
    from app.system_prompts import MOST_BYTES

    return _decoded(read_piped(MOST_BYTES + 1), "stdin")


def _decoded(data: bytes, where: str) -> str:
    from app.system_prompts import MOST_BYTES

    if len(data) > MOST_BYTES:
        fail(f"{where}: a system prompt has at most {MOST_BYTES >> 10} kB.", USAGE)
    try:
        return text_of(data).replace("\r\n", "\n")
    except NotText as error:
        fail(f"{where} {error}.", USAGE)
