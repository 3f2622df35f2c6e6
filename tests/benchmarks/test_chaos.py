"""Answers on a line that fails at random: the mix is the seed's, and what is wrong is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import chaos
from benchmarks.chaos import MOST_ASKS, Replicas, draw, main


def test_a_seed_makes_the_same_mix_again() -> None:
    replicas = Replicas("", "")

    def mixes(mode: chaos.ChosenMode) -> list[tuple[float, int, dict[int, str]]]:
        drawn = [draw(seed, mode, replicas) for seed in range(60)]
        return [(mix.temperature, mix.turns, {ask: name for ask, (name, _) in mix.faults.items()}) for mix in drawn]

    for mode in ("auto", "hosted"):
        assert mixes(mode) == mixes(mode)
        names = {name for _, _, faults in mixes(mode) for name in faults.values()}
        assert names == {*chaos.FAULTS, *chaos.OUTAGE_KINDS, "cut", "late", "restart"}
        assert {temperature for temperature, _, _ in mixes(mode)} == {0.0, 0.7}
        assert {turns for _, turns, _ in mixes(mode)} == {1, 2, 3}
        assert all(ask < MOST_ASKS for _, _, faults in mixes(mode) for ask in faults)


def test_runs_with_faults_lose_nothing_and_a_wrong_token_is_told(
    tiny_pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, asked = chaos.target_alone, 0

    async def other_target(*arguments) -> list[int]:
        """From the second run on, which is the fourth answer, it says something else."""
        nonlocal asked
        answer = await alone(*arguments)
        asked += 1
        return answer if asked <= 3 else [answer[0] + 1, *answer[1:]]

    monkeypatch.setattr(chaos, "target_alone", other_target)
    asks = ("list all files", "unpack a tar archive", "show disk usage", "find a file by name")
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps({"prompt": question}) + "\n" for question in asks))
    out = tmp_path / "out.json"
    options = [f"--target={tiny_pair / 'target'}", f"--moa={tiny_pair / 'drafter'}", "--verifiers=2"]
    options += [f"--prompts={tmp_path / 'prompts.jsonl'}", "--max-tokens=32", f"--json={out}"]
    assert main([*options, "--runs=2", "--seed=0", "--mode=edge"]) == 1
    first, second, total = json.loads(out.read_text())["rows"]
    assert first["faults"] and second["faults"] and first["violations"] == []
    assert "is not the target's own" in second["violations"][0]
    assert total["violations"] == len(second["violations"]) and total["verified"] > 0
    assert total["tokens"] == first["tokens"] + second["tokens"]
