"""`outrider drafter`: from a target and questions to a working drafter, and its errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from drafter.runtime import Drafter
from drafter.search import Pace
from models.config import DATASTORE, ENCODER, GRAPH, read_config, sha256
from tests.support.commands import Outrider

pytestmark = pytest.mark.training


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    asked = [{"prompt": "list files"}, {"turns": ["unpack it", "and delete it?"]}, {"prompt": "show disk usage"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in asked))
    return path


def test_a_trained_drafter_drafts_for_its_target(outrider: Outrider, questions: Path, tiny_pair: Path) -> None:
    out = questions.parent / "mine"
    target = str(tiny_pair / "target")
    command = ("drafter", "train", "--target", target, "--prompts", str(questions), "--out", str(out))
    trained = outrider(*command, "--steps", "2")
    assert trained.code == 0, trained.err
    assert trained.out.splitlines()[-1] == str(out)
    config = read_config(out)
    read_config(out, verify=tuple(config.files))
    assert (config.target, config.inference_layers) == ("target", 1)
    card = (out / "README.md").read_text()
    assert "distilled from target on 4 of its own answers" in card and "top-1 agreement" in card
    assert "local 0.0" in card, "what was used, not what was left open"
    assert "It was not evaluated" in card and "at least 80 of them" in trained.err
    drafter = Drafter.load(out)
    context = drafter.context()
    context.commit(drafter.text.render([("user", "list files")]))
    assert len(context.draft(Pace())) == 60
    answers = [json.loads(line) for line in (out.with_name("mine.work") / "answers.jsonl").read_text().splitlines()]
    (begin, end), texts = answers[0]["learn"][0], drafter.datastore().tokens.tolist()
    said = answers[0]["ids"][begin:end]
    assert any(texts[at : at + len(said)] == said for at in range(len(texts)))

    shown = outrider("drafter", "info", str(out))
    assert shown.code == 0 and "target, 3 layers of 32" in shown.out and "checksums match" in shown.out

    # A second run continues from what is there: no step is left.
    before = {path.name: sha256(path) for path in out.iterdir()}
    assert outrider(*command, "--steps", "2").code == 0
    assert {path.name: sha256(path) for path in out.iterdir()} == before

    other = (*command[:-1], str(out.with_name("other")), "--steps", "1", "--inference-layers", "0")
    assert outrider(*other, "--init", str(out)).says(1, "has 1 for inference layers: what begins with it cannot have 0")
    mixed = (*command[:-1], str(out.with_name("mixed")), "--steps", "1", "--layer-self-attention")
    assert outrider(*mixed, "--init", str(out)).says(1, "has False for layer self attention: what begins with it")
    assert outrider(*other, "--first-layers", "1", "--layer-self-attention", "--datastore", "0").code == 0
    made = read_config(out.with_name("other"))
    assert (made.inference_layers, made.first_layers) == (0, 1)
    assert made.layer_self_attention and not config.layer_self_attention
    assert "F = 1, N = 0" in outrider("drafter", "info", str(out.with_name("other"))).out
    assert not (out.with_name("other") / DATASTORE).exists()

    longer = out.with_name("longer")
    assert outrider(*command[:-1], str(longer), "--steps", "1", "--init", str(out)).code == 0
    assert (config.steps, read_config(longer).steps) == (2, 3)
    (longer / ENCODER).write_bytes(b"")
    refused = outrider(*command[:-1], str(out.with_name("third")), "--init", str(longer))
    assert refused.says(1, f"{ENCODER} does not match its checksum")
    assert not (out.with_name("third.work") / "answers.jsonl").exists(), "nothing was computed"


def test_it_is_measured_on_questions_it_did_not_learn_from(outrider: Outrider, tiny_pair: Path, tmp_path: Path) -> None:
    prompts, out, target = tmp_path / "many.jsonl", tmp_path / "mine", str(tiny_pair / "target")
    asked = [f"list {number} files" for number in range(90)]
    prompts.write_text("".join(json.dumps({"prompt": question}) + "\n" for question in asked))
    made = ("drafter", "train", "--target", target, "--prompts", str(prompts), "--out", str(out), "--max-tokens", "12")
    trained = outrider(*made, "--steps", "1", "--device", "cpu")
    assert trained.code == 0, trained.err
    held = [json.loads(line)["prompt"] for line in (tmp_path / "mine.work/held_out.jsonl").read_text().splitlines()]
    answers = [json.loads(line)["ids"] for line in (tmp_path / "mine.work/answers.jsonl").read_text().splitlines()]
    drafter = Drafter.load(out)
    learnt = [drafter.text.decode(ids) for ids in answers]
    assert len(held) == 9 and len(learnt) == 81
    assert not [question for question in held if any(question in text for text in learnt)]

    # The command of the card, run beside the drafter and its work folder, gives the figure of the card.
    card = (out / "README.md").read_text()
    command = next(line.split() for line in card.splitlines() if line.strip().startswith("outrider drafter eval"))
    held_out = "mine.work/held_out.jsonl"
    places = {"target": target, "mine": str(out), held_out: str(tmp_path / held_out)}
    figures = tmp_path / "figures.json"
    shown = outrider(*(places.get(word, word) for word in command[1:]), "--json", str(figures))
    assert shown.code == 0, shown.err
    row = json.loads(figures.read_text())["rows"][0]
    low, high = row["ci95"]
    told = f"{row['tau']:.2f} (95 %: {low:.2f} to {high:.2f})"
    assert f"| {told} |" in card and f"tau: {told}" in trained.err
    assert "9 questions" in card and "so int8 costs" in card and "accepted at depth" in card
    assert row["prompts"] == 9 and row["max_tokens"] == 12 and 1 <= low <= row["tau"] <= high
    assert f"{row['tau']:.2f} tokens a round" in shown.out and "tokens since memory" in shown.out
    assert set(row["by_staleness"]) == {"1", "8"}


def test_a_drafter_of_others_is_refused(outrider: Outrider, questions: Path, tiny_pair: Path, other_pair: Path) -> None:
    command = ("drafter", "eval", "--prompts", str(questions), "--max-tokens", "4", "--temperature", "0.8")
    own = outrider(*command, "--target", str(tiny_pair / "target"), "--drafter", str(tiny_pair / "drafter"))
    assert own.code == 0 and "temperature 0.8" in own.out and "tokens since memory" not in own.out, own.err
    refused = outrider(*command, "--target", str(other_pair / "target"), "--drafter", str(tiny_pair / "drafter"))
    assert refused.says(1, "made for other weights") and refused.out == ""


def test_without_a_file_the_stored_questions_are_asked(outrider: Outrider, tmp_path: Path, tiny_pair: Path) -> None:
    command = ("drafter", "train", "--target", str(tiny_pair / "target"), "--out", str(tmp_path / "mine"))
    assert outrider(*command, "--steps", "1").says(1, "too few")
    for question in ("list files", "unpack it"):
        assert outrider("ask", question, "--mode", "offline", "--max-tokens", "2").code == 0
    assert outrider(*command, "--steps", "1", "--max-tokens", "12").code == 0
    lines = (tmp_path / "mine.work" / "answers.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert "list files" in Drafter.load(tmp_path / "mine").text.decode(json.loads(lines[0])["ids"])


def test_quantising_again_gives_the_same_graph(outrider: Outrider, tiny_pair: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(tiny_pair / "drafter", folder)
    done = outrider("drafter", "quantise", str(folder))
    assert done.code == 0 and "top-1 agreement" in done.out, done.err
    once = sha256(folder / GRAPH)
    assert read_config(folder, verify=(GRAPH,)).files[GRAPH] == once
    assert outrider("drafter", "quantise", str(folder)).code == 0
    assert sha256(folder / GRAPH) == once
    assert outrider("drafter", "quantise", str(folder), "--scheme", "nbits8").code == 0
    assert sha256(folder / GRAPH) != once and "nbits8" in outrider("drafter", "info", str(folder)).out


def test_what_cannot_be_done_is_said_in_a_sentence(
    outrider: Outrider, questions: Path, tiny_pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(questions.parent)
    known = {"QUESTIONS": str(questions), "TARGET": str(tiny_pair / "target")}
    for command, code, sentence in (
        ("train --target /nowhere --out x --prompts QUESTIONS", 1, "There is no folder /nowhere"),
        ("train --target TARGET --out x --prompts /nowhere", 2, "/nowhere cannot be read"),
        ("train --target TARGET --out x --prompts QUESTIONS --inference-layers 3", 1, "the model has 3 layers"),
        ("train --target TARGET --out x --prompts QUESTIONS --device mps", 1, "PyTorch finds no mps device here"),
        ("eval --target TARGET", 1, "No questions are stored yet"),
        ("eval --target TARGET --drafter /nowhere --prompts QUESTIONS", 1, "No drafter in"),
        ("eval --target TARGET --prompts QUESTIONS --json /no/where", 1, "there is no folder /no"),
        ("info /nowhere", 1, "No drafter in /nowhere"),
    ):
        outcome = outrider("drafter", *(known.get(word, word) for word in command.split()))
        assert outcome.says(code, sentence) and outcome.out == ""
