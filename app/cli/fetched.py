"""The work of `outrider drafter fetch`, `list` and `rm`: the small models that came from servers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from app.config import Folders, Settings
from app.exits import FAILED, OK, UNREACHABLE, complain
from app.remotes.last_seen import LastSeen
from app.remotes.origins import note_origin
from app.remotes.source import Source, SourceFailed
from app.sanitise import sanitise
from drafter.config import CONFIG, DrafterError, read_config
from drafter.delivery import delivered_bytes, delivery
from drafter.progress import stage
from drafter.shelf import kept
from drafter.shelf import remove as delete
from remote import LinkDown, RemoteError, VerifierClient
from remote.delivery import fetch_drafter
from remote.protocol import Card

PATIENCE_SECONDS = 15.0
"""Longest wait for a server to say who it is."""
SHORT = 12
"""Letters of a digest that are shown."""


async def fetch(source: Source | None, settings: Settings, folders: Folders) -> int:
    """Fetch the small model that the server at `source` offers, and print its folder. Returns the exit code.

    Where an older version of it is here, the newer one is judged on this device's answers, and used if it is better.
    """
    if source is None or source.address is None:
        complain("No server was named, and the bundled model has its small model already: give a NAME or an address.")
        return FAILED
    try:
        client = await source.client()
        card = await client.card(PATIENCE_SECONDS)
        here = _here(card, settings, folders)
        if here is not None:
            return await _newer(client, card, here, settings, folders, source)
        size = 0 if card.drafter is None else card.drafter.size
        with shown_progress(size) as progress:
            folder = await fetch_drafter(client, card, folders.fetched, progress=progress)
        note_origin(folder, source.address)
        if card.memory is not None:  # The first question there is already read with its tokens.
            LastSeen(folders.servers).note(source.address, card.memory.digest)
    except (RemoteError, SourceFailed) as error:
        complain(sanitise(str(error)))
        return UNREACHABLE if isinstance(error, LinkDown) else FAILED
    finally:
        await source.close()
    print(folder)
    return OK


def _here(card: Card, settings: Settings, folders: Folders) -> Path | None:
    """The small model on this device of which `card` offers a version; None: there is none."""
    memory = None if card.memory is None or card.drafter is None else card.memory.digest.hex()
    for place in places(settings, folders):
        with contextlib.suppress(DrafterError):
            if read_config(place).memory == memory:
                return place
    return None


async def _newer(
    client: VerifierClient, card: Card, here: Path, settings: Settings, folders: Folders, source: Source
) -> int:
    """Take the version that `card` offers, if it is another one than `here` and better. Returns the exit code."""
    from app.cli.learn import alone
    from app.cli.newer import take, tell
    from app.drafting.learning import Learner, NothingLearnt
    from storage import Store

    assert card.drafter is not None
    if here.parent == folders.fetched:
        note_origin(here, source.address)
    if delivery(here).digest == card.drafter.digest:
        print(here)
        return OK
    if not settings.learn:
        complain("It is a newer version of what is here. With `learn = false` in the settings, none is used.")
        return FAILED
    with Store.open(folders.database) as store, alone(folders):
        try:
            learner = Learner(store, here, folders.learnt)
            version = await take(client, card, learner, folders, source.name or client.host)
        except NothingLearnt as error:
            complain(str(error))
            return FAILED
        if version is None:
            complain("That version was judged before: outrider drafter history")
        else:
            tell(learner.target, version)
    print(here)
    return OK


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
