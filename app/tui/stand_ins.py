"""Manages the models on this device for the screen: which there are, and which one stands in for a server."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from app.concurrency import beside
from app.config import ConfigError, Folders, Settings
from app.events import StandIn
from app.files import size_text
from app.reply.assistant import Assistant

if TYPE_CHECKING:
    from app.local.catalogue import Entry
    from app.local.registry import LocalModels

OTHERS = "This conversation's server has its own settings for when it is away; they take precedence."
MOST_SHARE = 0.5
"""Share of the free memory that the weights of a model may have which is proposed to the person."""


class LocalModel(NamedTuple):
    name: str
    path: Path
    size: int | None
    """Bytes of its weights; None if they are missing."""
    program: str = ""
    """The program that keeps it, if it was found and not added yet."""


class StandIns:
    """Lists and chooses the models on this device that answer while a server is away. `settings`: of the start."""

    def __init__(self, settings: Settings, folders: Folders, core: Assistant) -> None:
        self._settings, self._folders, self._core = settings, folders, core

    @property
    def now(self) -> StandIn | None:
        return self._core.standing_by

    @property
    def missed_by(self) -> str | None:
        """Name of the server that is away without a stand-in, if no setting says what happens then."""
        return self._core.missed if self._settings.offline is None else None

    @property
    def trouble(self) -> str:
        """Why the file of the models cannot be read, or empty."""
        try:
            self._models()
        except ConfigError as error:
            return str(error)
        return ""

    async def candidate(self) -> LocalModel | None:
        """A model that could stand in: the largest that leaves memory to others; one that was added, if any fits."""
        from models.free_memory import free_bytes

        most = MOST_SHARE * await beside(free_bytes)
        for models in (self.added(), await self.found()):
            fitting = [model for model in models if (model.size or 0) <= most]
            for model in sorted(fitting, key=lambda model: model.size or 0, reverse=True):
                if await beside(partial(_why_not, model)) is None:
                    return model
        return None

    def added(self) -> list[LocalModel]:
        """The models that were added. Raises `ConfigError`."""
        from models.gguf.file import weight_bytes

        return [LocalModel(name, path, weight_bytes(path)) for name, path in self._models()]

    async def found(self) -> list[LocalModel]:
        """The models that other programs keep here and that were not added. May take as long as the disk does."""
        from app.local.find import find

        known = {realpath(path) for _, path in self._models()}
        new = (one for one in await beside(lambda: find([])) if realpath(one.path) not in known)
        return [LocalModel(one.name, one.path, one.size, one.program) for one in new]

    def offered(self, here: Collection[str]) -> list[Entry]:
        """The models of the catalogue that are not among those on this device, by name."""
        from app.local.catalogue import catalogue

        return [one for one in catalogue().models if one.name not in here]

    async def use(self, model: LocalModel | None) -> str:
        """Let this model answer while a server is away, or nobody; add it first if it was only found.

        Returns why that has no effect yet, or "". Raises `ConfigError`.
        """
        from app.local.registry import why_no_effect

        models, name = self._models(), None
        if model is not None:
            if (reason := await beside(lambda: _why_not(model))) is not None:
                raise ConfigError(reason)
            name = models.free_name(model.name, model.path) if model.program else model.name
            if model.program:
                models.add(name, model.path)
        models.use(name)
        if why := why_no_effect(self._settings, name):
            return why
        await self._core.stand_by(name)
        now = self.now
        return OTHERS if (None if now is None else now.name) != name else ""

    async def forget(self, name: str) -> None:
        """Forget a model; its file stays. Raises `ConfigError`."""
        if self._models().used == name:
            await self.use(None)
        self._models().remove(name)

    def _models(self) -> LocalModels:
        from app.local.registry import LocalModels

        return LocalModels(self._folders)


def _why_not(model: LocalModel) -> str | None:
    """Why a model cannot answer here, or None if it can. May read its files."""
    from app.local.suitability import check
    from app.remotes.own_server import why_not
    from models.errors import ModelError

    try:
        if model.program:
            check(model.path)
    except ModelError as error:
        return str(error)
    return why_not(str(model.path))


def state_of(model: StandIn) -> str:
    """What a model that stands in does now, in words."""
    used = "" if model.memory is None else f", {size_text(model.memory)} of memory"
    said = {"asleep": "idle until it is needed", "loading": f"loading{used}", "ready": f"ready{used}"}
    return said.get(model.state, model.why)
