"""`outrider usage`: sums that scripts can read, of any months, conversations and models."""

from __future__ import annotations

from pathlib import Path

from storage import Store
from tests.support.commands import Outrider

COUNTED = {"model": "talker", "tokens_in": 1200, "tokens_out": 40, "uncounted": 0, "price_in": 2.0, "price_out": 10.0}


def test_tokens_and_costs_are_summed_up(outrider: Outrider, home: Path) -> None:
    empty = outrider("usage")
    assert empty.says(0, "no answers") and empty.out == "" and outrider("usage", "--json") == (0, "", "")
    with Store.open(home / "data" / "outrider.db") as store:
        ids = [store.conversations.create(title).id for title in ("first\x1b[2J", "second")]
        own = {"model": "guide", "read": 300, "verified": 20, "drafted": 5, "rounds": 9}
        free = {"model": "free", "tokens_in": 10, "tokens_out": 1, "uncounted": 1}
        for conversation, stats in ((0, COUNTED), (1, own), (1, free), (0, {"source": "ChatGPT", "tokens_in": 7})):
            pending = store.messages.ask(ids[conversation], "q", parent_id=None)
            store.messages.finish(pending.id, (), (), "a", "done", stats)
    (line,) = outrider("usage").out.splitlines()
    assert line.endswith(
        "  3 answers  1.5k tokens read  66 written  $0.0028 and 1 without a price  1 not fully counted"
    )
    newest, oldest = outrider("usage", "--by", "conversation", "--json").rows
    assert (newest["conversation"], newest["dollars"], newest["unpriced"]) == (ids[1], None, 1)
    assert (oldest["conversation"], oldest["read"], oldest["dollars"]) == (ids[0], 1200, 0.0028)
    shown = outrider("usage", "--by", "conversation").out
    assert "first  1 answer  " in shown and "\x1b" not in shown
    assert [row["model"] for row in outrider("usage", "--by", "model", "-n", "2", "--json").rows] == ["free", "guide"]


def test_a_price_is_a_setting_of_the_server(outrider: Outrider, home: Path) -> None:
    added = outrider("remote", "add", "work", "http://127.0.0.1:9/v1", "--price", "0.5", "1.5", "--token-env", "KEY")
    assert added.code == 0 and "price = [0.5,1.5]" in (home / "config" / "remotes.toml").read_text()
    refused = outrider("remote", "add", "other", "http://127.0.0.1:9/v1", "--price", "-1", "1", "--token-env", "KEY")
    assert refused.code == 2 and "price" in refused.err
