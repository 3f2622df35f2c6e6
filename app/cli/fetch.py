"""Fetch the small model of a server (`outrider drafter fetch`), and newer versions that servers have taught."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from app.config import Folders, Settings, is_address, same_server
from app.drafting.learning import Learner, NothingLearnt
from app.drafting.newer import check_judgeable, fetch_newer, is_newer, judge
from app.exits import FAILED, OK, UNREACHABLE, complain
from app.remotes.last_seen import LastSeen
from app.remotes.notes import note_origin, origins
from app.remotes.registry import Remotes
from app.remotes.source import AddressSource, RemoteSource, Source, SourceFailed
from app.sanitise import sanitise
from drafter.delivery import delivery
from drafter.floors import why_no_drafts
from drafter.progress import transfer
from drafter.shelf import kept
from models.config import DrafterError, read_config
from remote import LinkDown, RemoteError, VerifierClient
from remote.delivery import fetch_drafter
from remote.protocol import Card
from storage import Store
from storage.owner import try_lock

if TYPE_CHECKING:
    from drafter.learning.versions import Version

PATIENCE_SECONDS = 15.0
"""Longest wait for a server to say who it is."""


async def fetch(source: Source | None, settings: Settings, folders: Folders) -> int:
    """Fetch the small model that the server at `source` offers, and print its folder. Returns the exit code.

    If an older version of it is here, the newer one is judged on this device's answers, and used if it is better.
    """
    if settings.mode == "offline":
        complain('Nothing is fetched while the settings say `mode = "offline"`.')
        return FAILED
    if source is None or source.address is None:
        complain("Name a server, or give its address: the bundled model has its small model already.")
        return FAILED
    try:
        client = await source.client()
        card = await client.card(PATIENCE_SECONDS)
        here, why_unused = _here(card, settings, folders)
        if here is not None and why_unused is None:
            return await _newer(client, card, here, settings, folders, source)
        if here is not None and card.drafter is not None and delivery(here).digest == card.drafter.digest:
            complain(
                f"The small model that {sanitise(client.host)} offers is on this device, but not used: {why_unused}."
            )
            return FAILED
        size = 0 if card.drafter is None else card.drafter.size
        with transfer(size) as tell:
            folder = await fetch_drafter(client, card, folders.fetched, progress=lambda done, _: tell(done), known=here)
        note_origin(folder, source.address)
        if card.memory is not None:  # The first question there already uses its tokens.
            LastSeen(folders.servers).note(source.address, card.memory.digest)
    except (RemoteError, SourceFailed) as error:
        complain(sanitise(str(error)))
        return UNREACHABLE if isinstance(error, LinkDown) else FAILED
    finally:
        await source.close()
    print(folder)
    return OK


def _here(card: Card, settings: Settings, folders: Folders) -> tuple[Path | None, str | None]:
    """The small model on this device of which `card` offers a version, if any, and why it is not used, if it is not."""
    memory = None if card.memory is None or card.drafter is None else card.memory.digest.hex()
    first = Path(settings.drafter)
    with contextlib.suppress(DrafterError):
        if read_config(first).memory == memory:
            return first, None
    kept_ones = [one for shelf in (folders.made, folders.fetched) for one in kept(shelf)]
    same = [(folder, why_no_drafts(config)) for folder, config in kept_ones if config.memory == memory]
    return next((one for one in same if one[1] is None), same[0] if same else (None, None))


async def _newer(
    client: VerifierClient, card: Card, here: Path, settings: Settings, folders: Folders, source: Source
) -> int:
    """Take the version that `card` offers, if it differs from `here` and is better. Returns the exit code."""
    assert card.drafter is not None
    if here.parent == folders.fetched:
        note_origin(here, source.address)
    if delivery(here).digest == card.drafter.digest:
        print(here)
        return OK
    if not settings.learn:
        complain(
            "It is a newer version of the one here. With `learn = false` in the settings, newer versions are not used."
        )
        return FAILED
    with Store.open(folders.database) as store, alone(folders):
        try:
            learner = Learner(store, here, folders.learnt)
            version = await _take(client, card, learner, folders, source.name or client.host)
        except NothingLearnt as error:
            complain(str(error))
            return FAILED
        if version is None:
            complain("That version was evaluated before: outrider drafter history")
        else:
            _tell(learner.target, version)
    print(here)
    return OK


def look_for_newer(learner: Learner, settings: Settings, folders: Folders, halted: Callable[[], bool]) -> None:
    """Ask the servers that this small model was fetched from, and take their newer versions if they are better here.

    A server that is out of reach is silently skipped. Raises `DrafterError`, `StorageError`, `OSError`.
    """
    for address in [] if settings.mode == "offline" else origins(learner.folder):
        source = _source_at(address, settings, folders)
        if source is None:
            continue
        try:
            version = asyncio.run(_taken(source, learner, folders, halted))
        except (LinkDown, SourceFailed):
            continue
        except (RemoteError, NothingLearnt) as error:
            complain(sanitise(str(error)))
            continue
        if version is not None:
            _tell(learner.target, version)


async def _taken(source: Source, learner: Learner, folders: Folders, halted: Callable[[], bool]) -> Version | None:
    try:
        client = await source.client()
        card = await client.card(PATIENCE_SECONDS)
        return await _take(client, card, learner, folders, source.name or client.host, halted)
    finally:
        await source.close()


async def _take(
    client: VerifierClient,
    card: Card,
    learner: Learner,
    folders: Folders,
    server: str,
    halted: Callable[[], bool] = lambda: False,
) -> Version | None:
    """Fetch and judge the version that `card` offers, or return None if it offers no new one.

    Raises what `fetch_newer` and `judge` raise.
    """
    if not is_newer(card, learner):
        return None
    assert card.drafter is not None
    check_judgeable(learner, server)
    size = f"{max(1, round(card.drafter.size / 1e6)):,} MB"
    print(f"{sanitise(server)} has a newer version of its small model; downloading it: {size}", file=sys.stderr)
    with transfer(card.drafter.size) as tell:
        folder = await fetch_newer(client, card, learner, folders.learnt, lambda done, _: tell(done))
    try:
        return judge(learner, folder, server, halted=halted)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tell(target: str, version: Version) -> None:
    """Report the result for a version from a server."""
    if not version.answers:
        said = f"It drafts with version {version.number}: this device has learnt nothing itself."
        gain = "too few checked answers to evaluate it"
    else:
        spread = f"{version.low:+.1%} to {version.high:+.1%}"
        gain = f"{version.tau_before:.2f} -> {version.tau_after:.2f} tokens a round here ({spread})"
        used = version.state == "in use"
        said = f"It now drafts with version {version.number}." if used else "The current drafter stays in use."
    print(f"{sanitise(target)}: the newer version of {sanitise(version.server)}: {gain}. {said}")


def _source_at(address: str, settings: Settings, folders: Folders) -> Source | None:
    """How to reach a server, or None if no setting and no remote names it."""
    if settings.remote and is_address(settings.remote) and same_server(settings.remote, address):
        return AddressSource(settings.remote, settings.token)
    remotes = Remotes(folders)
    for name, remote in remotes:
        if same_server(remote.url, address):
            return RemoteSource(name, remotes)
    return None


@contextlib.contextmanager
def alone(folders: Folders) -> Iterator[None]:
    """Let only one process learn at a time; end the command if another one is learning."""
    folders.learnt.mkdir(parents=True, exist_ok=True)
    with (folders.learnt / "lock").open("ab") as file:
        if not try_lock(file):
            complain("another `outrider learn` is running")
            sys.exit(FAILED)
        yield
