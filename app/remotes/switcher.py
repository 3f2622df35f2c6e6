"""Remotes as the screen of them needs it: what is known, which one answers now, and what can be done with each."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from app.concurrency import beside
from app.config import ConfigError, Folders, Settings, is_address
from app.events import ModeChanged
from app.remotes.registry import Remote, Remotes

if TYPE_CHECKING:
    from app.remotes.check import Found
    from app.remotes.connection import Source


class Asks(Protocol):
    """Whoever asks the remote: `app.reply.assistant.Assistant`, or a script in a test."""

    def use(self, source: Source | None) -> None: ...

    def status(self) -> ModeChanged: ...


class Desk:
    """`settings`: as the program was started with; `asks` is switched from one remote to another."""

    def __init__(self, settings: Settings, folders: Folders, asks: Asks) -> None:
        self._settings, self._folders, self._asks = settings, folders, asks
        self.trouble = ""
        """Why it could not be told at the start which remote is meant, if so."""
        self.now = self._at_start()
        """Name, or where it has none address, of the one that answers now; None: the bundled verifier."""

    @property
    def status(self) -> ModeChanged:
        """How it goes with that one."""
        return self._asks.status()

    def remotes(self) -> Remotes:
        """As they are on the disk now: another window may have changed them. Raises `ConfigError`."""
        return Remotes(self._folders)

    def use(self, name: str | None) -> str:
        """Ask this one from now on, and at the next start; what speaks against that, if anything.

        An answer that is on its way is finished where it began. Raises `ConfigError`.
        """
        from app.remotes.choice import source_named  # The screen opens without httpx.

        remotes = self.remotes()
        source = source_named(name, remotes, self._settings)
        remotes.use(name)
        self._asks.use(source)
        self.now = name
        if self._settings.mode == "offline":
            return "Outrider was started offline; it counts from the next start."
        if self._settings.remote is not None:
            return f"Only until Outrider ends: a setting or an option says that the remote is {self._settings.remote}."
        return ""

    async def save(self, name: str, remote: Remote, token: str | None, was: str | None) -> Remote:
        """Keep one; `was`: the name of the one that it replaces. As it is kept. Raises `ConfigError`.

        Takes as long as a person needs to unlock a keyring.
        """
        from app.remotes.named import options_of
        from remote import Misconfigured

        remotes = self.remotes()
        if was is None and name in remotes:
            raise ConfigError(f"there is a remote {name} already")
        try:
            await beside(lambda: options_of(remote).check())
        except Misconfigured as error:
            raise ConfigError(str(error)) from None
        kept = await beside(lambda: remotes.put(name, remote, token, was=was))
        if self.now is not None and self.now == was:
            self.use(name)
        return kept

    async def remove(self, name: str) -> None:
        """Forget one, and its token; where it answers now, the bundled verifier does from then on.

        Takes as long as `save`. Raises `ConfigError`.
        """
        remotes = self.remotes()
        try:
            await beside(lambda: remotes.remove(name))
        finally:
            if self.now == name and name not in self.remotes():
                self.use(None)

    async def test(self, name: str) -> AsyncIterator[Found]:
        """One finding after another. Raises `ConfigError`."""
        from app.remotes.check import Subject, check

        async for found in check(Subject.named(name, self.remotes()), self._settings, os.environ):
            yield found

    def _at_start(self) -> str | None:
        if self._settings.remote is not None and is_address(self._settings.remote):
            return self._settings.remote
        try:
            return self.remotes().meant_by(self._settings.remote)
        except ConfigError as error:
            self.trouble = str(error)
            return None
