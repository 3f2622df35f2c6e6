"""Write the manual page from the commands themselves.

    python docs/manpage.py [OUT]

A test holds `docs/outrider.1` against what this writes; read it with `man -l docs/outrider.1`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import typer  # noqa: E402

from app.cli import cli  # noqa: E402
from app.config import PREFIX, Settings  # noqa: E402

PAGE = ROOT / "docs" / "outrider.1"
EXIT_CODES = (
    (0, "Done."),
    (1, "It failed; stderr says why."),
    (2, "The command line or the settings are wrong."),
    (3, "No verifier could be reached, and one was needed."),
    (130, "Interrupted; what was answered by then is stored."),
)
EXAMPLES = (
    ("outrider", "Open the chat."),
    ('outrider ask "how do I unpack a tar archive"', "One answer on stdout."),
    ('git diff | outrider ask "write a commit message"', "What is piped in is appended to the question."),
    ('outrider ask -c "and for zip?"', "Go on with the last conversation."),
    ("outrider doctor", "Find out what is wrong."),
)
FILES = (
    ("config.toml", "Settings, in the folder of configuration."),
    ("outrider.db", "Everything that was said, in the folder of data."),
    ("outrider.log", "What the program did; `outrider log --path` prints where."),
)
TYPERS_OWN = ("--install-completion", "--show-completion")


def page() -> str:
    """The whole page, as roff."""
    root = typer.main.get_command(cli)
    out = [
        '.\\" Written by docs/manpage.py from the commands; change those.',
        ".TH OUTRIDER 1",
        ".SH NAME",
        f"outrider \\- {text(summary(root.help).rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B outrider",
        "[\\fICOMMAND\\fR] [\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...",
        ".SH DESCRIPTION",
        text(root.help or ""),
        "Without a command it opens the chat.",
        ".SH COMMANDS",
    ]
    for path, command in commands(root, "outrider"):
        out += described(path, command)
    out += [".SH EXIT STATUS"]
    for code, meaning in EXIT_CODES:
        out += [".TP", f".B {code}", text(meaning)]
    out += [".SH ENVIRONMENT", ".TP", ".B OUTRIDER_HOME", "One folder for settings, data, cache and log."]
    out += [".TP", f".B {PREFIX}\\fINAME\\fR", "Any setting, its name in capitals: "]
    out += [text(", ".join(name for name in Settings.__struct_fields__) + ".")]
    out += [".SH FILES"]
    for name, meaning in FILES:
        out += [".TP", f".I {text(name)}", text(meaning)]
    out += [".SH EXAMPLES"]
    for line, meaning in EXAMPLES:
        out += [".TP", f".B {text(line)}", text(meaning)]
    return "\n".join(out) + "\n"


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
    options = [one for one in params if one.param_type_name == "option" and one.opts[0] not in TYPERS_OWN]
    shown = "".join(f" \\fI{text(piece)}\\fR" for one in arguments for piece in one.get_usage_pieces(context))
    out = [f".SS {text(path)}{' [OPTION]...' if options else ''}{shown}"]
    for number, paragraph in enumerate((command.help or "").strip().split("\n\n")):
        out += [".PP"] * (number > 0) + [text(paragraph)]
    for one, font in [(one, "I") for one in arguments] + [(one, "B") for one in options]:
        record = one.get_help_record(context)
        if record is not None and record[1]:
            out += [".TP", f".{font} {text(record[0])}", text(record[1])]
    return out


def summary(help_text: str | None) -> str:
    return (help_text or "").strip().split("\n")[0]


def text(words: str) -> str:
    """As roff prints it: no requests, no escapes, and hyphens that can be copied."""
    plain = re.sub(r"\s+", " ", words.replace("`", "'")).strip()
    plain = plain.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("τ", "tau")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


if __name__ == "__main__":
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    out.write_text(page(), encoding="utf-8")
