"""The messages between a shell and its helper: one line of JSON each way.

The helper first reports that it has accepted the request, or why not. `ghost` with `plain` gets one line of plain text
instead, which a shell reads without the help of a program.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Kind = Literal["command", "explain", "fix", "ghost", "status", "stop"]
MOST_LINE = 1 << 20
"""Longest request in bytes."""
MOST_TEXT = 1 << 16
Text = Annotated[str, msgspec.Meta(max_length=MOST_TEXT)]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A key press in a shell."""

    kind: Kind
    text: Text = ""
    """The words or the command of the line; for `fix`, the command that failed."""
    cwd: str = ""
    home: str = ""
    build: str = ""
    path: str = ""
    """The shell's search path for programs."""
    shell: Literal["bash", "zsh", "fish", ""] = ""
    status: int | None = None
    """Exit code of the command that failed."""
    error: Text = ""
    """What it printed, if known."""
    columns: Annotated[int, msgspec.Meta(ge=1)] = 80
    environment: dict[str, str] = {}
    """The variables of the shell that are settings."""
    plain: bool = False


class Taken(msgspec.Struct, frozen=True):
    """The request is being answered."""

    taken: bool = True


class Stale(msgspec.Struct, frozen=True):
    """The helper is of another version. It ends, and the next one answers."""

    stale: bool = True


class Answer(msgspec.Struct, frozen=True):
    """The result of a request. `note`: one line for the person."""

    text: str
    note: str = ""


class Refusal(msgspec.Struct, frozen=True):
    """There is no answer, and why."""

    error: str


class Status(msgspec.Struct, frozen=True):
    """What `outrider shell --status` prints."""

    pid: int
    seconds: float
    """Since it started."""
    idle_seconds: float
    answered: int
    memory_bytes: int | None
    remote: str


Reply = Answer | Refusal | Status
