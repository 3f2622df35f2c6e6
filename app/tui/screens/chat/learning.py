"""Has another process teach the small models, and says in a notice how it went."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from textual.screen import Screen

from app.own_process import own_command, own_environment
from app.sanitise import sanitise
from app.tui.background import begin

GROUP = "learning"
TITLE = "Learning"


def begin_learning(screen: Screen[None], *, deep: bool = False) -> None:
    """Begin to learn from the checked answers on this device, unless it runs already. It ends with the screen.

    `deep`: train the layers of the drafter too.
    """
    if any(worker.group == GROUP and not worker.is_finished for worker in screen.workers):
        screen.notify("The small model is learning already.", title=TITLE)
        return
    screen.notify("The small model learns from your checked answers. You can go on asking.", title=TITLE)
    begin(screen, partial(_learn, screen, deep=deep), group=GROUP)


async def _learn(screen: Screen[None], *, deep: bool) -> None:
    pipe = asyncio.subprocess.PIPE
    # A session of its own: Ctrl+C stops an answer, and not what learns.
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
        if process.returncode is None:  # What was learnt before stays in use.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    reasons = [line.removeprefix("outrider: ") for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    text = learnt.decode("utf-8", "replace").strip()
    if process.returncode:
        text = reasons[-1] if reasons else f"It ended with {process.returncode}."
    elif not text:
        text = reasons[-1] if reasons else "There is nothing new to learn from."
    failed = bool(process.returncode)
    screen.notify(sanitise(text), title=TITLE, severity="error" if failed else "information", timeout=15, markup=False)
