"""How the screen of remotes looks; `--snapshot-update` after a change that is meant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from app.config import Folders, Settings
from app.events import ModeChanged
from app.remotes.check import Finding
from app.remotes.registry import Remote, Remotes
from app.remotes.switcher import RemoteSwitcher
from app.tui.screens.remote_form import RemoteForm
from app.tui.theme import LIGHT
from tests.app.tui.scripted import press, wait_until
from tests.app.tui.test_remotes import Host, Switch, highlight
from tests.support.keyring import MemoryKeyring, use_keyring

FINDINGS = [
    Finding("ok", "token", "from keyring"),
    Finding("ok", "name", "office.example is 192.0.2.7 (12 ms)"),
    Finding("ok", "connection", "to 192.0.2.7:8443 in 21 ms"),
    Finding(
        "warning",
        "TLS",
        "TLSv1.3 in 43 ms, trusted by /etc/ca.pem; office.example, signed by Office CA, until 2026-12-01 (9 days)",
    ),
    Finding("ok", "round trips", "20 ms, of 5 between 19 ms and 34 ms"),
    Finding("ok", "model", "shell-guide; limit 4,096 tokens; the server can draft"),
    Finding("broken", "fits", "the small model was made for another model, not for shell-guide (another tokenizer)"),
]


class Scripted(RemoteSwitcher):
    """Tests find what a script says."""

    async def test(self, name: str) -> AsyncIterator[Finding]:
        for found in FINDINGS:
            yield found


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    use_keyring(monkeypatch, MemoryKeyring())
    monkeypatch.delenv("API_KEY", raising=False)
    folders = Folders.locate({"OUTRIDER_HOME": str(tmp_path)})
    remotes = Remotes(folders)
    remotes.put("office", Remote(url="https://office.example:8443", kind="verifier"), "a-token")
    remotes.put("talker", Remote(url="https://api.example/v1", kind="openai", model="m", token_variable="API_KEY"))
    remotes.use("office")
    switch = Switch()
    switch.mode = ModeChanged("edge", "checked by shell-guide at office")
    return Host(Scripted(Settings(), folders, switch))


@pytest.mark.parametrize("width", [60, 100])
def test_a_tested_remote(app: Host, snap_compare: Any, width: int) -> None:
    async def play(pilot: Pilot[None]) -> None:
        await highlight(pilot, app, "office")
        await press(pilot, "t", until=lambda: len(app.findings) == len(FINDINGS) and not app.screen.query(".waiting"))
        await pilot.pause()

    assert snap_compare(app, terminal_size=(width, 36), run_before=play)


def test_a_form_with_what_is_wrong(app: Host, snap_compare: Any) -> None:
    async def play(pilot: Pilot[None]) -> None:
        app.register_theme(LIGHT)
        app.theme = LIGHT.name
        await highlight(pilot, app, "office")
        await pilot.press("e")
        await wait_until(pilot, lambda: isinstance(app.screen, RemoteForm) and app.screen.query_one("#name").has_focus)
        for field, text in {"url": "office:8443", "token": "secret", "proxy": "http://me:pw@proxy"}.items():
            app.screen.query_one(f"#{field}", Input).value = text
        app.screen.query_one("#name", Input).cursor_blink = False
        app.screen.query_one("#url", Input).cursor_blink = False
        await press(pilot, "ctrl+s", until=lambda: app.screen.query_one("#proxy-problem", Static).display)
        await pilot.pause()

    assert snap_compare(app, terminal_size=(100, 32), run_before=play)
