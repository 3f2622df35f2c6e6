"""What bar and panel say of a server that verifies nothing: never that anything was verified."""

from __future__ import annotations

import pytest

from app.events import RoundEnded, Started, Stats
from app.tui.metrics import SessionMetrics
from app.tui.widgets.panel import lines
from app.tui.widgets.status_bar import figures


@pytest.mark.parametrize(("counted", "says"), [(True, "512 tokens"), (False, "~512 tokens")])
def test_what_a_server_streams_is_not_called_verified(counted: bool, says: str) -> None:
    stats = Stats(rounds=0, streamed=512, counted=counted, seconds=8.0, rtt_ms=30.0)
    bar = str(figures(stats, 200, short=False))
    assert says in bar and "checked" not in bar and "τ" not in bar
    counting = SessionMetrics()
    counting.apply(Started("c", "m"))
    counting.apply(RoundEnded(stats))
    panel = "\n".join(str(line) for line in lines(counting, None))
    assert "streamed 512 512" in " ".join(panel.split())
    assert "checked" not in panel and "τ" not in panel and "passes" not in panel


def test_what_a_verifier_verified_beside_it_is_still_told() -> None:
    bar = str(figures(Stats(rounds=4, verified=12, streamed=5, counted=True, seconds=1.0), 200, short=False))
    assert "12 tokens checked" in bar and "5 tokens" in bar
