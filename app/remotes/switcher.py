"""Manages the remotes for the screen: which are known, which one answers now, and what can be done with each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from app.concurrency import beside
from app.config import ConfigError, Folders, Settings, is_address
from app.events import ModeChanged
from app.remotes.registry import BUNDLED, Remote, Remotes
from remote.credentials import without_credentials
from storage import Choices
from storage.choices import NONE

if TYPE_CHECKING:
    from app.remotes.check import Finding
    from app.remotes.choice import Server
    from app.remotes.models import OfferedModel, ServerModels
    from app.remotes.nearby import NearbyServer, Surroundings
    from app.remotes.source import Source


class Asker(Protocol):
    """Sends the questions: `app.reply.assistant.Assistant`, or a script in a test."""

    def use(self, source: Source | None) -> None: ...

    def status(self) -> ModeChanged: ...


class RemoteSwitcher:
    """Switches the asker between remotes, and saves, tests and removes remotes.

    `settings`: those of the program's start. `ports`: where `look` looks, by default the usual ones.
    """

    def __init__(
        self,
        settings: Settings,
        folders: Folders,
        asker: Asker,
        fresh: Choices = NONE,
        *,
        ports: Sequence[int] | None = None,
    ) -> None:
        """`fresh`: the command line's choices for new conversations."""
        self.fresh = fresh
        """The choices with which new conversations begin, until another remote is used."""
        self._settings, self._asker, self._ports = settings, asker, ports
        self.folders = folders
        self.trouble = ""
        """Start-up error, if any."""
        self.now = self._at_start()
        """Name of the remote that answers now, or its address if it has no name, or None for the bundled verifier."""

    @property
    def status(self) -> ModeChanged:
        return self._asker.status()

    @property
    def unconfigured(self) -> bool:
        """Whether no server was ever named, in the settings or the registry."""
        chosen = self._settings.remote is not None or self._settings.mode == "offline"
        try:
            return not chosen and not self.trouble and not len(self.remotes())
        except ConfigError:
            return False

    def remotes(self) -> Remotes:
        """The remotes as they are on disk now, because another window may change them. Raises `ConfigError`."""
        return Remotes(self.folders)

    def use(self, name: str | None) -> str:
        """Switch to this remote, also for later starts. Returns a notice if there is a restriction, or "".

        A running answer is finished by the remote that began it. Raises `ConfigError`.
        """
        from app.remotes.choice import source_named  # The screen opens without httpx.

        remotes = self.remotes()
        source = source_named(name, remotes, self._settings)
        remotes.use(name)
        if self._settings.mode == "offline" and name is not None:
            return "Outrider was started offline; your choice takes effect at the next start."
        self._asker.use(source)
        self.now, self.fresh = name, NONE
        if self._settings.remote is not None:
            named = f"a setting or an option names {without_credentials(self._settings.remote)}"
            return f"Your choice ends when you quit, because {named}."
        return ""

    async def save(self, name: str, remote: Remote, token: str | None, was: str | None) -> Remote:
        """Save a remote, replacing the one named `was`; returns it as stored. Raises `ConfigError`.

        The very first remote is put into use. May take as long as a person needs to unlock a keyring.
        """
        from app.remotes.source import options_of
        from remote import Misconfigured

        remotes, first = self.remotes(), self.unconfigured
        if was is None and name in remotes:
            raise ConfigError(f"a server named {name} exists already")
        try:
            await beside(lambda: options_of(remote).check())
        except Misconfigured as error:
            raise ConfigError(str(error)) from None
        kept = await beside(lambda: remotes.put(name, remote, token, was=was))
        if first or (self.now is not None and self.now == was):
            self.use(name)
        return kept

    async def remove(self, name: str) -> None:
        """Delete a remote and its token. If it answers now, the bundled verifier takes over.

        May take as long as `save`. Raises `ConfigError`.
        """
        remotes = self.remotes()
        try:
            await beside(lambda: remotes.remove(name))
        finally:
            if self.now == name and name not in self.remotes():
                self.use(None)

    def knows(self, name: str) -> bool:
        """Whether there is such a server. True if the registry cannot be read."""
        try:
            return name == BUNDLED or name in self.remotes()
        except ConfigError:
            return True

    def servers(self) -> list[str]:
        """The names of all servers that have models. Raises `ConfigError`."""
        from app.remotes.models import servers

        return servers(self._settings, self.folders)

    def models(self, servers: Sequence[str]) -> AsyncGenerator[ServerModels, None]:
        """What each server offers, as soon as it has answered. Raises `ConfigError`."""
        from app.remotes.models import list_models

        return list_models(servers, self._settings, self.folders)

    def named(self, listed: Sequence[ServerModels], name: str) -> list[OfferedModel]:
        """The models among these that a name means: their own, or that of a server for its model.

        Raises `ConfigError`.
        """
        from app.remotes.models import find_offered

        if (found := find_offered(listed, name)) or name not in self.remotes():
            return found
        model = self.remotes().get(name).model
        return [one for of in listed if of.server == name for one in of.models if model is None or one.is_named(model)]

    def make_default(self, name: str, model: str | None) -> str:
        """Let this model of a remote, or the bundled one, answer new conversations; returns a notice like `use`.

        Raises `ConfigError`.
        """
        if name == BUNDLED:
            return self.use(None)
        remotes = self.remotes()
        if model is not None:
            remotes.put(name, msgspec.structs.replace(remotes.get(name), model=model))
        return self.use(name)

    @property
    def default(self) -> Server:
        """Who answers a conversation for which nothing was chosen. Raises `ConfigError`."""
        from app.remotes.choice import Server

        remotes = self.remotes()
        if self.now is None or self.now not in remotes:
            return Server(self.now or BUNDLED, None if self.now is None else self._settings.remote_model)
        return Server(self.now, remotes.get(self.now).model or self._settings.remote_model)

    def test(self, name: str) -> AsyncIterator[Finding]:
        """Test a remote, and yield one finding after another. Raises `ConfigError`."""
        from app.remotes.check import check
        from app.remotes.source import RemoteSource

        source = RemoteSource(name, self.remotes(), self._settings.remote_model)
        return check(source, self._settings, shelf=self.folders.fetched)

    async def look(self) -> Surroundings:
        """Look for model servers on this device. Call this only at a person's request."""
        from app.remotes.nearby import PORTS, look

        return await look(self._ports or PORTS)

    async def adopt(self, server: NearbyServer, model: str | None) -> tuple[str, str]:
        """Use a server that `look` found, and save it under a free name if it is new.

        Returns its name, and the notice of `use`. Raises `ConfigError`.
        """
        from app.remotes.nearby import free_name, known_as

        remotes = self.remotes()
        name = known_as(server, model, remotes)
        if name is None:
            name = free_name(server.program, [name for name, _ in remotes])
            await self.save(name, server.remote(model), None, None)
        return name, self.use(name)

    def _at_start(self) -> str | None:
        if self._settings.remote is not None and is_address(self._settings.remote):
            return self._settings.remote
        try:
            return self.remotes().meant_by(self._settings.remote)
        except ConfigError as error:
            self.trouble = str(error)
            return None
