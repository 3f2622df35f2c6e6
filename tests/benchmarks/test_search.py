"""The search benchmark: what it fills the database with, and that each of its rows is what it says."""

from __future__ import annotations

import json
import random
import re

from benchmarks import search


def test_the_texts_are_the_same_each_time_and_like_those_of_a_chat():
    first, again = (list(search.conversations(60, random.Random(3))) for _ in range(2))
    assert first == again and len(first) == 3
    for whole in first:
        assert [message.role for message in whole.messages] == ["user", "assistant"] * search.TURNS
        assert whole.conversation.tip_id == whole.messages[-1].id
        assert len(whole.messages[1].text) > 2 * len(whole.messages[0].text)


def test_each_query_is_a_row_of_both_searches(tmp_path, capsys):
    out = tmp_path / "out.json"
    search.main(["--messages", "200", "--repeats", "2", "--json", str(out)])
    document = json.loads(out.read_text())
    rows = document["rows"]
    queries = [words[: search.WIDTH] for queries in search.QUERIES.values() for words in queries]
    asked = ["com", *(words for words in queries for _ in range(2)), search.SENTENCE]
    assert [row["words"] for row in rows if row["kind"] != "a pasted answer"] == asked
    assert [row["found"] > 0 for row in rows if row["kind"] == "a pasted answer"] == [True, True]
    assert document["messages"] == 200 and document["bytes"] > 0 and "processor" in document["machine"]
    for row in rows:
        assert 0 < row["median_ms"] <= row["worst_ms"] < 10_000
        assert row["found"] == 0 or row["kind"] != "nothing"
        assert row["found"] > 0 or row["kind"] not in ("one letter", "two letters", "three letters", "common word")
    assert re.search(r"^200 messages, \d+ MB; worst of all [\d.]+ ms$", capsys.readouterr().out, re.MULTILINE)
