"""The library of system prompts: one text file each, `prompts/NAME.md` next to the settings, for any editor.

A conversation stores the text of its system prompt, so changes of a file affect only new conversations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.config import PROMPT_NAME, ConfigError, Folders, reading, writing
from app.files import text_of, write_private
from storage import Choices, Message, Store
from storage.words import well_formed

ENDINGS = (".md", ".txt")
"""Endings of the files. If two files have the same name, the first ending counts."""
MOST_BYTES = 64 << 10
"""Longest system prompt, in bytes of UTF-8: about 16,000 tokens, which are read before each conversation."""
NO_PROMPT = "none"
"""Means no system prompt, so no prompt can have this name."""
TOO_LONG = f"a system prompt has at most {MOST_BYTES >> 10} kB"


class SystemPrompt(NamedTuple):
    """Instructions that a model reads before a conversation."""

    text: str
    """Empty if the person wants none."""
    name: str | None = None
    """Its name in the library, or None if it was written for one conversation."""


class SystemPrompts:
    """The system prompts of one config folder. Every call reads the files as they are now."""

    def __init__(self, folders: Folders) -> None:
        self.folder = folders.config / "prompts"

    def names(self) -> list[str]:
        """All names, in alphabetical order. Raises `ConfigError` if the folder cannot be read."""
        files: list[Path] = []
        with reading(self.folder), suppress(FileNotFoundError, NotADirectoryError):
            files = [path for path in self.folder.iterdir() if path.suffix in ENDINGS and path.is_file()]
        return sorted({path.stem for path in files if name_problem(path.stem) is None}, key=str.casefold)

    def ignored(self) -> list[Path]:
        """Files of the folder whose names cannot be used, except hidden files."""
        with_names = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(
            path
            for path in with_names
            if path.suffix in ENDINGS and not path.name.startswith(".") and name_problem(path.stem) is not None
        )

    def all(self) -> Iterator[tuple[str, str, str]]:
        """Name, text and problem of each prompt: the text is empty if there is a problem. Raises `ConfigError`."""
        for name in self.names():
            try:
                yield name, self.get(name), ""
            except ConfigError as error:
                yield name, "", str(error)

    def path(self, name: str) -> Path:
        """The file of a prompt, or the one that it would get. Raises `ConfigError` for what cannot be a name."""
        if problem := name_problem(name):
            raise ConfigError(problem)
        files = [self.folder / f"{name}{ending}" for ending in ENDINGS]
        return next((path for path in files if path.is_file()), files[0])

    def __contains__(self, name: str) -> bool:
        return name_problem(name) is None and self.path(name).is_file()

    def get(self, name: str) -> str:
        """The text of a prompt. Raises `ConfigError`, which says what is wrong with the name or the file."""
        path = self.path(name)
        with reading(path):
            try:
                with path.open("rb") as file:
                    data = file.read(MOST_BYTES + 1)
            except FileNotFoundError:
                raise self._unknown(name) from None
            if len(data) > MOST_BYTES:
                raise ConfigError(f"{path} is too long: {TOO_LONG}. Make it shorter.")
            text = text_of(data).replace("\r\n", "\n").strip()
        if not text:
            raise ConfigError(f"{path} is empty. Write the system prompt into it, or delete it.")
        return text

    def put(self, name: str, text: str) -> Path:
        """Save a prompt under a name; returns its file. Raises `ConfigError`."""
        path, text = self.path(name), text.strip()
        if problem := text_problem(text):
            raise ConfigError(problem)
        with writing(path):
            write_private(path, f"{well_formed(text)}\n")
        return path

    def remove(self, name: str) -> None:
        """Delete a prompt. Raises `ConfigError`."""
        path = self.path(name)
        if not path.is_file():
            raise self._unknown(name)
        try:
            path.unlink()
        except OSError as error:
            raise ConfigError(f"{path} cannot be deleted: {error.strerror}.") from None

    def _unknown(self, name: str) -> ConfigError:
        known = ", ".join(self.names()) or "none yet"
        said = f"there is no system prompt {name!r} (known: {known}); add it with `outrider system add {name}`"
        return ConfigError(said)

    def named(self, name: str) -> SystemPrompt:
        """The prompt of this name. Raises `ConfigError`."""
        return SystemPrompt(self.get(name), name)

    def meant_by(self, given: str) -> SystemPrompt:
        """Resolve a name or a text that a person gives: the prompt with that name, if there is one, or else the text.

        `@NAME` is always a name; an empty text or `none` means no system prompt. Raises `ConfigError`.
        """
        if given == NO_PROMPT:
            return SystemPrompt("")
        if re.fullmatch(r"@[\w.-]+", given):
            return self.named(given[1:])
        if given in self:
            return self.named(given)
        text = well_formed(given.strip())
        if text and (problem := text_problem(text)):
            raise ConfigError(problem)
        return SystemPrompt(text)


def keep_system_prompt(store: Store, conversation_id: str, prompt: SystemPrompt | None) -> Choices:
    """Set the system prompt of a conversation; returns all its choices. Raises `StorageError`.

    None removes the choice, so that the system message of an import, or a default, applies again.
    """
    before = store.conversations.get(conversation_id).choices
    text, name = (None, None) if prompt is None else prompt
    choices = msgspec.structs.replace(before, system=text, system_name=name)
    store.conversations.choose(conversation_id, choices)
    return choices


def in_force(choices: Choices, thread: Sequence[Message]) -> SystemPrompt:
    """The system prompt of a conversation: the chosen one, or else the system message at the beginning of an import."""
    if choices.system is not None:
        return SystemPrompt(choices.system, choices.system_name)
    return SystemPrompt(thread[0].text if thread and thread[0].role == "system" else "")


def name_problem(name: str) -> str | None:
    """What is wrong with the name of a prompt, or None."""
    if name == NO_PROMPT:
        return f"{NO_PROMPT} means no system prompt; choose another name"
    if re.match(PROMPT_NAME, name):
        return None
    return (
        f"{name!r} cannot be the name of a system prompt: a name has at most 63 letters, digits, dots, dashes and "
        "underscores, and begins with a letter or digit"
    )


def text_problem(text: str) -> str | None:
    """What is wrong with the text of a prompt, or None."""
    if not text.strip():
        return "there is no text, and an empty system prompt cannot be kept"
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        return TOO_LONG
    return None
