"""What could come next on a command line, for a shell that asks: cheap, offline, and without a word where it fails."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from storage import Store

Shell = Literal["bash", "zsh", "fish"]
ZSH_REGISTERS = "compdef _outrider_completion outrider"
ZSH_LOADED = f"""\
if [[ $funcstack[1] == _outrider ]]; then
  _outrider_completion "$@"
else
  {ZSH_REGISTERS}
fi"""
"""A file in `fpath` is itself the function that answers a press of the key; one that is sourced registers it."""
MOST = 50
"""Candidates at once."""
DESCRIPTION_LENGTH = 60
UNSAFE = re.compile(r"[^\w .,/+-]")
"""zsh evaluates what it is told, and the escaping of typer's script can be broken out of: nothing of a title that a
shell could take for its own gets there."""

Candidates = list[tuple[str, str]]
"""Each with what it is."""


def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="Whose completions.")]) -> None:
    """Print a script that completes commands, options, conversations and more. Once, where the folder is there:

    \b
    outrider completion bash > ~/.local/share/bash-completion/completions/outrider
    outrider completion zsh > ~/.zfunc/_outrider    # fpath+=~/.zfunc before compinit
    outrider completion fish > ~/.config/fish/completions/outrider.fish
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    from app.start import COMPLETION

    script = get_completion_script(prog_name="outrider", complete_var=COMPLETION, shell=shell)
    print(script.replace(ZSH_REGISTERS, ZSH_LOADED) if shell == "zsh" else script)


def answer_shells() -> None:
    """Where a shell asks what could come next, have it told in its own way."""
    from app.start import COMPLETION

    if COMPLETION in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()


def conversations(incomplete: str) -> Candidates:
    """Ids of conversations, with their titles."""
    return _stored(incomplete, lambda store: [(one.id, one.title) for one in store.conversations.all()])


def queued(incomplete: str) -> Candidates:
    """Ids of what waits for the verifier, with its text."""
    return _stored(incomplete, lambda store: [(one.id, one.text) for one in store.queue.all()])


def remotes(incomplete: str) -> Candidates:
    """Names of remotes, with their addresses, and the one that means the verifier on this device."""
    from app.config import ConfigError, Folders
    from app.remotes.registry import BUNDLED, Remotes

    try:
        known = [(name, remote.url) for name, remote in Remotes(Folders.locate())]
    except ConfigError:
        return []
    return _described([*known, (BUNDLED, "the verifier on this device")], incomplete)


def known_remotes(incomplete: str) -> Candidates:
    """The same, of those that can be changed."""
    return [one for one in remotes(incomplete) if one[0] != "bundled"]


def _stored(incomplete: str, candidates: Callable[[Store], Candidates]) -> Candidates:
    from app.config import Folders
    from storage import StorageError, Store

    database = Folders.locate().database
    if not database.exists():  # Pressing a key must not create one.
        return []
    try:
        with Store.open(database) as store:
            return _described(candidates(store), incomplete)
    except StorageError:
        return []


def _described(candidates: Candidates, incomplete: str) -> Candidates:
    fitting = [(value, text) for value, text in candidates if value.startswith(incomplete)][:MOST]
    return [(value, " ".join(UNSAFE.sub(" ", text).split())[:DESCRIPTION_LENGTH]) for value, text in fitting]
