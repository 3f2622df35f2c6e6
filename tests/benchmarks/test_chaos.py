"""Answers on a line that fails at random: what is lost, duplicated or wrong is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.events import Done, Drafted, Event, Failed, Stats, Verified
from benchmarks import chaos
from benchmarks.chaos import main
from storage import Message
from tests.support.nothing_lost import violations


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


def test_each_thing_that_may_be_wrong_is_found(drafter):
    """In an answer of which two tokens are verified, and the others drafted."""
    tokens = drafter.text.encode("list all files")
    words, provenance = drafter.text.decode(tokens), (True,) * 2 + (False,) * (len(tokens) - 2)
    stored = Message("m", "c", None, "assistant", words, "done", tuple(tokens), provenance, {}, "")
    solid = drafter.text.decode(tokens[:2])
    done = Done(False, "length", stored.tokens, provenance, Stats())
    events: list[Event] = [Verified(solid, 2, 0), Drafted(words.removeprefix(solid), len(tokens) - 2), done]

    def found(events: list[Event] = events, stored: Message = stored, reference: list[int] | None = tokens) -> str:
        return "; ".join(violations(events, stored, reference, drafter.text))

    assert found() == found(reference=None) == found(reference=[*tokens[:2], 3, 4, 5]) == ""
    assert found([*events[:-1], Failed("No verifier.", "unavailable")], replace(stored, status="failed")) == ""
    assert "it ended 0 times" in found(events[:-1])
    assert "it ended 2 times" in found([*events, events[-1]])
    assert "are stored, or other ones" in found(stored=replace(stored, tokens=(*stored.tokens[:-1], 3)))
    assert "stored as stopped" in found(stored=replace(stored, status="stopped"))
    assert "follows one that is not" in found(stored=replace(stored, provenance=stored.provenance[::-1]))
    assert "4 tokens were shown as verified, and 2 are" in found([events[0], *events])
    assert "shown" in found([events[0], events[-1]])
    assert "not that of the stored tokens" in found(stored=replace(stored, text=stored.text + "!"))
    assert "verified token 1 of 2 is not the target's own" in found(reference=[tokens[0], tokens[1] + 1, *tokens[2:]])
    whole = replace(stored, provenance=(True,) * len(tokens))
    said = [Verified(stored.text, len(tokens), 0), replace(events[-1], provenance=whole.provenance)]
    assert found(said, whole) == ""
    short = f"it ended after {len(tokens)} of the target's {len(tokens) + 1} tokens"
    assert found(said, whole, [*tokens, 9]) == short
