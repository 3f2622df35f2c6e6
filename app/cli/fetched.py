"""The small models on this device: those that came from servers, and the others. `outrider drafter list` and `rm`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from app.config import Folders, Settings
from app.drafting.fitness import SHORT
from app.sanitise import sanitise
from drafter.delivery import delivered_bytes
from drafter.floors import UNMEASURED, why_no_drafts, why_not_alone
from drafter.progress import stage
from drafter.shelf import kept
from drafter.shelf import remove as delete
from models.config import CONFIG, DrafterConfig, DrafterError, read_config

PATIENCE_SECONDS = 15.0
"""Longest wait for a server to say who it is."""


@contextlib.contextmanager
def shown_progress(total: int) -> Iterator[Callable[[int, int], None]]:
    """Shows how many kilobytes of `total` bytes are here, as the function is told that it yields."""
    with stage("fetching, in KB", max(1, total // 1000)) as shown:
        known = 0

        def tell(done: int, _: int) -> None:
            nonlocal known
            shown.advance(done // 1000 - known)
            known = done // 1000

        yield tell


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
    """What a drafter is used for, in a few words, and why for no more. `chosen`: the settings name it."""
    if not chosen and (why := why_no_drafts(config)) is not None:
        again = "it was never measured; to fetch it again: outrider drafter fetch NAME"
        return f"not used: {again if why == UNMEASURED else why}"
    why = why_not_alone(config)
    return "drafts, and writes alone offline" if why is None else f"drafts, and does not write alone: {why}"


def places(settings: Settings, folders: Folders) -> list[Path]:
    """The folders of all small models on this device, in the order in which they are looked at."""
    return [Path(settings.drafter), *made_here(folders), *(folder for folder, _ in kept(folders.fetched))]


def made_here(folders: Folders) -> list[Path]:
    """The folders of the drafters that `outrider serve` made on this device."""
    return sorted(path.parent for path in folders.made.glob(f"*/{CONFIG}")) if folders.made.is_dir() else []


def remove(digest: str, folders: Folders) -> None:
    """Delete the fetched drafter whose digest begins so. Raises `DrafterError`."""
    try:
        if not delete(folders.fetched, digest):
            raise DrafterError(f"No small model {digest} was fetched. To see those that were: outrider drafter list")
    except OSError as error:
        raise DrafterError(f"{error.filename or folders.fetched} cannot be deleted: {error.strerror}") from None
