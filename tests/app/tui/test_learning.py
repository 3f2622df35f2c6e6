"""`/learn` in the chat: another process learns, and a notice says how it went."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from storage import Store
from tests.app.tui.scripted import ScriptedCore, wait_until
from tests.app.tui.test_prompt_commands import send, toasts
from tests.app.tui.window import Window
from tests.support.patience import PATIENCE_SECONDS


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_pair: Path) -> list[asyncio.subprocess.Process]:
    """Those that the test starts, with a home and a drafter of their own."""
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OUTRIDER_DRAFTER", str(tiny_pair / "drafter"))
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def noted(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    return started


@pytest.mark.parametrize("asked", ["/learn", "/learn deep"])
async def test_a_notice_says_what_was_learnt_or_why_nothing(
    asked: str, store: Store, processes: list[asyncio.subprocess.Process]
) -> None:
    app = Window(ScriptedCore(store))
    async with app.run_test() as pilot:
        await send(app, pilot, asked)
        await send(app, pilot, asked)
        assert "You can go on asking" in toasts(app)[0] and "learning already" in toasts(app)[1]
        await wait_until(pilot, lambda: "There is nothing new to learn from." in toasts(app), PATIENCE_SECONDS)
    assert [one.returncode for one in processes] == [0]


async def test_a_word_that_it_does_not_know_is_told(store: Store, processes: list[asyncio.subprocess.Process]) -> None:
    app = Window(ScriptedCore(store))
    async with app.run_test() as pilot:
        await send(app, pilot, "/learn fast")
        assert "/learn deep" in toasts(app)[0]
    assert not processes


async def test_it_says_what_went_wrong(
    store: Store, processes: list[asyncio.subprocess.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "many")
    app = Window(ScriptedCore(store))
    async with app.run_test() as pilot:
        await send(app, pilot, "/learn")
        await wait_until(pilot, lambda: len(toasts(app)) == 2)
        assert "max_tokens" in toasts(app)[1].lower()


async def test_it_ends_with_the_window(store: Store, processes: list[asyncio.subprocess.Process]) -> None:
    app = Window(ScriptedCore(store))
    async with app.run_test() as pilot:
        await send(app, pilot, "/learn")
        await wait_until(pilot, lambda: bool(processes))
    assert await asyncio.wait_for(processes[0].wait(), PATIENCE_SECONDS) != 0


async def test_the_switch_holds_here_too(store: Store) -> None:
    app = Window(ScriptedCore(store), Settings(learn=False))
    async with app.run_test() as pilot:
        await send(app, pilot, "/learn")
        assert "learn = false" in toasts(app)[0] and app.prompt.text == "/learn"
