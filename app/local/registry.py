"""The models on this device that the person added, by name. They are kept in `local.toml`, which the program rewrites.

A file is used where it is, and only its path is kept.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from app.config import ConfigError, Folders
from app.files import NotText, one_at_a_time, read_text, write_private

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,62}")
HEADER = "# Written by Outrider: `outrider local`. Comments are not kept.\n"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    models: dict[str, str] = {}


class LocalModels:
    """The models of one config folder. Each change is written at once."""

    def __init__(self, folders: Folders) -> None:
        """Read the file. Raises `ConfigError`, which names the file and the mistake."""
        self.path = folders.config / "local.toml"
        self._models = _read(self.path)

    def __iter__(self) -> Iterator[tuple[str, Path]]:
        return ((name, Path(path)) for name, path in self._models.items())

    def get(self, name: str) -> Path:
        """The file or folder of a model. Raises `ConfigError`, which lists all names."""
        if name not in self._models:
            known = f"; yours: {', '.join(self._models)}" if self._models else ""
            raise ConfigError(
                f"there is no model {name!r} on this device{known}. `outrider local find` looks for some."
            )
        return Path(self._models[name])

    def chosen(self, name: str | None) -> tuple[str, Path]:
        """The model of the setting `local`, by default the only one. Raises `ConfigError` if it names none."""
        if name is None and not self._models:
            raise ConfigError('offline = "local" needs a model on this device: outrider local find, then add')
        if name is None and len(self._models) > 1:
            raise ConfigError(f"offline is local, and there are several models: set local to {', '.join(self._models)}")
        name = name or next(iter(self._models))
        return name, self.get(name)

    def add(self, name: str, path: Path) -> None:
        """Add a model, or replace the one of that name. Raises `ConfigError`."""
        if not NAME.fullmatch(name):
            raise ConfigError("a name has letters, digits, dots, colons, dashes and underscores")
        self._change(lambda models: {**models, name: str(path.expanduser().absolute())})

    def remove(self, name: str) -> None:
        """Forget a model. Its file stays. Raises `ConfigError`."""
        self.get(name)
        self._change(lambda models: {other: path for other, path in models.items() if other != name})

    def _change(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        """Read the file again, because another window may have written it, and write what `change` makes of it."""
        try:
            with one_at_a_time(self.path):
                models = change(_read(self.path))
                lines = (f"{json.dumps(name)} = {json.dumps(path)}\n" for name, path in models.items())
                write_private(self.path, f"{HEADER}\n[models]\n{''.join(lines)}")
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {error.strerror}. Nothing was changed.") from None
        self._models = models


def _read(path: Path) -> dict[str, str]:
    try:
        return dict(msgspec.convert(tomllib.loads(read_text(path)), _File).models)
    except FileNotFoundError:
        return {}
    except NotText as error:
        raise ConfigError(f"{path} {error}.") from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path} cannot be read: {error}. Correct it, or delete it to start afresh.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}. Check its permissions.") from None
