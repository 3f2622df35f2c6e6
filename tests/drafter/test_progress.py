"""Progress: lines for a log, a bar for a terminal, and a time left that knows what an earlier run did."""

from __future__ import annotations

import io
from contextlib import redirect_stderr

import pytest

from drafter import progress
from drafter.progress import stage, track


class Clock:
    """Seconds that pass only when told."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress.time, "monotonic", clock)
    return clock


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal would be sent."""
    written = io.StringIO()
    monkeypatch.setattr(written, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return written


def test_a_log_gets_a_line_now_and_then(clock, capsys):
    with stage("answers", 100, 90) as answers:
        for _ in range(10):
            clock.now += 12
            answers.advance()
    lines = capsys.readouterr().err.splitlines()
    # 3 of this run's 10 steps took 36 s, so 7 take 84 s. What was done before does not count for the speed.
    assert lines == [
        "answers: 93/100, 1.4 min left",
        "answers: 96/100, 0.8 min left",
        "answers: 99/100, 0.2 min left",
        "answers: 100/100",
    ]
    with stage("training", 4) as training:
        clock.now += 20
        training.advance()
        training.tell("loss 2", '{"loss": 2}')
    assert capsys.readouterr().err.splitlines() == ['training: {"loss": 2}, 1.0 min left'], "told on a line of its own"


@pytest.mark.parametrize(("done", "shown"), [(5, True), (0, False)])
def test_nothing_is_said_of_what_is_done_or_of_another_process(capsys, done, shown):
    with stage("features", 5, done, shown=shown) as features:
        features.advance(5 - done)
        features.tell("brief", "line")
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(terminal):
    with redirect_stderr(terminal), stage("training", 100, 40) as training:
        training.tell("loss 1.25", "{}")
        training.advance(60)
    assert "100/100" in terminal.getvalue() and "loss 1.25" in terminal.getvalue() and "{}" not in terminal.getvalue()


def test_a_terminal_that_cannot_draw_gets_lines(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with redirect_stderr(terminal):
        assert list(track("tau", ["a", "b"])) == ["a", "b"]
    assert terminal.getvalue() == "tau: 2/2\n"
