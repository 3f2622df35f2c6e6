"""The small models on this device: those that came from servers, and the others. `outrider drafter list` and `rm`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from app.config import Folders, Settings
from app.sanitise import sanitise
from drafter.config import CONFIG, DrafterError, read_config
from drafter.delivery import delivered_bytes
from drafter.progress import stage
from drafter.shelf import kept
from drafter.shelf import remove as delete

PATIENCE_SECONDS = 15.0
"""Longest wait for a server to say who it is."""
SHORT = 12
"""Letters of a digest that are shown."""


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
    rows: list[tuple[str, str, str, str]] = []
    for folder, how in [(Path(settings.drafter), "settings"), *((one, "made here") for one in made_here(folders))]:
        with contextlib.suppress(DrafterError):
            rows.append(("", read_config(folder).target, _megabytes(delivered_bytes(folder)), f"{how}: {folder}"))
    for folder, config in kept(folders.fetched):
        size = sum(file.stat().st_size for file in folder.iterdir())
        rows.append((folder.name[:SHORT], config.target, _megabytes(size), "fetched"))
    for digest, target, taken, how in rows:
        print(f"{digest:<{SHORT}}  {sanitise(target):<30}  {taken:>8}  {how}")


def places(settings: Settings, folders: Folders) -> list[Path]:
    """The folders of all small models on this device, in the order in which they are looked at."""
    return [Path(settings.drafter), *made_here(folders), *(folder for folder, _ in kept(folders.fetched))]


def made_here(folders: Folders) -> list[Path]:
    """The folders of the drafters that `outrider serve` made on this device."""
    return sorted(path.parent for path in folders.made.glob(f"*/{CONFIG}")) if folders.made.is_dir() else []


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def remove(digest: str, folders: Folders) -> None:
    """Delete the fetched drafter whose digest begins so. Raises `DrafterError`."""
    try:
        if not delete(folders.fetched, digest):
            raise DrafterError(f"No small model {digest} was fetched. To see those that were: outrider drafter list")
    except OSError as error:
        raise DrafterError(f"{error.filename or folders.fetched} cannot be deleted: {error.strerror}") from None
