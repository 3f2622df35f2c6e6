"""Lines on a tiny pair: modes make rows, text is checked, and what the rows hold is computed right."""

from __future__ import annotations

import json

import msgspec
import pytest

from benchmarks.answer_cells import MODES, Sample
from benchmarks.network import WrongAnswer, check, main
from tests.support.emulator import LinkProfile

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


# ---- arithmetic ------------------------------------------------------------------------------------------------------

LINE = LinkProfile(name="line", rtt_ms=1, up_mbps=1, down_mbps=1)
WHOLE = Sample(tokens=(5, 6, 7), verified=3, seconds=1.5, rounds=2, passes=2, bytes_up=30, bytes_down=60)


@pytest.mark.parametrize(
    ("changes", "lossless", "lossy"),
    [
        ({}, None, None),
        ({"tokens": (5, 9, 7)}, "token 1 of the answer is 9", "token 1 of the answer is 9"),
        ({"tokens": (5, 6, 7, 8), "verified": 4}, "token 3 of the answer is 8", "token 3 of the answer is 8"),
        ({"verified": 2}, "2 of 3 tokens are verified", None),
        ({"tokens": (5, 9), "verified": 1}, "1 of 3 tokens are verified", None),
        ({"tokens": (5,), "verified": 1, "failed": "the line is dead"}, "the line is dead", None),
    ],
)
def test_text_is_checked(changes, lossless, lossy):
    sample = msgspec.structs.replace(WHOLE, **changes)
    gone = msgspec.structs.replace(LINE, outages=((1.0, 2.0),))
    for profile, says in ((LINE, lossless), (gone, lossy), (msgspec.structs.replace(LINE, loss=0.1), lossy)):
        if says is None:
            check(profile, "edge", sample, (5, 6, 7))
        else:
            with pytest.raises(WrongAnswer, match=says):
                check(profile, "edge", sample, (5, 6, 7))
