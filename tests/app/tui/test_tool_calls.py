"""Tool calls on the screen: one is made with a yes that was meant for it, and stands in the answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from app.events import ToolCalled, Verified
from app.tui.screens import tool_call
from app.tui.screens.tool_call import ToolCallScreen
from app.tui.widgets.tool_calls import ToolCalls
from storage import Call, Store
from tests.app.tui.scripted import ScriptedCore, finished, press, shows, wait_until
from tests.app.tui.window import started

CALL = Call(0, 0, 0, "call_0", "files", "append", '{"line": "one\\u001b[2Jtwo"}')


async def test_a_letter_for_the_prompt_is_no_yes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    said, made = asyncio.Event(), replace(CALL, state="done", result="wrote \x1b[31mone")
    script = [ToolCalled(CALL, asks=True, said=("read-only",)), said, ToolCalled(made), Verified("Done.", 1, 0)]
    core = ScriptedCore(store, [[*script, finished(1)]])
    monkeypatch.setattr(tool_call, "QUIET_SECONDS", 1e9)
    async with started(core, (80, 24)) as (app, pilot):
        await press(pilot, "a", "enter", until=lambda: shows(app, ToolCallScreen))
        screen = app.screen
        shown = "\n".join(str(one.render()) for one in screen.query("Static"))
        assert r"line: \"one\u001b[2Jtwo\"".replace('\\"', '"') in shown and "says of it: read-only" in shown
        await pilot.press("y", "n", "a")
        await pilot.pause()
        assert core.decided == [] and app.screen is screen
        monkeypatch.setattr(tool_call, "QUIET_SECONDS", 0)
        await press(pilot, "y", until=lambda: core.decided == [(0, "yes")])
        said.set()
        await wait_until(pilot, lambda: app.answers == ["Done."])
        (calls,) = app.screen.query(ToolCalls)
        lines = calls.query_one("Static").render
        await wait_until(pilot, lambda: "▸ files/append" in str(lines()) and "· done" in str(lines()))
        calls.toggle()
        await wait_until(pilot, lambda: "wrote one" in str(lines()))
