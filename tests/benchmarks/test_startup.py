"""The startup benchmark on our own screen: what counts as a frame and as a key, and the row that it makes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.startup import Program, measure, painted, programs, run
from tests.support.terminal import Terminal, visible


def program(source: str, **options: str) -> Program:
    return Program("test", (sys.executable, "-c", source), **options)


def test_our_screen_paints_and_then_takes_a_key(tmp_path: Path) -> None:
    (ours,) = [one for one in programs({}, [sys.executable, "-m", "app.start"]) if one.name == "outrider, offline"]
    seconds = measure(ours, tmp_path)
    assert 0 < seconds["frame"] < seconds["key"]


def test_words_before_the_screen_is_taken_are_no_frame(tmp_path: Path) -> None:
    source = (
        r"print('creating a database \x1b[?1049h\x1b[2J   ', flush=True); input(); print('frame', flush=True); input()"
    )
    with Terminal([sys.executable, "-c", source], environment={}) as terminal:
        terminal.wait_for(lambda: b"\x1b[2J" in terminal.raw)
        assert not painted(terminal)
        terminal.type("\n")
        terminal.wait_for("frame")
        assert painted(terminal)


def test_a_screen_that_takes_no_key_is_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.startup.MOST_KEYS", 5)
    source = r"print('\x1b[?1049h frame', flush=True); import termios, time; a = termios.tcgetattr(0); a[3] = 0; "
    source += "termios.tcsetattr(0, 0, a); time.sleep(60)"
    with pytest.raises(SystemExit, match="takes no key"):
        measure(program(source, keys="k", shows="never"), tmp_path)


def test_rows_hold_medians_of_all_but_the_first_round() -> None:
    rows = run([Program("quick", (sys.executable, "-c", "pass"), screen=False)], 3)
    assert [(row["program"], row["repeats"]) for row in rows] == [("quick", 3)]
    assert 0 < rows[0]["end_fastest"] <= rows[0]["end_median"]


def test_what_is_visible() -> None:
    assert visible(b"\x1b[1;2H\x1b[38;2;1;2;3ma\x1b]22;default\x07b\x1bP1$r\x1b\\c\x1b[>1u") == "abc"
