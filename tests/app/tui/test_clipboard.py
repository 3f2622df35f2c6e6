from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from app.tui.clipboard import LONGEST_OSC, TIMEOUT_SECONDS, copy, osc52, programs
from storage import Store
from tests.app.tui.scripted import ScriptedCore, wait_until
from tests.app.tui.window import Window

TEXT = "naïve `ls`\n\tend"


def program(folder: Path, name: str, script: str) -> dict[str, str]:
    """An environment whose PATH has one program, which finds its folder in $HERE."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}:/bin:/usr/bin", "HERE": str(folder)}


@pytest.mark.parametrize(
    ("environment", "platform", "first"),
    [
        ({}, "darwin", "pbcopy"),
        ({}, "win32", "clip.exe"),
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, "linux", "wl-copy"),
        ({"DISPLAY": ":0"}, "linux", "xclip"),
        ({"WSL_DISTRO_NAME": "Debian"}, "linux", "clip.exe"),
        ({"SSH_CONNECTION": "a b c d", "DISPLAY": ":0"}, "linux", None),
        ({}, "linux", None),
    ],
)
def test_the_desktop_is_known_by_its_variables(environment: dict[str, str], platform: str, first: str | None) -> None:
    assert next((command[0] for command in programs(environment, platform)), None) == first


async def test_a_program_of_the_desktop_gets_the_text(tmp_path: Path) -> None:
    environment = program(tmp_path, "wl-copy", 'cat > "$HERE/copied"') | {"WAYLAND_DISPLAY": "wayland-0"}
    assert (await copy(TEXT, environment)).way == "wl-copy"
    assert (tmp_path / "copied").read_text(encoding="utf-8") == TEXT


@pytest.mark.parametrize("script", ["exit 1", "exec sleep 60"])
async def test_where_it_fails_the_terminal_is_asked(
    tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.tui.clipboard.TIMEOUT_SECONDS", TIMEOUT_SECONDS / 10)
    environment = program(tmp_path, "xclip", script) | {"DISPLAY": ":0"}
    copied = await copy(TEXT, environment)
    assert copied.way == "terminal"
    found = re.fullmatch("\x1b]52;c;(.*)\x07", copied.sequence)
    assert found is not None and base64.b64decode(found[1]).decode() == TEXT


def test_tmux_hands_the_sequence_on() -> None:
    plain = osc52(TEXT, {})
    assert plain is not None
    assert osc52(TEXT, {"TMUX": "/tmp/tmux"}) == "\x1bPtmux;\x1b" + plain + "\x1b\\"


async def test_what_no_terminal_takes_is_saved() -> None:
    text = "é" * LONGEST_OSC
    copied = await copy(text, {})
    assert copied.file is not None
    try:
        assert copied.file.read_text(encoding="utf-8") == text
        assert copied.file.stat().st_mode & 0o777 == 0o600
    finally:
        copied.file.unlink()


async def test_the_person_is_told_where_it_is(store: Store) -> None:
    app = Window(ScriptedCore(store))
    async with app.run_test(size=(100, 30)) as pilot:
        app.copy_to_clipboard("x" * (LONGEST_OSC + 1))
        await wait_until(pilot, lambda: bool(app._notifications))
        (toast,) = app._notifications
        path = Path(toast.message.split(" It was saved to ")[1].removesuffix("."))
        try:
            assert toast.title == "Saved" and path.stat().st_size == LONGEST_OSC + 1
        finally:
            path.unlink()
