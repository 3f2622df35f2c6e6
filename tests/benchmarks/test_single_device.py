"""The benchmark on a tiny pair: all ways give one text, one that differs stops it, speeds are those of all tokens."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
import torch

from benchmarks import single_device
from benchmarks.baseline_drafters import baseline_config, build
from benchmarks.exactness import DifferentTokens
from benchmarks.single_device import (
    ASSISTED,
    BOUNDS,
    MOST_TOKENS,
    PACES,
    Timed,
    as_served,
    assistant_of,
    assisted,
    by_transformers,
    plainly,
    row,
    run,
    with_drafts,
)
from drafter.search import Pace

WAYS = ("", ", second stage", ", as the app drafts", ", fixed pace")


def test_all_ways_answer_alike(engine, drafter, prompts):
    ways = {
        "plain": plainly(engine, drafter.text.stop_tokens),
        "chain": with_drafts(engine, drafter, Pace(4, 1, 4)),
        "tree": with_drafts(engine, drafter, Pace(4, 4, 16)),
        "measured": with_drafts(engine, drafter, BOUNDS, measuring=True),
        "staged": with_drafts(engine, drafter, replace(BOUNDS, deepest=16), (drafter.datastore(),), measuring=True),
        "served": as_served(engine, drafter),
        "generate": by_transformers(engine.model),
        "lookup": by_transformers(engine.model, prompt_lookup_num_tokens=4),
    }
    timed = run(ways, prompts)
    assert list(timed) == list(ways)
    assert {tuple(way.tokens) for way in timed.values()} == {(MOST_TOKENS, MOST_TOKENS)}
    assert all(seconds > 0 for way in timed.values() for seconds in way.seconds)


def test_assisted_generation_is_of_the_same_text_and_the_same_small_model(engine, prompts):
    target = engine.model
    small = build(baseline_config(target, "tiny", "independent", parameters=20_000)).eval().requires_grad_(False)
    assistant = small.as_llama(target)
    ids, positions = torch.tensor(prompts[0]), torch.arange(len(prompts[0]))
    mask = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
    out, _ = small(ids, positions, torch.empty(0), small.empty_past(), mask)
    torch.testing.assert_close(assistant(input_ids=ids[None]).logits[0], small.logits(out), atol=1e-4, rtol=1e-4)
    count, way = assisted(target, assistant, prompts[:1])
    run({"generate": by_transformers(target), "assisted": way}, prompts)
    assert assistant.generation_config.num_assistant_tokens == count in ASSISTED


def test_another_engine_is_compared_with_itself(tiny_pair, tmp_path, monkeypatch):
    monkeypatch.setattr(single_device, "PACES", PACES[:2])
    (tmp_path / "prompts.jsonl").write_text(
        "".join(
            json.dumps({"id": str(at), "turns": [turn]}) + "\n" for at, turn in enumerate(("list files", "unpack it"))
        )
    )
    out, pair = tmp_path / "out.json", ["--target", str(tiny_pair / "target"), "--drafter", str(tiny_pair / "drafter")]
    options = ["--engine", "onnx", "--prompts", str(tmp_path / "prompts.jsonl"), "--json", str(out), *pair]
    monkeypatch.setattr(sys, "argv", ["single_device", *options])
    single_device.main()
    document = json.loads(out.read_text())
    assert "ONNX Runtime" in document["engine"]
    rows = {row["name"]: row for row in document["rows"]}
    assert set(rows) == {"plain", "outrider, as the server drafts", *(f"outrider{way}" for way in WAYS)}
    assert rows["plain"]["calls"] is None and rows["plain"]["speedup"] == 1
    assert all(rows[f"outrider{way}"]["calls"] > 0 and 0 < rows[f"outrider{way}"]["drafting"] < 1 for way in WAYS)


def test_a_missing_small_model_is_said(engine, tmp_path, capsys):
    assert assistant_of(engine.model, None, tmp_path) is None
    assert "no assisted generation: No baseline in" in capsys.readouterr().err


def test_an_answer_that_differs_stops_it(engine, drafter, prompts):
    honest = plainly(engine, drafter.text.stop_tokens)
    with pytest.raises(DifferentTokens, match="shorter and plain answer differently"):
        run({"plain": honest, "shorter": lambda prompt: honest(prompt)[:-1]}, prompts[:1])


def test_answers_that_differ_are_counted_where_they_may(engine, drafter, prompts):
    honest = plainly(engine, drafter.text.stop_tokens)
    timed = run({"plain": honest, "shorter": lambda prompt: honest(prompt)[:-1]}, prompts[:2], strict=False)
    assert (timed["plain"].alike, timed["shorter"].alike) == (2, 0)


def test_speed_is_that_of_all_tokens_together():
    plain, quick = Timed([1.0, 3.0], [10, 30]), Timed([1.0, 1.0], [10, 30])
    line = row("quick", quick, plain)
    assert (line["tokens_per_second"], line["speedup"], line["tokens"]) == (20.0, 2.0, 40)
    assert line["ci95"] == [1.0, 3.0]
