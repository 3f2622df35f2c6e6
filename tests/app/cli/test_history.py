"""`outrider history` and `outrider usage`: what scripts read, and that nothing is lost by a removal."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.history import SHORTEST_ID, short_ids
from storage import Store
from tests.support.commands import Outrider

TITLES = ("second", "third", "fourth", "first")
"""Titles in the order in which they were last written to, the oldest first."""


@pytest.fixture
def ids(home: Path) -> dict[str, str]:
    """Four conversations with a question each: ids by title. The second one is pinned."""
    path = home / "data" / "outrider.db"
    with Store.open(path) as store:
        found = {title: store.conversations.create(title).id for title in ("first", "second", "third", "fourth")}
        for title, identifier in found.items():
            store.messages.add(identifier, "user", f"what is the {title} question?", parent_id=None, status="done")
        store.conversations.pin(found["second"], True)
    with closing(sqlite3.connect(path)) as database, database:
        for day, title in enumerate(TITLES, 1):
            written = (f"2026-01-0{day}T12:00:00Z", day, title)
            database.execute("UPDATE conversations SET updated = ?, written = ? WHERE title = ?", written)
    return found


def listed(outrider: Outrider, *arguments: str) -> list[str]:
    """The titles that a command lists."""
    return [line.split("  ", 2)[2] for line in outrider("history", *arguments).out.splitlines()]


def test_pinned_ones_keep_their_place_in_time_and_json_has_whole_ids(outrider: Outrider, ids: dict[str, str]) -> None:
    lines = [line.split("  ") for line in outrider("history").out.splitlines()]
    assert [title for _, _, title in lines] == ["first", "fourth", "third", "second"]
    dates = [date for _, date, _ in lines]
    assert dates == sorted(dates, reverse=True)
    assert listed(outrider, "-n", "2") == listed(outrider, "list", "-n", "2") == ["first", "fourth"]
    (newest,) = outrider("history", "list", "-n", "1", "--json").rows
    assert (newest["id"], newest["title"], newest["pinned"]) == (ids["first"], "first", False)
    (found,) = outrider("history", "search", "third", "--json").rows
    assert (found["conversation"], found["role"]) == (ids["third"], "user")
    assert found["text"] == "what is the third question?"


def test_the_beginning_of_an_id_is_enough(outrider: Outrider, ids: dict[str, str]) -> None:
    short = outrider("history", "-n", "1").out.split()[0]
    assert ids["first"].startswith(short) and SHORTEST_ID <= len(short) < len(ids["first"])
    shown = outrider("history", "show", short)
    assert shown.code == 0 and "what is the first question?" in shown.out
    assert outrider("export", short).out == shown.out
    assert outrider("history", "show", short, "--json").json
    assert "what is the first question?" in outrider("history", "show").out, "without an id, the last"
    assert outrider("ask", "--queue", "-c", "and then?").code == 0
    assert outrider("ask", "--queue", "--conversation", short, "and", "after", "that?").code == 0
    assert [line.split("  ")[1] for line in outrider("queue").out.splitlines()] == [ids["first"]] * 2


def test_what_begins_with_nothing_or_with_several_is_refused(outrider: Outrider, home: Path) -> None:
    with Store.open(home / "data" / "outrider.db") as store:
        for _ in range(4):
            store.conversations.create("a")
    with closing(sqlite3.connect(home / "data" / "outrider.db")) as database, database:
        database.execute("UPDATE conversations SET id = 'c0ffee0' || (key - (SELECT min(key) FROM conversations))")
        database.execute("UPDATE conversations SET id = 'c0ffee' WHERE id = 'c0ffee03'")
    several = outrider("history", "show", "c0ff")
    assert several.says(1, "More than one") and "c0ffee00" in several.err
    assert outrider("history", "show", "c0ffee").code == 0, "a whole id is itself, whatever else begins so"
    for nobody in ("", "beef", "%", "C0FFEE"):
        assert outrider("history", "rename", nobody, "x").says(1, "outrider history")
    assert outrider("history", "rm", "c0ffee00", "beef").code == 1
    assert "c0ffee00" in outrider("history", "list", "--json").out, "one that is not there, and none is removed"


def test_removed_conversations_come_back(outrider: Outrider, ids: dict[str, str]) -> None:
    assert outrider("history", "rm", ids["first"][:8], ids["third"]).says(0, f"outrider history restore {ids['third']}")
    assert listed(outrider) == ["fourth", "second"]
    assert sorted(listed(outrider, "list", "--bin")) == ["first", "third"]
    assert outrider("history", "restore", ids["third"][:8]).code == 0
    assert listed(outrider) == ["fourth", "third", "second"]
    assert outrider("history", "restore", ids["fourth"]).code == 1, "it is not in the bin"
    assert outrider("history", "rename", ids["fourth"], "notes", "on", "tar").code == 0
    assert listed(outrider, "-n", "1") == ["notes on tar"], "a title needs no quotes"


@given(st.sets(st.text("01", min_size=8, max_size=8), min_size=1, max_size=20))
def test_short_ids_tell_each_from_all_others(ids: set[str]) -> None:
    short = short_ids(ids)
    assert set(short) == ids
    for one, beginning in short.items():
        assert len(beginning) >= SHORTEST_ID and [other for other in ids if other.startswith(beginning)] == [one]


def test_what_was_asked_in_the_shell_is_told_apart(outrider: Outrider, ids: dict[str, str], home: Path) -> None:
    with Store.open(home / "data" / "outrider.db") as store:
        store.conversations.set_origin(ids["third"], "ask")
    assert listed(outrider, "--from", "shell") == listed(outrider, "list", "--from", "shell") == ["third"]
    assert listed(outrider, "--from", "chat", "-n", "1") == ["first"] and len(listed(outrider)) == 4
    origins = {row["title"]: row["from"] for row in outrider("history", "--json").rows}
    assert origins == {"first": "chat", "second": "chat", "third": "shell", "fourth": "chat"}


def test_a_search_says_who_wrote_what_nobody_checked(outrider: Outrider, home: Path) -> None:
    found: list[tuple[dict[str, Any], str | None]] = [
        ({"stretches": [{"at": 0, "writer": "talker", "here": False}]}, None),
        ({"stretches": [{"at": 0, "writer": "\x1b[31mqwen", "here": True}]}, "not checked, by qwen"),
        ({"stretches": [{"at": 7, "writer": "qwen", "here": True}]}, "partly not checked, by qwen"),
        ({"drafted": 3, "drafted_by": "small model for x"}, "not checked, by the small model for x"),
        ({"drafted": 3, "verified": 2}, "partly not checked, drafted offline"),
        ({"drafted": 0, "verified": 2, "drafted_by": "small model for x"}, None),
    ]
    with Store.open(home / "data" / "outrider.db") as store:
        for stats, _ in found:
            answer = store.messages.ask(store.conversations.create("").id, "a question", parent_id=None)
            store.messages.finish(answer.id, (), (), "a needle", "done", stats)
    ends = [f"assistant ({said})  a needle" if said else "assistant  a needle" for _, said in found]
    lines = outrider("history", "search", "needle").out.splitlines()
    assert sorted(line[line.index("assistant") :] for line in lines) == sorted(ends)
    rows = outrider("history", "search", "needle", "--json").rows
    assert {row["unchecked"] for row in rows} == {said for _, said in found}


def test_dates_are_those_of_the_clock_on_the_wall_and_one_that_no_calendar_has_does_not_end_the_list(
    outrider: Outrider, ids: dict[str, str], home: Path
) -> None:
    """An import may have brought it."""
    with closing(sqlite3.connect(home / "data" / "outrider.db")) as database:
        for title, updated in (("first", "2024-13-45T99:00:00+00:00"), ("third", "9999-12-31T23:59:59+00:00")):
            database.execute("UPDATE conversations SET updated = ? WHERE title = ?", (updated, title))
        database.commit()
    with pytest.MonkeyPatch.context() as ahead:
        ahead.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        shown = outrider("history")
    time.tzset()
    assert shown.code == 0 and len(shown.out.splitlines()) == len(ids)
    assert all(date in shown.out for date in ("2026-01-01 21:00", "2024-13-45 99:00", "9999-12-31 23:59"))


# ---- usage: sums of any months, conversations and models -------------------------------------------------------------


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
