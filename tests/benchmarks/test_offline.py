"""Agreement and answers without the target: what is judged, what the drafter knows by then, and what is counted."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest

from app.drafting.prompt import shared_prefix
from benchmarks.acceptance import agreement_by_staleness
from benchmarks.baseline_drafters import Baseline, baseline_config, build, save_baseline
from benchmarks.everyday import read_questions
from benchmarks.offline import (
    DROPS,
    FARTHEST,
    STALENESS,
    Agreement,
    after,
    begin,
    converse,
    everyday,
    gather,
    judged,
    main,
    write,
)
from drafter.training.answers import AnsweredConversation
from models.engines.engine import Engine

QUESTIONS = ["list all files", "unpack a tar archive", "show disk usage"]


@pytest.fixture(scope="module")
def baseline(engine):
    def untrained(method) -> Baseline:
        model = build(baseline_config(engine.model, "tiny", method))
        model.borrow(engine.model)
        return model.eval().requires_grad_(False)

    return untrained


def test_questions_are_spread_and_those_of_a_conversation_far_apart():
    groups = gather([str(number) for number in range(100)], 5, 4)
    assert [len(group) for group in groups] == [4] * 5
    asked = sorted(int(question) for group in groups for question in group)
    assert len(set(asked)) == 20 and asked[0] == 0 and asked[-1] == 99 and max(np.diff(asked)) <= 6
    for group in groups:
        assert all(int(after) - int(before) >= 20 for before, after in itertools.pairwise(group))
    assert [len(group) for group in gather(["a", "b", "c"], 2, 9)] == [1, 1]
    assert [len(group) for group in gather(["a", "b", "c"], 9, 9)] == [1, 1, 1]


def test_the_target_answers_each_turn_and_its_answers_stay(engine, drafter):
    most = 12
    said = converse(engine, drafter, QUESTIONS, most)
    assert [end - first for first, end in said.learn] == [most] * 3 and said.learn[-1][1] == len(said.ids)
    assert said.ids[: said.learn[0][0]] == drafter.text.render([("user", QUESTIONS[0])])
    for (_, end), (first, _), question in zip(said.learn, said.learn[1:], QUESTIONS[1:]):
        assert question in drafter.text.decode(said.ids[end:first])
    for first, end in said.learn:  # The target's own choice after each token, in one pass over all of them.
        assert target_choices(engine, said.ids)[first - 1 : end - 1] == said.ids[first:end]


def target_choices(engine: Engine, ids: list[int]) -> list[int]:
    import torch

    with torch.no_grad():
        return engine.model(input_ids=torch.tensor([ids])).logits[0].argmax(-1).tolist()


def test_a_conversation_ends_where_nothing_more_would_be_judged(engine, drafter):
    said = converse(engine, drafter, QUESTIONS * 40, 60)
    begins = [begin - said.learn[0][0] for begin, _ in said.learn]
    assert begins[-1] <= FARTHEST < begins[-1] + 60 + 40
    last = max(stale for stale, _ in after(engine, drafter, said, said.learn[0][0]))
    assert last == min(FARTHEST, len(said.ids) - 1 - said.learn[0][0])


def test_only_answers_are_judged_and_all_tokens_are_stale(engine, drafter, baseline):
    said = converse(engine, drafter, QUESTIONS, 12)
    start = said.learn[0][0]
    answers = [place for begin, end in said.learn for place in range(begin, end)]
    for one in (drafter, baseline("eagle2"), baseline("independent")):
        tokens = list(after(engine, one, said, start))
        assert [stale for stale, _ in tokens] == [place - start for place in answers[1:]]


def test_the_first_answer_is_judged_with_the_line_dropping_along_it(engine, drafter):
    said = converse(engine, drafter, QUESTIONS, 12)
    start, end = said.learn[0]
    tokens = list(judged(engine, drafter, said))
    whole = list(after(engine, drafter, said, start))
    assert tokens[: len(whole)] == whole
    drops = range(start + DROPS, end - 1, DROPS)
    assert [stale for stale, _ in tokens[len(whole) :]] == [stale for at in drops for stale in range(1, end - at)]


def test_in_one_answer_it_is_the_agreement_of_the_other_benchmark(engine, drafter, prompts):
    most = 24
    tokens = []
    for question in ("list all files", "unpack a tar archive"):  # As `prompts`.
        said = converse(engine, drafter, [question], most)
        tokens += after(engine, drafter, said, said.learn[0][0])
    edges = agreement_by_staleness(engine, drafter, prompts, most)
    assert set(edges) == {"1", "8", "16"}
    for low, high in ((1, 8), (8, 16), (16, 32)):
        agrees = [agrees for stale, agrees in tokens if low <= stale < high]
        assert edges[str(low)] == round(float(np.mean(agrees)), 3)


def test_a_drafter_that_knows_the_answer_agrees_and_one_of_another_does_not(engine, baseline):
    """The independent model's first choice is known beforehand, and so is its agreement."""
    model = baseline("independent")
    ids = [7, 8, 9]
    draft = begin(engine, model, ids, 0)
    own = write(draft, frozenset(), 20)
    right = AnsweredConversation(ids + own, [(3, 23)])
    wrong = AnsweredConversation(ids + own[:1] + [token ^ 1 for token in own[1:]], [(3, 23)])
    assert [agrees for _, agrees in after(engine, model, right, 3)] == [True] * 19
    assert not next(agrees for _, agrees in after(engine, model, wrong, 3))


