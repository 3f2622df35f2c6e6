"""Speeds on a tiny pair: all ways of decoding give one text, and each is told as fast as it was."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import single_device
from benchmarks.single_device import PACES, DifferentTokens, plainly, run

WAYS = ("", ", second stage", ", as the app drafts", ", fixed pace")


def test_another_engine_is_compared_with_itself(tiny_pair, tmp_path, monkeypatch):
    monkeypatch.setattr(single_device, "PACES", PACES[:2])
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps({"prompt": f"say {at}"}) + "\n" for at in range(2)))
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


def test_an_answer_that_differs_stops_it_or_is_counted_where_it_may(engine, drafter, prompts):
    honest = plainly(engine, drafter.text.stop_tokens)
    ways = {"plain": honest, "shorter": lambda prompt: honest(prompt)[:-1]}
    with pytest.raises(DifferentTokens, match="shorter and plain answer differently"):
        run(ways, prompts[:1])
    timed = run(ways, prompts, strict=False)
    assert (timed["plain"].alike, timed["shorter"].alike) == (2, 0)
