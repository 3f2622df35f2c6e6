"""Asks the servers that small models came from for newer versions, which those servers have taught."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.cli.fetched import PATIENCE_SECONDS, shown_progress
from app.config import Folders, Settings, is_address, same_server
from app.drafting.learning import Learner, NothingLearnt
from app.drafting.newer import check_judgeable, fetch_newer, is_newer, judge
from app.exits import complain
from app.remotes.notes import origins
from app.remotes.registry import Remotes
from app.remotes.source import AddressSource, RemoteSource, Source, SourceFailed
from app.sanitise import sanitise
from remote import LinkDown, RemoteError, VerifierClient
from remote.protocol import Card

if TYPE_CHECKING:
    from drafter.learning.versions import Version


def look_for_newer(learner: Learner, settings: Settings, folders: Folders, halted: Callable[[], bool]) -> None:
    """Ask the servers that this small model was fetched from, and take what they taught where it is better here.

    A server that is out of reach is passed over in silence. Raises `DrafterError`, `StorageError`, `OSError`.
    """
    for address in [] if settings.mode == "offline" else origins(learner.folder):
        source = _source(address, settings, folders)
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
            tell(learner.target, version)


async def _taken(source: Source, learner: Learner, folders: Folders, halted: Callable[[], bool]) -> Version | None:
    try:
        client = await source.client()
        card = await client.card(PATIENCE_SECONDS)
        return await take(client, card, learner, folders, source.name or client.host, halted)
    finally:
        await source.close()


async def take(
    client: VerifierClient,
    card: Card,
    learner: Learner,
    folders: Folders,
    server: str,
    halted: Callable[[], bool] = lambda: False,
) -> Version | None:
    """Fetch and judge the version that `card` offers; None: it offers none that is new.

    Raises what `fetch_newer` and `judge` raise.
    """
    if not is_newer(card, learner):
        return None
    assert card.drafter is not None
    check_judgeable(learner, server)
    size = f"{max(1, round(card.drafter.size / 1e6)):,} MB"
    print(f"{sanitise(server)} has taught its small model; the newer version comes: {size}", file=sys.stderr)
    with shown_progress(card.drafter.size) as progress:
        folder = await fetch_newer(client, card, learner, folders.learnt, progress)
    try:
        return judge(learner, folder, server, halted=halted)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tell(target: str, version: Version) -> None:
    """Say what became of a version that came from a server."""
    if not version.answers:
        said = f"It drafts with version {version.number}: this device has learnt nothing itself."
        gain = "too few checked answers to judge it by"
    else:
        spread = f"{version.low:+.1%} to {version.high:+.1%}"
        gain = f"{version.tau_before:.2f} -> {version.tau_after:.2f} tokens a round here ({spread})"
        used = version.state == "in use"
        said = f"It drafts with version {version.number} from now on." if used else "What drafts here stays in use."
    print(f"{sanitise(target)}: the newer version of {sanitise(version.server)}: {gain}. {said}")


def _source(address: str, settings: Settings, folders: Folders) -> Source | None:
    """How to reach a server that a person has named; None: nobody named it, or its name is gone."""
    if settings.remote and is_address(settings.remote) and same_server(settings.remote, address):
        return AddressSource(settings.remote, settings.token)
    remotes = Remotes(folders)
    for name, remote in remotes:
        if same_server(remote.url, address):
            return RemoteSource(name, remotes)
    return None
