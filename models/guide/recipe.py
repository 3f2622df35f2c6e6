"""Opens the prompt recipe that an artefact asks for, if any."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from models.config import TOKENIZER, DrafterConfig, DrafterCorrupt, DrafterError, DrafterMissing, PromptRecipe, sha256
from models.guide.names import MARKS
from models.guide.pages import FILE, Pages
from models.guide.prompt import NAME, VERSION, WITHOUT_NAMES, Prompt
from models.guide.search import platforms_of


class _Tokenizer(msgspec.Struct):
    """The relevant part of a `tokenizer.json`."""

    added_tokens: list[dict[str, Any]]


def recipe_for(folder: Path) -> PromptRecipe:
    """The recipe with the pages in a drafter's folder."""
    return PromptRecipe(NAME, VERSION if has_marks(folder) else WITHOUT_NAMES, FILE, sha256(folder / FILE))


def has_marks(folder: Path) -> bool:
    """Whether the tokenizer in a folder has the marks of names."""
    tokenizer = msgspec.json.decode((folder / TOKENIZER).read_bytes(), type=_Tokenizer)
    return set(MARKS) <= {token["content"] for token in tokenizer.added_tokens}


def open_prompt(folder: Path, config: DrafterConfig, system: str = sys.platform) -> Prompt | None:
    """The recipe of the artefact in `folder`, for a system as in `sys.platform`, or None if it needs none.

    Raises `DrafterMissing` or `DrafterCorrupt` for its file, and `DrafterError` for a recipe that this version of
    Outrider does not know.
    """
    recipe = config.prompt_recipe
    if isinstance(recipe, msgspec.UnsetType):
        return None
    if recipe.name != NAME or recipe.version not in (VERSION, WITHOUT_NAMES):
        raise DrafterError(
            f"The drafter in {folder} wants the prompt recipe {recipe.name} {recipe.version}; this version of Outrider "
            f"knows {NAME} {WITHOUT_NAMES} and {VERSION}. Update outrider, or use an older drafter."
        )
    path = folder / recipe.file
    if path.parent != folder:
        raise DrafterCorrupt(f"{folder}: the prompt recipe names {recipe.file}, which is not a file of that folder.")
    if not path.is_file():
        raise DrafterMissing(f"{path} is missing. Reinstall the drafter.")
    try:
        known = sha256(path) == recipe.sha256
    except OSError as error:
        raise DrafterCorrupt(f"{path} cannot be read: {error.strerror}.") from None
    if not known:
        raise DrafterCorrupt(f"{path} does not match its checksum. Reinstall the drafter.")
    return Prompt(Pages.open(path), platforms_of(system), marks_names=recipe.version == VERSION)
