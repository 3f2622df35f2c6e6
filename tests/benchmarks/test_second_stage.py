"""The benchmark on a tiny drafter: what it counts adds up, and it refuses a text that differs."""

from __future__ import annotations

import pytest

from benchmarks.second_stage import STAGES, StageTally, measure
from drafter.context import DraftContext

QUESTIONS = ["list all files", "unpack a tar archive", "list all files"]


@pytest.fixture(scope="module")
def prompts(drafter) -> list[list[int]]:
    return [drafter.text.render([("user", question)]) for question in QUESTIONS]


def test_every_stage_writes_the_same_text(drafter, prompts):
    tallies = measure(drafter, prompts, most=40)
    assert set(tallies) == set(STAGES)
    off = tallies["off"]
    assert off.tokens == [39] * 3 and off.steps == 117 and off.accepted == 0
    for stage, tally in tallies.items():
        row = tally.row(stage, off)
        assert row["prompts"] == 3 and row["tokens"] == sum(tally.tokens) <= 117
        assert row["ci95"][0] <= row["speedup"] <= row["ci95"][1]
        assert row["tokens_per_step"] >= 1.0
    assert off.row("off", off)["speedup"] == 1.0
    assert tallies["stored"].accepted > 0


def test_a_text_that_differs_stops_it(drafter, prompts, monkeypatch):
    drawn = DraftContext.generate

    def unlike(self, temperature, seed):
        for tokens in drawn(self, temperature, seed):
            yield tokens if self.second_stage is None else [token ^ 1 for token in tokens]

    monkeypatch.setattr(DraftContext, "generate", unlike)
    with pytest.raises(SystemExit, match="prompt 0"):
        measure(drafter, prompts[:1], most=10)


def test_speed_is_that_of_all_tokens_together():
    off, on = StageTally([10, 30], [1.0, 3.0], 40), StageTally([10, 30], [1.0, 1.0], 16, 24)
    row = on.row("conversation", off)
    assert (row["tokens_per_second"], row["speedup"], row["tokens_per_step"]) == (20.0, 2.0, 2.5)
    assert row["ci95"][0] >= 1.0 and row["ci95"][1] <= 3.0
