"""The models on this device that the person added, by name, and which one stands in for servers that are away.

They are kept in `local.toml`, which the program rewrites.

A file is used where it is, and only its path is kept.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, count
from os.path import realpath
from pathlib import Path
from typing import NamedTuple, get_args

import msgspec

from app.config import ConfigError, Folders, Settings, Unanswered, reading, toml_value, writing
from app.files import one_at_a_time, read_text, write_private
from models.files import why_absent

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,62}")
MOST_NAME = 56
"""Most characters of a name that is made here, which leaves room for a number."""
HEADER = "# Written by Outrider: `outrider local`, or the screen of local models. Comments are not kept.\n"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    use: str | None = None
    models: dict[str, str] = {}


class WhileAway(NamedTuple):
    """What happens while a server is away, and the model on this device that may answer then, or draft."""

    offline: Unanswered | None
    local: str | None

    def of(self, offline: Unanswered | None, local: str | None) -> WhileAway:
        """The same for a server that has these settings itself."""
        return WhileAway(offline or self.offline, local or self.local)

    @property
    def answers(self) -> bool:
        return self.offline == "local"

    @property
    def drafts(self) -> bool:
        """Whether it drafts for servers that check drafts: it answers for them, or is named."""
        return self.answers or (self.local is not None and self.offline != "drafter")


class Duty(NamedTuple):
    """What a model does for a server."""

    name: str
    path: Path
    answers: bool
    """It answers while the server is away; if not, it only drafts."""

    def __str__(self) -> str:
        said = f"{self.name} {'answers while it is away' if self.answers else 'drafts for it'}"
        return said if (why := why_absent(self.path)) is None else f"{said}, but {absent(self.name, self.path, why)}"


def absent(name: str, path: Path, why: str) -> str:
    """A sentence that the file of a model is absent, and what to do."""
    return f"{path} is {why}: restore it, or forget the model with `outrider local rm {name}`"


class LocalModels:
    """The models of one config folder. Each change is written at once."""

    def __init__(self, folders: Folders) -> None:
        """Read the file. Raises `ConfigError`, which names the file and the mistake."""
        self.path = folders.config / "local.toml"
        self._file = _read(self.path)

    @property
    def used(self) -> str | None:
        """Name of the model that was chosen to answer while a server is away, or None if none was."""
        return self._file.use if self._file.use in self._file.models else None

    def __iter__(self) -> Iterator[tuple[str, Path]]:
        return ((name, Path(path)) for name, path in self._file.models.items())

    def get(self, name: str) -> Path:
        """The file or folder of a model. Raises `ConfigError`, which lists all names."""
        models = self._file.models
        if name not in models:
            known = f"; yours: {', '.join(models)}" if models else ""
            raise ConfigError(
                f"there is no model {name!r} on this device{known}. `outrider local find` looks for some."
            )
        return Path(models[name])

    def chosen(self, name: str | None) -> tuple[str, Path]:
        """The model of the setting `local`, by default the one in use, or the only one.

        Raises `ConfigError` if it names none.
        """
        name, models = name or self.used, self._file.models
        if name is None and not models:
            raise ConfigError('offline = "local" needs a model on this device: outrider local find, then add')
        if name is None and len(models) > 1:
            raise ConfigError(f"offline is local, and there are several models: set local to {', '.join(models)}")
        name = name or next(iter(models))
        return name, self.get(name)

    def duty(
        self, settings: Settings, offline: Unanswered | None = None, local: str | None = None, kind: str = "auto"
    ) -> Duty | None:
        """What a model does for a server, or None if none does anything. It drafts if the tokenizers agree.

        `offline`, `local`, `kind`: the server's own settings. Raises `ConfigError` if they name no model.
        """
        away = self.while_away(settings).of(offline, local)
        drafts = away.drafts and kind not in ("openai", "anthropic") and settings.mode != "hosted"
        return Duty(*self.chosen(away.local), away.answers) if away.answers or drafts else None

    def while_away(self, settings: Settings) -> WhileAway:
        """What happens for servers without their own settings. Raises `ConfigError` if these name no model."""
        if settings.offline == "local" or (settings.offline is None and self.used is not None):
            return WhileAway("local", self.chosen(settings.local)[0])
        return WhileAway(settings.offline, settings.local)

    def use(self, name: str | None) -> None:
        """Let this model answer while a server is away, or None to let none. Raises `ConfigError`."""
        if name is not None:
            self.get(name)
        self._change(lambda models, _: (models, name))

    def free_name(self, wanted: str, path: Path) -> str:
        """A name for a model: that of its file if it was added, or else `wanted`, made to fit, with a free number."""
        models = self._file.models
        if (known := next((name for name, one in self if realpath(one) == realpath(path)), None)) is not None:
            return known
        name = re.sub(r"[^A-Za-z0-9._:-]+", "-", wanted).strip("._:-")[:MOST_NAME] or "model"
        numbered = (f"{name}-{number}" for number in count(2))
        return next(one for one in chain([name], numbered) if one not in models)

    def add(self, name: str, path: Path) -> None:
        """Add a model, or replace the one of that name. Raises `ConfigError`."""
        check_name(name)
        self._change(lambda models, use: ({**models, name: str(path.expanduser().absolute())}, use))

    def remove(self, name: str) -> None:
        """Forget a model. Its file stays. Raises `ConfigError`."""
        self.get(name)
        self._change(
            lambda models, use: (
                {other: models[other] for other in models if other != name},
                None if use == name else use,
            )
        )

    def _change(self, change: Callable[[dict[str, str], str | None], tuple[dict[str, str], str | None]]) -> None:
        """Read the file again, because another window may have written it, and write what `change` makes of it."""
        with writing(self.path), one_at_a_time(self.path):
            before = _read(self.path)
            models, use = change(before.models, before.use)
            lines = [] if use is None else [f"use = {toml_value(use)}\n"]
            lines += ["\n[models]\n", *(f"{toml_value(name)} = {toml_value(path)}\n" for name, path in models.items())]
            write_private(self.path, HEADER + "".join(lines))
        self._file = _File(use, models)


def duties(folders: Folders, settings: Settings) -> Callable[[Unanswered | None, str | None, str], Duty | None]:
    """What a model does for a server that has these settings itself; nothing if the file of models cannot be read."""
    try:
        return partial(LocalModels(folders).duty, settings)
    except ConfigError:
        return lambda offline, local, kind: None


def why_no_effect(settings: Settings, name: str | None) -> str:
    """Why choosing this model, or none, has no effect yet, or an empty text if it has one. Settings take precedence."""
    agrees: dict[str, tuple[str | None, ...]] = {"offline": (None, "local"), "local": (None, name)}
    if name is None:
        agrees = {"offline": (None, *{*get_args(Unanswered)} - {"local"})}
    for field, values in agrees.items():
        if (value := getattr(settings, field)) not in values:
            place = f"an option, OUTRIDER_{field.upper()} or config.toml"
            return f'Your choice has no effect yet: {place} says {field} = "{value}". Remove it there.'
    return ""


def check_name(name: str) -> None:
    """Raises `ConfigError` for what cannot be the name of a model."""
    if not NAME.fullmatch(name):
        raise ConfigError("a name has letters, digits, dots, colons, dashes and underscores")


def _read(path: Path) -> _File:
    try:
        with reading(path), suppress(FileNotFoundError, NotADirectoryError):
            return msgspec.convert(tomllib.loads(read_text(path)), _File)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path} cannot be read: {error}. Correct it, or delete it to start afresh.") from None
    return _File()
