"""`outrider drafter`: from a target and questions to a drafter that works, and what is said where there is none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from drafter.config import FLOAT, GRAPH, read_config, sha256
from drafter.runtime import Drafter
from drafter.search import Pace
from tests.app.commands import Outrider, runner


@pytest.fixture
def outrider(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, tiny_pair: Path
) -> Outrider:
    return runner(monkeypatch, capsys, tmp_path / "home", tiny_pair / "drafter")


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    asked = [{"prompt": "list files"}, {"turns": ["unpack it", "and delete it?"]}, {"prompt": "show disk usage"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in asked))
    return path


def test_a_trained_drafter_drafts_for_its_target(outrider: Outrider, questions: Path, tiny_pair: Path) -> None:
    out = questions.parent / "mine"
    command = (
        "drafter",
        "train",
        "--target",
        str(tiny_pair / "target"),
        "--prompts",
        str(questions),
        "--out",
        str(out),
    )
    trained = outrider(*command, "--steps", "2")
    assert trained.code == 0, trained.err
    assert trained.out.splitlines()[-1] == str(out)
    config = read_config(out)
    read_config(out, verify=tuple(config.files))
    assert (config.target, config.inference_layers) == ("target", 1)
    card = (out / "README.md").read_text()
    assert "distilled from target on 4 of its own answers" in card and "top-1 agreement" in card
    drafter = Drafter.load(out)
    context = drafter.context()
    context.commit(drafter.text.render([("user", "list files")]))
    assert len(context.draft(Pace())) == 60

    shown = outrider("drafter", "info", str(out))
    assert shown.code == 0 and "target, 3 layers of 32" in shown.out and "checksums match" in shown.out

    # Run again, it takes up what is there: no step is left to do.
    before = {path.name: sha256(path) for path in out.iterdir()}
    assert outrider(*command, "--steps", "2").code == 0
    assert {path.name: sha256(path) for path in out.iterdir()} == before


def test_without_a_file_the_stored_questions_are_asked(outrider: Outrider, tmp_path: Path, tiny_pair: Path) -> None:
    command = ("drafter", "train", "--target", str(tiny_pair / "target"), "--out", str(tmp_path / "mine"))
    refused = outrider(*command, "--steps", "1")
    assert refused.code == 1 and "too few" in refused.err
    for question in ("list files", "unpack it"):
        assert outrider("ask", question, "--mode", "offline", "--max-tokens", "2").code == 0
    assert outrider(*command, "--steps", "1").code == 0
    lines = (tmp_path / "mine.work" / "answers.jsonl").read_text().splitlines()
    drafter = Drafter.load(tmp_path / "mine")
    assert len(lines) == 2
    assert "list files" in drafter.text.decode(json.loads(lines[0])["ids"])


def test_quantising_again_gives_the_same_graph(outrider: Outrider, tiny_pair: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(tiny_pair / "drafter", folder)
    assert (folder / FLOAT).exists()
    done = outrider("drafter", "quantise", str(folder))
    assert done.code == 0 and "top-1 agreement" in done.out, done.err
    once = sha256(folder / GRAPH)
    assert read_config(folder, verify=(GRAPH,)).files[GRAPH] == once
    assert outrider("drafter", "quantise", str(folder)).code == 0
    assert sha256(folder / GRAPH) == once

    assert outrider("drafter", "quantise", str(folder), "--scheme", "nbits8").code == 0
    blocks = sha256(folder / GRAPH)
    assert blocks != once and "nbits8" in outrider("drafter", "info", str(folder)).out
    assert outrider("drafter", "quantise", str(folder)).code == 0, "as it was before"
    assert sha256(folder / GRAPH) == blocks


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("train", "--target", "/nowhere", "--out", "x", "--prompts", "QUESTIONS"), 1, "There is no folder /nowhere"),
        (("train", "--target", "TARGET", "--out", "x", "--prompts", "/nowhere"), 2, "/nowhere cannot be read"),
        (
            ("train", "--target", "TARGET", "--out", "x", "--prompts", "QUESTIONS", "--inference-layers", "3"),
            1,
            "the target has 3 layers",
        ),
        (("info", "/nowhere"), 1, "No drafter in /nowhere"),
        (("quantise", "/nowhere"), 1, "No drafter in /nowhere"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    outrider: Outrider,
    questions: Path,
    tiny_pair: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    known = {"QUESTIONS": str(questions), "TARGET": str(tiny_pair / "target")}
    outcome = outrider("drafter", *(known.get(argument, argument) for argument in arguments))
    assert (outcome.code, outcome.out) == (code, "")
    assert sentence in outcome.err
