"""The bar says what holds now: no round trip of a server that is away."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Static

from app.events import ModeChanged, Stats
from app.tui.widgets.status_bar import StatusBar

STATS = Stats(rounds=3, verified=9, seconds=1.0, rtt_ms=84.0, line="online")


class Host(App[None]):
    def compose(self) -> ComposeResult:
        yield StatusBar()


def figures(host: Host) -> str:
    return str(host.query_one("#figures", Static).content)


async def test_a_line_that_is_down_has_no_round_trip() -> None:
    host = Host()
    async with host.run_test(size=(120, 5)):
        bar = host.query_one(StatusBar)
        bar.show_mode(ModeChanged("edge", "verified by target"))
        bar.show_stats(STATS)
        assert "rtt 84 ms" in figures(host)
        bar.show_mode(ModeChanged("offline", "no route"))
        assert "rtt" not in figures(host) and "9 verified" in figures(host)
        bar.show_stats(STATS)
        assert "rtt" not in figures(host)
        bar.show_mode(ModeChanged("edge", "verified by target"))
        assert "rtt" not in figures(host), "it is measured anew"
        bar.show_stats(STATS)
        assert "rtt 84 ms" in figures(host)
