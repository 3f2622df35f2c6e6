"""`outrider` and `outrider chat`: the chat screen, over an assistant that starts behind it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from app.ending import USAGE, complain, run, settings_with

if TYPE_CHECKING:
    from app.config import Folders, Settings


def chat(**options: object) -> int:
    """Returns the exit code. `options`: settings of the command line. Raises `ConfigError`, `StorageError`."""
    settings, folders = settings_with(**options)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        complain('The chat screen needs a terminal. To use answers elsewhere: outrider ask "…"')
        return USAGE
    return run(_screen(settings, folders))


async def _screen(settings: Settings, folders: Folders) -> int:
    from app.starting import Starting
    from app.tui.window import Window
    from storage import Store

    store = Store.open(folders.database)
    try:
        async with Starting(store, settings, folders) as core:
            window = Window(core, settings.keys, on_painted=core.start)
            await window.run_async()
            return window.return_code or 0
    finally:
        store.close()
