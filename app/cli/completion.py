"""Shell completion: what can be typed next. It is fast and offline, and fails silently."""

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
"""A file in `fpath` is itself the completion function; a sourced file registers one."""
MOST = 50
"""Most candidates of one reply."""
DESCRIPTION_LENGTH = 60
UNSAFE = re.compile(r"[^\w .,/+-]")
"""Characters of a title that become spaces. zsh evaluates its input, and the escaping in typer's script is not safe."""

Candidates = list[tuple[str, str]]
"""Pairs of a candidate and its description."""


def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print a script for Tab completion. It completes commands, options, conversations and more. To install it once:

    \b
    outrider completion bash > ~/.local/share/bash-completion/completions/outrider
    outrider completion zsh > ~/.zfunc/_outrider    # fpath+=~/.zfunc before compinit
    outrider completion fish > ~/.config/fish/completions/outrider.fish
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    from app.cli.settings import COMPLETION

    script = get_completion_script(prog_name="outrider", complete_var=COMPLETION, shell=shell)
    print(script.replace(ZSH_REGISTERS, ZSH_LOADED) if shell == "zsh" else script)


def answer_shells() -> None:
    """Install typer's completion if a shell requests it, so that the command line answers the shell."""
    from app.cli.settings import COMPLETION

    if COMPLETION in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()


def conversations(incomplete: str) -> Candidates:
    return _stored(incomplete, lambda store: [(one.id, one.title) for one in store.conversations.all()])


def queued(incomplete: str) -> Candidates:
    return _stored(incomplete, lambda store: [(one.id, one.text) for one in store.queue.all()])


def remotes(incomplete: str) -> Candidates:
    from app.config import Folders
    from app.remotes.registry import BUNDLED, Remotes

    def known() -> Candidates:
        named = [(name, remote.shown_url) for name, remote in Remotes(Folders.locate())]
        return [*named, (BUNDLED, "the bundled model, on this device")]

    return _readable(incomplete, known)


def providers(incomplete: str) -> Candidates:
    from app.remotes.providers import providers as known

    return _described([(one.name, one.title) for one in known()], incomplete)


def known_remotes(incomplete: str) -> Candidates:
    """Names of remotes that can be changed: all but `bundled`."""
    return [one for one in remotes(incomplete) if one[0] != "bundled"]


def local_models(incomplete: str) -> Candidates:
    from app.config import Folders
    from app.local.registry import LocalModels

    return _readable(incomplete, lambda: [(name, str(path)) for name, path in LocalModels(Folders.locate())])


def mcp_servers(incomplete: str) -> Candidates:
    from app.config import Folders
    from app.tools.mcp_file import McpFile

    return _readable(incomplete, lambda: [(name, server.place) for name, server in McpFile(Folders.locate())])


def catalogue_models(incomplete: str) -> Candidates:
    from app.local.catalogue import catalogue

    return _described([(entry.name, entry.good_for) for entry in catalogue().models], incomplete)


def system_prompts(incomplete: str) -> Candidates:
    from app.config import Folders
    from app.system_prompts import SystemPrompts

    prompts = SystemPrompts(Folders.locate())
    return _readable(incomplete, lambda: [(name, text) for name, text, _ in prompts.all()])


def templates(incomplete: str) -> Candidates:
    from app.config import Folders
    from app.templates import Templates

    return _readable(incomplete, lambda: [(name, "") for name in Templates(Folders.locate()).names()])


def _readable(incomplete: str, candidates: Callable[[], Candidates]) -> Candidates:
    """Those of a file of the settings; none if it cannot be read."""
    from app.config import ConfigError

    try:
        return _described(candidates(), incomplete)
    except ConfigError:
        return []


def _stored(incomplete: str, candidates: Callable[[Store], Candidates]) -> Candidates:
    from app.config import Folders
    from storage import StorageError, Store

    database = Folders.locate().database
    if not database.exists():  # A key press must not create one.
        return []
    try:
        with Store.read(database) as store:
            return _described(candidates(store), incomplete)
    except StorageError:
        return []


def _described(candidates: Candidates, incomplete: str) -> Candidates:
    fitting = [(value, text) for value, text in candidates if value.startswith(incomplete)][:MOST]
    return [(value, " ".join(UNSAFE.sub(" ", text).split())[:DESCRIPTION_LENGTH]) for value, text in fitting]
