"""Lines on a tiny pair: modes make rows."""

from __future__ import annotations

import json

import pytest

from benchmarks.answer_cells import MODES
from benchmarks.network import main

TOKENS = 12


def test_every_mode_makes_a_row(tiny_pair, tmp_path):
    prompts, profiles, out = (tmp_path / name for name in ("prompts.jsonl", "profiles.json", "out.json"))
    prompts.write_text("".join(json.dumps({"prompt": f"find large files, {at}"}) + "\n" for at in range(3)))
    profiles.write_text(json.dumps([{"name": "wire", "rtt_ms": 1, "up_mbps": 1000, "down_mbps": 1000}]))
    given = {"prompts": prompts, "profiles": profiles, "json": out, "max-tokens": TOKENS, "limit": 2, "forward": 0}
    given |= {"target": tiny_pair / "target", "drafter": tiny_pair / "drafter"}
    main([f"--{name}={value}" for name, value in given.items()])
    rows = {row["mode"]: row for row in json.loads(out.read_text())["rows"]}
    assert set(rows) == set(MODES)
    for each in rows.values():
        assert (each["profile"], each["paced_ms"], each["prompts"], each["tokens"]) == ("wire", 0.0, 2, 2 * TOKENS)
        assert each["unverified_tokens"] == each["failed"] == 0
        low, high = each["ci95"]
        assert 0 < low <= each["tokens_per_second"] <= high
        assert each["bytes_up"] > 0 and each["bytes_down"] > 0
        assert 0 < each["first_token_seconds"] <= each["first_verified_seconds"]
        assert each["passes_per_100_tokens"] == pytest.approx(100 / each["tau"], abs=0.1)
        assert sum(each["ms_per_round"].values()) > 0 <= min(each["ms_per_round"].values())
    plain, edge = rows["plain"], rows["edge"]
    assert plain["tau"] == 1 and plain["first_drafted_seconds"] is None and edge["first_drafted_seconds"] > 0
    assert edge["dimmed"]["confirmed"] > 0 <= edge["dimmed"]["share"] < 1 and plain["dimmed"]["shown"] == 0
    assert edge["tau"] > 1.5 and edge["bytes_down"] > plain["bytes_down"]
    assert edge["chose"] == {"edge": 2}
