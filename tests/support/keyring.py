"""Keyrings for tests, behind the interface of the package `keyring`."""

from __future__ import annotations

import threading
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring
from keyring.errors import KeyringLocked, PasswordDeleteError

__all__ = ["MemoryKeyring", "NoKeyring", "PlainKeyring", "use_keyring"]


class MemoryKeyring(KeyringBackend):
    """Keeps passwords in memory. `locked`: it refuses every call. `silent`, when cleared: it waits for a person."""

    priority: Any = 5

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.locked = False
        self.silent = threading.Event()
        self.silent.set()

    def get_password(self, service: str, username: str) -> str | None:
        self._open()
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._open()
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._open()
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError("not there")

    def _open(self) -> None:
        self.silent.wait(30)
        if self.locked:
            raise KeyringLocked("locked")


class PlainKeyring(MemoryKeyring):
    """Has the priority of a keyring that keeps passwords unencrypted."""

    priority: Any = 0.5


def use_keyring(monkeypatch: pytest.MonkeyPatch, ring: KeyringBackend) -> None:
    """Make this the system's keyring until the end of the test."""
    before = keyring.get_keyring()
    monkeypatch.setattr(keyring.core, "_keyring_backend", ring)
    assert keyring.get_keyring() is ring is not before