def test_windows_hold_what_belongs_to_them():
    agreement = Agreement()
    agreement.add((stale, stale <= 16) for stale in range(1, 321))
    agreement.add((stale, True) for stale in range(1, 13))
    rows = {row["staleness"]: row for row in agreement.rows()}
    assert tuple(rows) == STALENESS
    assert [(row["from"], row["to"]) for row in rows.values()][-4:] == [(24, 40), (48, 80), (96, 160), (192, 320)]
    assert rows[256]["tokens"] == 129 and rows[256]["conversations"] == 1 and rows[256]["share"] == 0.0
    assert rows[16]["tokens"] == 9 + 1 and rows[16]["share"] == 0.6 and rows[16]["conversations"] == 2
    assert rows[16]["ci95"] == [round(5 / 9, 3), 1.0]
    assert rows[1]["tokens"] == 2 and rows[1]["share"] == 1.0
    agreement = Agreement()
    agreement.add([(1, True)])
    assert [row["staleness"] for row in agreement.rows()] == [1]


@pytest.mark.parametrize("known", [0, 3])
def test_a_drafter_begins_with_what_it_was_told_of(engine, drafter, baseline, known):
    ids = drafter.text.render([("user", "list all files")])
    assert begin(engine, drafter, ids, known).memory_length == known
    assert begin(engine, baseline("eagle2"), ids, known).remembered == known
    assert begin(engine, baseline("independent"), ids, known).remembered == 0


def test_an_answer_ends_with_its_stop_token_or_where_it_is_full(engine, drafter, baseline):
    ids = drafter.text.render([("user", "list all files")])
    for one in (drafter, baseline("eagle2")):
        full = write(begin(engine, one, ids, 3), frozenset(), 9)
        assert len(full) == 9
        stop = full[4]
        assert write(begin(engine, one, ids, 3), frozenset({stop}), 9) == full[: full.index(stop) + 1]


def test_everyday_answers_are_of_a_drafter_that_knows_the_opening_only(engine, drafter, tmp_path):
    known, most = shared_prefix(drafter.text), 6
    assert known > 0
    prompt = "list all files"
    draft = begin(engine, drafter, drafter.text.render([("user", prompt)]), known)
    said = drafter.text.decode(write(draft, frozenset(), most)).strip()
    path = tmp_path / "questions.jsonl"
    lines = [
        {"id": "same", "prompt": prompt, "accept": [re.escape(said)]},
        {"id": "never", "prompt": prompt, "accept": ["^no such command$"]},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    row = everyday(engine, drafter, drafter, read_questions(path), most)
    assert (row["right"], row["questions"], row["share"], row["ci95"]) == (1, 2, 0.5, [0.0, 1.0])


def test_each_drafter_makes_a_row_and_a_named_one_must_be_there(engine, tiny_pair, tmp_path, capsys):
    for method in ("eagle2", "independent"):
        save_baseline(build(baseline_config(engine.model, "tiny", method)), tmp_path / method)
    (tmp_path / "prompts.jsonl").write_text('{"turns": ["list all files", "unpack a tar archive"]}\n')
    (tmp_path / "questions.jsonl").write_text('{"id": "one", "prompt": "list", "accept": ["^ls$"]}\n')
    out = tmp_path / "out.json"
    options = [f"--target={tiny_pair / 'target'}", f"--moa={tiny_pair / 'drafter'}", f"--baselines={tmp_path}"]
    options += [f"--prompts={tmp_path / 'prompts.jsonl'}", f"--questions={tmp_path / 'questions.jsonl'}"]
    main([*options, "--limit=1", "--max-tokens=6", f"--json={out}"])
    written = json.loads(out.read_text())
    assert [row["drafter"] for row in written["rows"]] == ["moa", "eagle2", "independent"]
    assert written["machine"]["cores"] >= 1 and written["machine"]["torch"]
    for row in written["rows"]:
        assert row["everyday"]["questions"] == 1
        assert {1, 4, 16} <= {window["staleness"] for window in row["agreement"]}
    assert "eagle3" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main([*options, "--drafter", "eagle3"])
    assert stopped.value.code == 1
