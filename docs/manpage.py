"""Write the manual page from the commands themselves.

    python docs/manpage.py [OUT]

A test holds `docs/outrider.1` against what this writes; read it with `man -l docs/outrider.1`.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import typer  # noqa: E402

from app import config  # noqa: E402
from app.cli.__main__ import cli  # noqa: E402
from app.cli.handover import COMMAND_FILE  # noqa: E402
from app.config import PREFIX, Settings  # noqa: E402
from app.version import version_line  # noqa: E402

PAGE = ROOT / "docs" / "outrider.1"
EXIT_CODES = (
    (0, "Success."),
    (1, "Failure; stderr says why. Silent on a broken pipe."),
    (2, "Wrong usage or settings."),
    (3, "A server was needed but unreachable, refused the request or did not fit the drafter: ask, verify, "
     "queue send, models --remote, remote test, remote find."),
    (130, "Interrupted. The answer so far is stored."),
)  # fmt: skip
EXAMPLES = (
    ("outrider", "Open the chat."),
    ('outrider ask "list files by size"', "Print one answer."),
    ('git diff | outrider ask --remote ollama "write a commit message"', "Piped text is appended to the question."),
    ('outrider ask -c "and by date?"', "Continue the last conversation."),
    ("outrider export --all --format json -o history.json", "Export all conversations, to import them elsewhere."),
    ("outrider remote add openai", "Add a provider by its name."),
    ("outrider remote add office https://verifier.example:8000", "Add a server; you are asked for its token."),
    ('eval "$(outrider shell bash)"', "Add keys to bash that turn words into a command and explain commands."),
    ("make 2>&1 | outrider fix", "Propose a fix for a command that failed."),
    ("outrider doctor", "Diagnose problems."),
)
FILES = (
    ("config.toml", "Settings, in the config folder: on Linux ~/.config/outrider, on macOS "
     "~/Library/Application Support/outrider, on Windows %LOCALAPPDATA%\\outrider."),
    ("remotes.toml, tokens.json", "Named servers, in the same folder; tokens, if there is no keyring."),
    ("outrider.db", "All conversations, in the data folder: on Linux ~/.local/share/outrider, elsewhere the "
     "config folder."),
    ("outrider.log", "The log; `outrider log --path` prints its path."),
)  # fmt: skip
TYPES = re.compile(r" <(str|int|float|path|int range|float range|list\[\w+\])>$")
"""Names of Python types, which do not help a reader of the page."""


def page() -> str:
    """The whole page, as roff."""
    root = typer.main.get_command(cli)
    out = [
        '.\\" Written by docs/manpage.py from the commands; change those.',
        f'.TH OUTRIDER 1 "" "{version_line()}" "User Commands"',
        ".SH NAME",
        f"outrider \\- {text(summary(root.help).rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B outrider",
        "[\\fICOMMAND\\fR] [\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...",
        ".SH DESCRIPTION",
        text(root.help or ""),
        "Without a command it opens the chat.",
        ".SH OPTIONS",
        *entry("--version", "Print the version."),
        *entry("--help", "Show what a command does, and its options."),
        ".SH COMMANDS",
    ]
    for path, command in commands(root, "outrider"):
        out += described(path, command)
    out += [".SH EXIT STATUS"]
    for code, meaning in EXIT_CODES:
        out += entry(str(code), meaning)
    out += [".SH SETTINGS", text(f"In config.toml, or as a variable: {PREFIX} and the name in capitals.")]
    for name, default, meaning in settings():
        out += entry(f"{name} = {default}" if default else name, meaning)
    out += [".SH ENVIRONMENT", *entry("OUTRIDER_HOME", "One folder for settings, data and log.")]
    out += entry(f"{PREFIX}TOKEN", "Bearer token for the address in OUTRIDER_REMOTE, or else for that in `remote`.")
    out += entry(COMMAND_FILE, "File to which the chat writes the command that you choose for your shell.")
    out += entry("VISUAL, EDITOR", "Editor for Ctrl+G in the chat and for system prompts.")
    out += entry("NO_COLOR", "Draws the screen without colours.")
    out += [".SH FILES"]
    for name, meaning in FILES:
        out += entry(name, meaning, "I")
    out += [".SH EXAMPLES"]
    for line, meaning in EXAMPLES:
        out += entry(line, meaning)
    return "\n".join(out) + "\n"


def entry(term: str, meaning: str, font: str = "B") -> list[str]:
    quoted = text(term).replace('"', "\\(dq")  # A macro would take its arguments apart there.
    return [".TP", f".{font} {quoted}", text(meaning)]


def settings() -> Iterator[tuple[str, str, str]]:
    """Name, default in TOML (empty: none that reads the same everywhere), and what `Settings` says about it."""
    tree = ast.parse(Path(config.__file__).read_text(encoding="utf-8"))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Settings")
    for field, says in zip(body, body[1:]):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(says, ast.Expr) and isinstance(says.value, ast.Constant), field.target.id
            meaning = str(says.value.value).replace("None:", "Default:")
            yield field.target.id, toml(getattr(Settings(), field.target.id)), meaning


def toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() if not Path(value).is_absolute():
            return f'"{value}"'
        case int() | float():
            return str(value)
    return ""


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command that can be run, with the words that run it, in the order of the help."""
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            if getattr(child, "invoke_without_command", True):
                yield f"{path} {name}", child
            yield from commands(child, f"{path} {name}")


def described(path: str, command: Any) -> list[str]:
    context = command.context_class(command, info_name=path)
    params = [one for one in command.params if not getattr(one, "hidden", False)]
    arguments = [one for one in params if one.param_type_name == "argument"]
    options = [one for one in params if one.param_type_name == "option"]
    pieces = [re.sub(r"[{}]", "", piece) for one in arguments for piece in one.get_usage_pieces(context)]
    shown = "".join(f" \\fI{text(piece)}\\fR" for piece in pieces)
    out = [f".SS {text(path)}{' [OPTION]...' if options else ''}{shown}"]
    for number, paragraph in enumerate((command.help or "").strip().split("\n\n")):
        if paragraph.startswith("\b"):  # Lines that stay as they are.
            out += [".PP", ".nf", *(text(line) for line in paragraph[1:].strip().split("\n")), ".fi"]
        else:
            out += [".PP"] * (number > 0) + [text(paragraph)]
    for one, font in [(one, "I") for one in arguments] + [(one, "B") for one in options]:
        record = one.get_help_record(context)
        if record is not None:
            out += entry(TYPES.sub("", record[0]), record[1].replace("  [", " [").replace("[required]", ""), font)
    return out


def summary(help_text: str | None) -> str:
    return (help_text or "").strip().split("\n")[0]


def text(words: str) -> str:
    """The words as roff prints them: no requests, no escapes, and hyphens that can be copied."""
    plain = re.sub(r"\s+", " ", words.replace("`", "'")).strip()
    plain = plain.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("τ", "tau")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT", default=PAGE)
    out: Path = parser.parse_args().out
    out.write_text(page(), encoding="utf-8")
