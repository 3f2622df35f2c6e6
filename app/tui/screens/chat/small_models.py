"""Teaches the small models in another process, or fetches one that a server offers, in the background of the chat."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from textual.screen import Screen

from app.own_process import own_command, own_environment
from app.remotes.offers import Offer, Told
from app.remotes.source import SourceFailed
from app.reply.assistant import Assistant
from app.sanitise import sanitise
from app.tui.background import begin
from app.tui.screens.confirm import Confirm
from remote import RemoteError

GROUP = "learning"
TITLE = "Learning"


def begin_learning(screen: Screen[None], *, deep: bool = False) -> None:
    """Begin to learn from the checked answers on this device, unless it runs already. It ends with the screen.

    `deep`: train the layers of the drafter too.
    """
    if any(worker.group == GROUP and not worker.is_finished for worker in screen.workers):
        screen.notify("The small model is learning already.", title=TITLE)
        return
    screen.notify("The small model learns from your checked answers. You can keep asking.", title=TITLE)
    begin(screen, partial(_learn, screen, deep=deep), group=GROUP)


async def _learn(screen: Screen[None], *, deep: bool) -> None:
    pipe = asyncio.subprocess.PIPE
    # A separate session, so that Ctrl+C stops an answer, not the learning process.
    process = await asyncio.create_subprocess_exec(
        *own_command("learn", *["--deep"] * deep),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
        env=own_environment(),
    )
    try:
        learnt, said = await process.communicate()
    finally:
        if process.returncode is None:  # Earlier versions stay in use.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    reasons = [line.removeprefix("outrider: ") for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    text = learnt.decode("utf-8", "replace").strip()
    if process.returncode:
        text = reasons[-1] if reasons else f"It ended with {process.returncode}."
    elif not text:
        text = reasons[-1] if reasons else "There are no new answers to learn from."
    failed = bool(process.returncode)
    screen.notify(sanitise(text), title=TITLE, severity="error" if failed else "information", timeout=15, markup=False)


# ---- what servers offer ----------------------------------------------------------------------------------------------


async def offer_drafter(screen: Screen[None], core: Assistant, offer: Offer, told: Path) -> None:
    """Ask once whether to fetch an offered model, and fetch it if the person agrees."""
    if not await asyncio.to_thread(Told(told).first_time, offer):
        return
    if not await screen.app.push_screen_wait(Confirm(offer.question, unasked=True)):
        screen.notify(f"Later: outrider drafter fetch {offer.server}", markup=False)
        return
    screen.notify(f"The small model is being downloaded in the background: {offer.size}. You can keep asking.")
    try:
        await core.fetch_offered(lambda done, total: None)
    except (RemoteError, SourceFailed) as error:
        again = f"To resume: outrider drafter fetch {offer.server}"
        screen.notify(f"{error}. {again}", title="No small model", severity="error", timeout=15, markup=False)
        return
    screen.notify("The small model has been downloaded. It drafts from the next answer on.")


async def tell_news(screen: Screen[None], news: Sequence[tuple[str, str]], told: Path) -> None:
    """Show each sentence about the small models on this device once; `news` pairs it with a name to remember it by."""
    for name, sentence in news:
        if await asyncio.to_thread(Told(told).first, name):
            screen.notify(sentence, title="Small models", timeout=15, markup=False)
