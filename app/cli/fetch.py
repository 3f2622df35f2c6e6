"""`outrider drafter fetch`: the small model of a server, or a newer version of it."""

from __future__ import annotations

import contextlib
from pathlib import Path

from app.cli.fetched import PATIENCE_SECONDS, shown_progress
from app.cli.learn import alone
from app.cli.newer import take, tell
from app.config import Folders, Settings
from app.drafting.learning import Learner, NothingLearnt
from app.exits import FAILED, OK, UNREACHABLE, complain
from app.remotes.last_seen import LastSeen
from app.remotes.notes import note_origin
from app.remotes.source import Source, SourceFailed
from app.sanitise import sanitise
from drafter.delivery import delivery
from drafter.floors import why_no_drafts
from drafter.shelf import kept
from models.config import DrafterError, read_config
from remote import LinkDown, RemoteError, VerifierClient
from remote.delivery import fetch_drafter
from remote.protocol import Card
from storage import Store


async def fetch(source: Source | None, settings: Settings, folders: Folders) -> int:
    """Fetch the small model that the server at `source` offers, and print its folder. Returns the exit code.

    Where an older version of it is here, the newer one is judged on this device's answers, and used if it is better.
    """
    if settings.mode == "offline":
        complain('Nothing is fetched while the settings say `mode = "offline"`.')
        return FAILED
    if source is None or source.address is None:
        complain("No server was named, and the bundled model has its small model already: give a NAME or an address.")
        return FAILED
    try:
        client = await source.client()
        card = await client.card(PATIENCE_SECONDS)
        here, why_unused = _here(card, settings, folders)
        if here is not None and why_unused is None:
            return await _newer(client, card, here, settings, folders, source)
        if here is not None and card.drafter is not None and delivery(here).digest == card.drafter.digest:
            complain(f"The small model that {sanitise(client.host)} offers is here, and is not used: {why_unused}.")
            return FAILED
        size = 0 if card.drafter is None else card.drafter.size
        with shown_progress(size) as progress:
            folder = await fetch_drafter(client, card, folders.fetched, progress=progress, known=here)
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


def _here(card: Card, settings: Settings, folders: Folders) -> tuple[Path | None, str | None]:
    """The small model on this device of which `card` offers a version, and why it is not used.

    None: there is none; it is used.
    """
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
    """Take the version that `card` offers, if it is another one than `here` and better. Returns the exit code."""
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
