"""The application in its window: when it collects its garbage."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator

import pytest

from app.events import Verified
from app.tui.screens.chat.screen import ChatScreen
from app.tui.terminal import COLLECTIONS, TerminalApp
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, wait_until
from tests.app.tui.window import started


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Restore the garbage collector after the test."""
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def old_garbage() -> weakref.ref[Cycle]:
    """Something that only a collection of everything can find."""
    cycle = Cycle()
    for _ in range(COLLECTIONS + 1):
        gc.collect(1)
    return weakref.ref(cycle)


async def test_garbage_is_collected_when_nothing_moves(store: Store) -> None:
    hold = asyncio.Event()
    core = ScriptedCore(store, [[Verified("ye", 1, 0), hold, Verified("s", 1, 0), finished(2)]])
    painted = asyncio.Event()
    async with started(TerminalApp(core, on_painted=painted.set), (80, 24)) as (app, pilot):
        await wait_until(pilot, painted.is_set)
        garbage = old_garbage()
        await wait_until(pilot, lambda: garbage() is None)
        chat = app.screen
        assert isinstance(chat, ChatScreen)
        app._touched = 0.0
        await pilot.press(*"hi", "enter")
        assert app._touched > 0.0
        await wait_until(pilot, lambda: chat.conversation.live is not None)
        garbage, app._touched = old_garbage(), 0.0
        app.tidy()
        assert garbage() is not None, "an answer is coming"
        app._touched = time.monotonic() + 60
        hold.set()
        await wait_until(pilot, lambda: chat.conversation.live is None)
        app.tidy()
        assert garbage() is not None, "a key was just pressed"
        app._touched = 0.0
        await wait_until(pilot, lambda: garbage() is None)


HEAVY = ("torch", "transformers", "httpx", "tree_sitter_bash", "app.commands", "models.guide")


def test_the_first_frame_waits_for_no_model_no_network_and_no_parser_of_commands() -> None:
    code = f"import sys, app.tui.terminal; print([name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
