"""The script that `outrider shell` prints: one for each shell, with the keys and paths of this installation."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Literal

from app.config import Settings
from app.shell.place import ROOT, folder, socket_path

ShellName = Literal["bash", "zsh", "fish"]
SCRIPTS = Path(__file__).parent / "scripts"


def script(shell: ShellName, settings: Settings) -> str:
    """The script for one shell. Raises `NoPlace` if there can be no private folder for it."""
    text = (SCRIPTS / f"outrider.{shell}").read_text(encoding="utf-8")
    fields = {
        "PYTHON": sys.executable,
        "CLIENT": str(Path(ROOT, "app", "shell", "__main__.py")),
        "ROOT": ROOT,
        "FOLDER": folder(),
        "SOCKET": socket_path(),
        "COMMAND_KEY": keys_for(shell, settings.shell_command_key),
        "EXPLAIN_KEY": keys_for(shell, settings.shell_explain_key),
        "GHOST": "1" if settings.shell_ghost else "",
    }
    for name, value in fields.items():
        text = text.replace(f"@{name}@", _quoted(shell, value))
    return text


def keys_for(shell: ShellName, keys: str) -> str:
    """A key, such as `alt-m` or `ctrl-x ctrl-m`, as this shell's own `bind` writes it."""
    return "".join(_key(shell, *key.split("-")) for key in keys.split())


def _key(shell: ShellName, modifier: str, letter: str) -> str:
    if shell == "bash":
        return f"\\e{letter}" if modifier == "alt" else f"\\C-{letter}"
    if shell == "zsh":
        return f"^[{letter}" if modifier == "alt" else f"^{letter.upper()}"
    return f"\\e{letter}" if modifier == "alt" else f"\\c{letter}"


def _quoted(shell: ShellName, value: str) -> str:
    if shell != "fish":
        return shlex.quote(value)
    if value.startswith(("\\e", "\\c")):  # Keys: fish reads their escapes only outside of quotes.
        return value
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
