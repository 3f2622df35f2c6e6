import base64
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Self

import pytest

from app.tui.clipboard import LONGEST_OSC, TIMEOUT_SECONDS, copy, osc52, programs
from storage import Attachment, Store
from tests.app.attachments.conftest import PNG
from tests.app.tui.scripted import ScriptedCore, finished, press, verified, wait_until
from tests.app.tui.window import started
from tests.support.conversing import until
from tests.support.patience import PATIENCE_SECONDS

TEXT = "naïve `ls`\n\tend"


def program(folder: Path, name: str, script: str) -> dict[str, str]:
    """An environment whose PATH has one program, which finds its folder in $HERE."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}:/bin:/usr/bin", "HERE": str(folder)}


def test_the_desktop_is_known_by_its_variables() -> None:
    for environment, platform, first in (
        ({}, "darwin", "pbcopy"),
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, "linux", "wl-copy"),
        ({"DISPLAY": ":0"}, "linux", "xclip"),
        ({"WSL_DISTRO_NAME": "Debian"}, "linux", "clip.exe"),
        ({"SSH_CONNECTION": "a b c d", "DISPLAY": ":0"}, "linux", None),
        ({}, "linux", None),
    ):
        assert next((command[0] for command in programs(environment, platform)), None) == first


async def test_a_program_of_the_desktop_gets_the_text(tmp_path: Path) -> None:
    environment = program(tmp_path, "wl-copy", 'cat > "$HERE/copied"') | {"WAYLAND_DISPLAY": "wayland-0"}
    assert (await copy(TEXT, environment)).title == "Copied"
    assert (tmp_path / "copied").read_text(encoding="utf-8") == TEXT


async def test_where_it_fails_the_terminal_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.tui.clipboard.TIMEOUT_SECONDS", TIMEOUT_SECONDS / 10)
    fails = program(tmp_path, "xclip", "exit 1"), program(tmp_path / "slow", "xclip", "exec sleep 60")
    gone = {"TMUX": "/nowhere/tmux,1,0", "PATH": os.environ["PATH"]}
    for environment in (*(one | {"DISPLAY": ":0"} for one in fails), gone):
        copied = await copy(TEXT, environment)
        found = re.fullmatch("\x1b]52;c;(.*)\x07", copied.sequence)
        assert found is not None and base64.b64decode(found[1]).decode() == TEXT


def test_screen_hands_short_pieces_on() -> None:
    plain = osc52("long " * 100, {})
    wrapped = osc52("long " * 100, {"STY": "1.pts-0.host"})
    pieces = re.findall("\x1bP(.*?)\x1b\\\\", wrapped)
    assert "".join(pieces) == plain and max(map(len, pieces)) < 256


@pytest.mark.parametrize(
    "environment",
    [{"TERM": "linux"}, {"TERM_PROGRAM": "Apple_Terminal"}, {"VTE_VERSION": "7600"}, {"KONSOLE_VERSION": "230804"}],
)
async def test_where_the_terminal_cannot_copy_it_is_saved_and_said(environment: dict[str, str]) -> None:
    copied = await copy(TEXT, {"TERM": "xterm-256color", "DISPLAY": ":0", "PATH": ""} | environment)
    assert copied.file is not None and not copied.sequence
    try:
        assert copied.file.read_text(encoding="utf-8") == TEXT
        assert copied.title == "Saved" and "Install xclip" in copied.note and str(copied.file) in copied.note
    finally:
        copied.file.unlink()


async def test_what_a_terminal_was_only_sent_is_not_called_copied() -> None:
    new = {"TERM": "xterm-256color", "KONSOLE_VERSION": "241201"}
    for environment in ({}, {"TERM": "xterm-kitty", "VTE_VERSION": "7600"}, new):
        copied = await copy(TEXT, environment)
        assert (copied.title, copied.sequence) == ("Sent to the terminal", osc52(TEXT, {}))
        assert "if your terminal lets" in copied.note


class Server:
    """A tmux server with its own settings: the defaults. `inner`: another one, which its session shows."""

    def __init__(self, socket: Path, inner: Path | None = None) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        command = "sleep 600" if inner is None else f"env -u TMUX tmux -S {inner} attach"
        self.run("new-session", "-d", "-x", "80", "-y", "24", command)
        self.environment = os.environ | {"TMUX": self.run("display-message", "-p", "#{socket_path},#{pid},0").strip()}
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "SSH_CONNECTION", "SSH_TTY", "STY"):
            self.environment.pop(name, None)

    def run(self, *arguments: str) -> str:
        return subprocess.run([*self._tmux, *arguments], check=True, capture_output=True, text=True).stdout

    def buffer(self) -> str:
        return subprocess.run([*self._tmux, "show-buffer"], check=False, capture_output=True, text=True).stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)


async def test_in_tmux_it_arrives_in_the_terminal_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux")
    monkeypatch.setattr("app.tui.clipboard.TIMEOUT_SECONDS", PATIENCE_SECONDS)  # A busy machine is not what is tested.
    with Server(tmp_path / "inner") as inner:
        alone = await copy("alone", inner.environment)
        assert (alone.title, inner.buffer()) == ("Copied to tmux", "alone")
        assert "does not know how to reach" in alone.note
        with Server(tmp_path / "outer", tmp_path / "inner") as outer:
            outer.run("set", "-s", "set-clipboard", "on")
            await until(lambda: "clipboard" in inner.run("display-message", "-p", "#{client_termfeatures}"))
            copied = await copy(TEXT, inner.environment)
            assert copied.title == "Copied to tmux, and sent to the terminal"
            assert copied.sequence == osc52(TEXT, {}), "tmux swallows what is wrapped for it"
            await until(lambda: outer.buffer() == inner.buffer() == TEXT)
            long = await copy("x" * (LONGEST_OSC + 1), inner.environment)
            assert (long.title, len(inner.buffer()), long.sequence) == ("Copied to tmux", LONGEST_OSC + 1, "")
            inner.run("set", "-s", "set-clipboard", "off")
            assert "`set-clipboard` is off" in (await copy(TEXT, inner.environment)).note


async def test_what_no_terminal_takes_is_saved_and_the_person_told_where(store: Store) -> None:
    text = "é" * LONGEST_OSC
    async with started(ScriptedCore(store)) as (app, pilot):
        app.copy_to_clipboard(text)
        await wait_until(pilot, lambda: app.toasted("Saved"))
        path = Path(app.toasts[0].split(" It was saved to ")[1].removesuffix("."))
        try:
            assert path.read_text(encoding="utf-8") == text and path.stat().st_mode & 0o777 == 0o600
        finally:
            path.unlink()


async def test_the_image_in_the_clipboard_is_attached_by_a_key_and_a_command(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "copied.png").write_bytes(PNG)
    desktop = program(tmp_path / "bin", "wl-paste", 'test "$*" = "--type image/png" && cat "$HERE/../copied.png"')
    for name, value in (desktop | {"WAYLAND_DISPLAY": "wayland-0"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    async with started(core := ScriptedCore(store, [[*verified("A cat."), finished(2)]])) as (app, pilot):
        first, second = (store.path.with_name("pasted") / f"image-{number}.png" for number in (1, 2))
        app.prompt.write("what is")
        await press(pilot, "ctrl+v", until=lambda: app.prompt.text == f"what is @{first} ")
        await press(pilot, "enter", until=lambda: len(core.prompts) == 1)
        (question, _) = store.branches.thread(store.conversations.all()[0].id)
        assert question.attachments == (Attachment("image-1.png", "image/png", PNG),)
        assert first.stat().st_mode & 0o777 == 0o600
        await wait_until(pilot, lambda: not app.prompt.answering)
        app.prompt.write("/paste")
        await press(pilot, "enter", until=lambda: app.prompt.text == f"@{second} ")
        (tmp_path / "copied.png").write_bytes(b"text")
        app.prompt.write("")
        app.copy_to_clipboard("copied here")
        await press(pilot, "ctrl+v", until=lambda: app.prompt.text == "copied here")
        app.prompt.write("/paste")
        await press(pilot, "enter", until=lambda: app.toasted("There is no image in the clipboard."))
