"""What is sent to a terminal: frames, of which benchmarks.terminal_bytes measures the bytes, and what is copied."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tui.clipboard import LONGEST_OSC, TIMEOUT_SECONDS, copy, osc52, programs
from app.tui.terminal_cells import TerminalCells, cells
from storage import Attachment, Store
from tests.app.attachments.conftest import PNG
from tests.app.tui.scripted import ScriptedCore, finished, press, verified, wait_until
from tests.app.tui.window import started
from tests.support.conversing import until
from tests.support.patience import PATIENCE_SECONDS

LINES, COLUMNS = 12, 20
SEQUENCE = re.compile(r"\x1b\[([\d;]*)([A-Za-z])|\x1bM|\n|[^\x1b\n]")


class Emulated:
    """A terminal that knows the sequences a frame may have. New lines of a scroll show rubbish until they are written,
    because terminals do not agree on their colour."""

    def __init__(self) -> None:
        self.rows = [[("?", "?")] * COLUMNS for _ in range(LINES)]
        self._x = self._y = 0
        self._margins = (0, LINES - 1)
        self._style: dict[str, str] = {}

    def feed(self, sent: str) -> None:
        for found in SEQUENCE.finditer(sent):
            numbers, final = found.group(1), found.group(2)
            given = [int(number or 1) for number in (numbers or "").split(";")]
            match final:
                case "H":
                    self._y, self._x = given[0] - 1, given[-1] - 1
                case "G":
                    self._x = given[0] - 1
                case "r":
                    self._margins = (given[0] - 1, given[1] - 1) if numbers else (0, LINES - 1)
                    self._x = self._y = 0
                case "m":
                    self._set(numbers or "0")
                case None if found.group() in ("\n", "\x1bM"):
                    self._scroll(up=found.group() == "\n")
                case None:
                    self._write(found.group())
                case _:
                    raise AssertionError(found.group())

    def _set(self, codes: str) -> None:
        for code in codes.split(";"):
            if code == "0":
                self._style = {}
            elif code in ("39", "49"):
                self._style.pop(code[0], None)
            else:
                self._style[code[0] if code[0] in "34" and len(code) > 1 else code] = code

    def _scroll(self, *, up: bool) -> None:
        first, last = self._margins
        assert self._y == (last if up else first), "it would only move the cursor"
        fresh = [("?", "?")] * COLUMNS
        if up:
            self.rows[first : last + 1] = [*self.rows[first + 1 : last + 1], fresh]
        else:
            self.rows[first : last + 1] = [fresh, *self.rows[first:last]]

    def _write(self, char: str) -> None:
        style = self._style if char != " " else {name: code for name, code in self._style.items() if name in ("4", "7")}
        shown = " ".join(sorted(style.values()))
        wide = char == "字"
        self.rows[self._y][self._x] = (char, shown)
        if wide:
            self.rows[self._y][self._x + 1] = ("", shown)
        self._x += 1 + wide


STYLES = ("", "1", "31", "1;31;42", "7;31", "44")
TEXT = st.text("ab 字", max_size=8)
LINE = st.lists(st.tuples(TEXT, st.sampled_from(STYLES)), max_size=3)


def row(line: Sequence[tuple[str, str]]) -> list[Any]:
    made = [cell for text, codes in line for cell in cells(text, codes)][:COLUMNS]
    if made and made[-1][0] == "字":
        made.pop()
    return made + cells(" " * (COLUMNS - len(made)), "")


@settings(deadline=None)
@given(st.lists(LINE, min_size=LINES, max_size=40), st.lists(st.integers(-5, 5), max_size=6), st.integers(0, 8))
def test_a_terminal_shows_each_frame_whatever_scrolls(lines: list[Any], steps: list[int], beside: int) -> None:
    shown, direct = TerminalCells(), [row(line) for line in lines]
    emulated, at = Emulated(), 0
    left = cells("s" * beside, "31")
    for step in [0, *steps]:
        at = min(max(0, at + step), len(direct) - LINES)
        frame = [left + one[beside:] for one in direct[at : at + LINES]]
        frame = [one if one[beside][0] else [*one[:beside], *cells(" ", ""), *one[beside + 1 :]] for one in frame]
        emulated.feed(shown.frame([(0, y, one) for y, one in enumerate(frame)], LINES, COLUMNS))
        fresh = Emulated()
        fresh.feed(TerminalCells().frame([(0, y, one) for y, one in enumerate(frame)], LINES, COLUMNS))
        assert emulated.rows == fresh.rows
        assert "".join(text for line in fresh.rows for text, _ in line) == "".join(
            text for one in frame for text, _ in one
        )


def test_what_terminals_draw_in_different_widths_moves_nothing_behind_it() -> None:
    sent = TerminalCells().frame([(0, 0, cells("a👩‍🚀b🇩🇪c❤️d", ""))], 1, 20)
    assert sent == "\x1b[1;1Ha👩‍🚀\x1b[4Gb🇩🇪\x1b[7Gc❤️\x1b[10Gd"


# ---- the clipboard ---------------------------------------------------------------------------------------------------


COPIED = "naïve `ls`\n\tend"


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
    assert (await copy(COPIED, environment)).title == "Copied"
    assert (tmp_path / "copied").read_text(encoding="utf-8") == COPIED


async def test_where_it_fails_the_terminal_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.tui.clipboard.TIMEOUT_SECONDS", TIMEOUT_SECONDS / 10)
    fails = program(tmp_path, "xclip", "exit 1"), program(tmp_path / "slow", "xclip", "exec sleep 60")
    gone = {"TMUX": "/nowhere/tmux,1,0", "PATH": os.environ["PATH"]}
    for environment in (*(one | {"DISPLAY": ":0"} for one in fails), gone):
        copied = await copy(COPIED, environment)
        found = re.fullmatch("\x1b]52;c;(.*)\x07", copied.sequence)
        assert found is not None and base64.b64decode(found[1]).decode() == COPIED


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
    copied = await copy(COPIED, {"TERM": "xterm-256color", "DISPLAY": ":0", "PATH": ""} | environment)
    assert copied.file is not None and not copied.sequence
    try:
        assert copied.file.read_text(encoding="utf-8") == COPIED
        assert copied.title == "Saved" and "Install xclip" in copied.note and str(copied.file) in copied.note
    finally:
        copied.file.unlink()


async def test_what_a_terminal_was_only_sent_is_not_called_copied() -> None:
    new = {"TERM": "xterm-256color", "KONSOLE_VERSION": "241201"}
    for environment in ({}, {"TERM": "xterm-kitty", "VTE_VERSION": "7600"}, new):
        copied = await copy(COPIED, environment)
        assert (copied.title, copied.sequence) == ("Sent to the terminal", osc52(COPIED, {}))
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
            copied = await copy(COPIED, inner.environment)
            assert copied.title == "Copied to tmux, and sent to the terminal"
            assert copied.sequence == osc52(COPIED, {}), "tmux swallows what is wrapped for it"
            await until(lambda: outer.buffer() == inner.buffer() == COPIED)
            long = await copy("x" * (LONGEST_OSC + 1), inner.environment)
            assert (long.title, len(inner.buffer()), long.sequence) == ("Copied to tmux", LONGEST_OSC + 1, "")
            inner.run("set", "-s", "set-clipboard", "off")
            assert "`set-clipboard` is off" in (await copy(COPIED, inner.environment)).note


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
