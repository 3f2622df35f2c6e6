"""Asks once whether the small model that a server offers shall be fetched, and fetches it in the background.

Of one that is here and not used, it tells once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from textual.screen import Screen

from app.remotes.offers import Offer, Told
from app.remotes.source import SourceFailed
from app.reply.assistant import Assistant
from app.tui.screens.confirm import Confirm
from remote import RemoteError


async def offer_drafter(screen: Screen[None], core: Assistant, offer: Offer, told: Path) -> None:
    """Ask about an offer of which nobody has heard, and fetch it if the person wants it."""
    if not await asyncio.to_thread(Told(told).first_time, offer):
        return
    if not await screen.app.push_screen_wait(Confirm(offer.question)):
        screen.notify(f"Later: outrider drafter fetch {offer.server}", markup=False)
        return
    screen.notify(f"The small model comes in the background: {offer.size}. You can go on asking.")
    try:
        await core.fetch_offered(lambda done, total: None)
    except (RemoteError, SourceFailed) as error:
        again = f"To go on: outrider drafter fetch {offer.server}"
        screen.notify(f"{error}. {again}", title="No small model", severity="error", timeout=15, markup=False)
        return
    screen.notify("The small model is here. It drafts from the next answer on.")


async def tell_news(screen: Screen[None], news: Sequence[tuple[str, str]], told: Path) -> None:
    """Tell of the small models here what nobody has heard: a name for it, and a sentence."""
    for name, sentence in news:
        if await asyncio.to_thread(Told(told).first, name):
            screen.notify(sentence, title="Small models", timeout=15, markup=False)
