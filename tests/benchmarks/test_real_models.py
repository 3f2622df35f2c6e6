"""The suite for pretrained models, on a tiny one: what it counts and times, and that what fails stops nothing else."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from benchmarks.real_answers import LOOP, answers, speed
from benchmarks.real_models import measured, models, tokens, written
from benchmarks.real_run import Count, Run
from tests.support.gguf_writer import write_gguf

ALL = Count(2, 2)


@pytest.fixture
def run(tiny_pair: Path, tmp_path: Path) -> Run:
    shutil.copytree(tiny_pair / "target", tmp_path / "models" / "target")
    shutil.copytree(tiny_pair / "drafter", tmp_path / "drafters" / "target")
    (model,) = models(tmp_path / "models")
    return Run(model, tmp_path / "work", quick=True, drafters=tmp_path / "drafters")


def test_prompts_and_answers_of_a_folder_are_compared_with_those_of_transformers(run: Run) -> None:
    counts = tokens(run)
    assert set(counts) == {"text as transformers renders it", "tokens as in transformers"}
    assert all(count.right == count.of > 15 for count in counts.values())
    found = answers(run)
    others = ("plain, asked again", "hosted", "edge", "auto", "trees")
    assert found == {"plain = transformers": ALL, **{f"{way} = plain": ALL for way in others}}


def test_those_of_a_gguf_file_are_compared_with_those_of_llama_cpp(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install '.[gguf]'")
    file = tmp_path / "models" / "tiny.gguf"
    write_gguf(run.model, file)
    run = dataclasses.replace(run, model=file)
    counts = tokens(run)
    assert counts["tokens as in llama.cpp"].right == counts["tokens as in llama.cpp"].of > 15
    assert answers(run) == {
        "plain = llama.cpp": ALL,
        "plain, asked again = plain": ALL,
        "with drafts": "not tried: there is no drafter",
    }
    timed = speed(run)
    assert timed[f"loopback, plain over {LOOP}"] > 0 and timed["4g, plain: first text, s"] > 0.07


def test_a_part_that_fails_is_a_row_and_the_others_go_on(run: Run) -> None:
    (run.model / "chat_template.jinja").write_text("{{ nothing.of.this }}")
    found = measured(run, ["tokens", "drafter"])
    assert "failed" in found["tokens"] and found["drafter"]["used and offered"] == "yes"
    assert "| tokens: failed |" in written({run.name: found})
