"""Opens the prompt recipe that an artefact asks for. One that asks for none is asked as it always was."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from drafter.config import DrafterConfig, DrafterCorrupt, DrafterError, DrafterMissing, sha256
from drafter.guide.pages import Pages
from drafter.guide.prompt import NAME, VERSION, Prompt
from drafter.guide.search import platforms_of


def open_prompt(folder: Path, config: DrafterConfig, system: str = sys.platform) -> Prompt | None:
    """The recipe of the artefact in `folder`, for a system as in `sys.platform`; None: it asks for none.

    Raises `DrafterMissing` or `DrafterCorrupt` for its file, and `DrafterError` for a recipe that this version of
    Outrider does not know.
    """
    recipe = config.prompt_recipe
    if isinstance(recipe, msgspec.UnsetType):
        return None
    if (recipe.name, recipe.version) != (NAME, VERSION):
        raise DrafterError(
            f"The drafter in {folder} wants the prompt recipe {recipe.name} {recipe.version}; this version of Outrider "
            f"knows {NAME} {VERSION}. Update outrider, or use an older drafter."
        )
    path = folder / recipe.file
    if path.parent != folder:
        raise DrafterCorrupt(f"{folder}: the prompt recipe names {recipe.file}, which is no file of that folder.")
    if not path.is_file():
        raise DrafterMissing(f"{path} is missing. Reinstall the drafter.")
    try:
        known = sha256(path) == recipe.sha256
    except OSError as error:
        raise DrafterCorrupt(f"{path} cannot be read: {error.strerror}.") from None
    if not known:
        raise DrafterCorrupt(f"{path} does not match its checksum. Reinstall the drafter.")
    return Prompt(Pages.open(path), platforms_of(system))
