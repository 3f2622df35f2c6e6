"""Whether the person is at the other end of a line."""

from __future__ import annotations

from collections.abc import Mapping


def over_ssh(environment: Mapping[str, str]) -> bool:
    """Whether the terminal is at the other end of a line. Mosh is started by SSH, and keeps its variables."""
    return bool(environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"))
