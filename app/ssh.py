"""Detects SSH and Mosh."""

from __future__ import annotations

from collections.abc import Mapping


def over_ssh(environment: Mapping[str, str]) -> bool:
    """Whether the terminal is on another machine. Mosh is started over SSH and keeps its variables."""
    return bool(environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"))
