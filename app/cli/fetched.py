"""The small models on this device: `outrider drafter list` and `rm`."""

from __future__ import annotations

import contextlib
from pathlib import Path

from app.config import Folders, Settings
from app.drafting.fitness import SHORT
from app.sanitise import sanitise
from drafter.delivery import delivered_bytes
from drafter.floors import UNMEASURED, why_no_drafts, why_not_alone
from drafter.shelf import kept
from drafter.shelf import remove as delete
from models.config import CONFIG, DrafterConfig, DrafterError, read_config


def show(settings: Settings, folders: Folders) -> None:
    """Print a line for each drafter on this device."""
    rows: list[tuple[str, DrafterConfig, int, str]] = []
    first = Path(settings.drafter)
    with contextlib.suppress(DrafterError):
        rows.append(("", read_config(first), delivered_bytes(first), f"settings: {first}"))
    for folder, config in kept(folders.made):
        with contextlib.suppress(DrafterError):
            rows.append(("", config, delivered_bytes(folder), f"made here: {folder}"))
    for folder, config in kept(folders.fetched):
        rows.append((folder.name[:SHORT], config, sum(file.stat().st_size for file in folder.iterdir()), "fetched"))
    for digest, config, size, how in rows:
        use = use_of(config, chosen=how.startswith("settings"))
        print(f"{digest:<{SHORT}}  {sanitise(config.target):<30}  {size / 1e6:>5,.0f} MB  {how}; {use}")


def use_of(config: DrafterConfig, *, chosen: bool) -> str:
    """What a drafter is used for, in a few words, and why it is not used for more. `chosen`: the settings name it."""
    if not chosen and (why := why_no_drafts(config)) is not None:
        again = "it was never measured; to fetch it again: outrider drafter fetch NAME"
        return f"not used: {again if why == UNMEASURED else why}"
    why = why_not_alone(config)
    return (
        "drafts, and writes alone while its server is away"
        if why is None
        else f"drafts, and does not write alone: {why}"
    )


def places(settings: Settings, folders: Folders) -> list[Path]:
    """The folders of all small models on this device: the chosen one, those made here, then those fetched."""
    made = sorted(path.parent for path in folders.made.glob(f"*/{CONFIG}")) if folders.made.is_dir() else []
    return [Path(settings.drafter), *made, *(folder for folder, _ in kept(folders.fetched))]


def remove(digest: str, folders: Folders) -> None:
    """Delete the fetched drafter whose digest begins with this text. Raises `DrafterError`."""
    try:
        if not delete(folders.fetched, digest):
            raise DrafterError(f"No small model {digest} was fetched. To see those that were: outrider drafter list")
    except OSError as error:
        raise DrafterError(f"{error.filename or folders.fetched} cannot be deleted: {error.strerror}") from None
