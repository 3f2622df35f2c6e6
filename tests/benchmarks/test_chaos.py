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
    tiny_pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone, asked = chaos.target_alone, 0

    async def other_target(*arguments) -> list[int]:
        """From the third question on it says something else."""
        nonlocal asked
        answer = await alone(*arguments)
        asked += 1
        return answer if asked < 3 else [answer[0] + 1, *answer[1:]]

    monkeypatch.setattr(chaos, "target_alone", other_target)
    asks = ("list all files", "unpack a tar archive", "show disk usage", "find a file by name")
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps({"prompt": question}) + "\n" for question in asks))
    out = tmp_path / "out.json"
    options = [f"--target={tiny_pair / 'target'}", f"--moa={tiny_pair / 'drafter'}", "--verifiers=2"]
    options += [f"--prompts={tmp_path / 'prompts.jsonl'}", "--max-tokens=32", f"--json={out}"]
    assert main([*options, "--runs=3", "--seed=2600", "--mode=edge"]) == 1
    written = json.loads(out.read_text())
    assert written["machine"]["cores"] >= 1
    *rows, total = written["rows"]
    assert [row["violations"] == [] for row in rows] == [True, True, False]
    assert "is not the target's own" in rows[2]["violations"][0]
    assert all(row["faults"] for row in rows) and total["violations"] == len(rows[2]["violations"])
    assert total["tokens"] == sum(row["tokens"] for row in rows) and total["verified"] > 0
    assert capsys.readouterr().out.count("\n") == 4


def test_a_model_on_this_device_that_writes_meanwhile_and_is_killed_loses_nothing(
    tiny_pair: Path, tmp_path: Path
) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "list all files"}\n')
    out = tmp_path / "out.json"
    options = [f"--target={tiny_pair / 'target'}", f"--moa={tiny_pair / 'drafter'}", "--verifiers=2"]
    options += [f"--prompts={tmp_path / 'prompts.jsonl'}", "--max-tokens=48", f"--json={out}"]
    assert main([*options, f"--stand-in={tiny_pair / 'target'}", "--runs=1", "--seed=0", "--mode=hosted"]) == 0
    row, _ = json.loads(out.read_text())["rows"]
    assert row["offline"] > 0 and row["faults"]
