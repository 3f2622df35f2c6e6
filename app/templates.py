"""Question templates: `templates/NAME.md` next to the settings, one text file each, for any editor.

`$input` stands for what is asked or piped, `$lang` for a variable of that name, `$$` for a dollar sign, as in `llm`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from string import Template

from app.config import PROMPT_NAME, ConfigError, Folders, reading
from app.files import text_of

ENDINGS = (".md", ".txt")
"""Endings of the files. If two files have the same name, the first ending counts."""
MOST_BYTES = 64 << 10
INPUT = "input"


class Templates:
    """The templates of one config folder. Every call reads the files as they are now."""

    def __init__(self, folders: Folders) -> None:
        self.folder = folders.config / "templates"

    def names(self) -> list[str]:
        """All names, in alphabetical order. Raises `ConfigError` if the folder cannot be read."""
        with reading(self.folder), suppress(FileNotFoundError, NotADirectoryError):
            files = [path for path in self.folder.iterdir() if path.suffix in ENDINGS and path.is_file()]
            return sorted({path.stem for path in files if re.match(PROMPT_NAME, path.stem)}, key=str.casefold)
        return []

    def filled(self, name: str, asked: str, values: Mapping[str, str]) -> str:
        """The question that a template makes. `asked`: follows the text if that has no `$input`; may be empty.

        Raises `ConfigError` for an unknown name, for a file that cannot be used, and for a variable that is missing,
        or that the template does not have.
        """
        template = Template(self._text(name))
        if not template.is_valid():
            raise ConfigError(f"the template {name} has a $ that begins no variable. Write $$ for a dollar sign.")
        variables = set(template.get_identifiers())
        needed = variables - {INPUT}
        if missing := sorted(needed - set(values)):
            raise ConfigError(f"the template {name} needs {', '.join(missing)}: add -p {missing[0]}=…")
        if unknown := sorted(set(values) - needed):
            has = ", ".join(sorted(needed)) or "none"
            raise ConfigError(f"the template {name} has no variable {unknown[0]} (it has {has})")
        if INPUT in variables and not asked:
            raise ConfigError(f"the template {name} needs a question, or something piped in, for $input")
        text = template.substitute({**values, INPUT: asked})
        return text if INPUT in variables or not asked else f"{text}\n\n{asked}"

    def _text(self, name: str) -> str:
        known = ", ".join(self.names()) or "none yet"
        unknown = ConfigError(f"there is no template {name!r} (known: {known}). Templates are files in {self.folder}")
        if not re.match(PROMPT_NAME, name):
            raise unknown
        for path in [self.folder / f"{name}{ending}" for ending in ENDINGS]:
            with reading(path), suppress(FileNotFoundError):
                with path.open("rb") as file:
                    data = file.read(MOST_BYTES + 1)
                if len(data) > MOST_BYTES:
                    raise ConfigError(f"{path} is too long: a template has at most {MOST_BYTES >> 10} kB.")
                if text := text_of(data).replace("\r\n", "\n").strip():
                    return text
                raise ConfigError(f"{path} is empty. Write the question into it, or delete it.")
        raise unknown
