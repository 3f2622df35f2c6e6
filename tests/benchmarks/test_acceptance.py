"""Tau and its parts, in cases with known results: an oracle, a fool, and repeated text."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.acceptance import DRAFTED, PromptLookup, Tally, agreement_by_staleness, main, measure, rounds
from benchmarks.baseline_drafters import baseline_config, build, save_baseline
from benchmarks.baseline_drafters.shapes import moa_parameters
from drafter.calibration import Calibration
from models.memory import memory_bytes
from models.tree import ROOT, DraftTree
from remote.verifier.making.measure import DEEPEST

DEPTH = 4
MOST = 1 + 3 * (DEPTH + 1)


def answer(engine, prompt, propose, tally=None, stops=frozenset()) -> list[list[int]]:
    """The tokens of each round. All rounds except the opening one are counted in `tally`."""
    gained = []
    for _, tree, accepted, new in rounds(engine, prompt, propose, stops, MOST):
        if gained and tally:
            tally.judge(tree, accepted, new)
        gained.append(new)
    if tally:
        tally.gained.append([len(new) for new in gained[1:]])
    return gained


def plain(engine, prompt, **options) -> list[int]:
    return [token for new in answer(engine, prompt, lambda _: DraftTree.empty(), **options) for token in new]


def test_an_oracle_gains_its_depth_and_a_fool_the_bonus_only(engine, prompts):
    oracle, fool = Tally(), Tally()
    for prompt in prompts:
        text = plain(engine, prompt)
        assert len(text) == MOST

        def ahead(tokens, text=text, prompt=prompt):
            return text[len(tokens) - len(prompt) :][:DEPTH]

        told = answer(engine, prompt, lambda tokens, ahead=ahead: DraftTree.chain(ahead(tokens)), oracle)
        wrong = answer(
            engine, prompt, lambda tokens, ahead=ahead: DraftTree.chain([t ^ 1 for t in ahead(tokens)]), fool
        )
        assert [token for new in told for token in new] == [token for new in wrong for token in new] == text
    row = oracle.row("oracle")
    assert row["tau"] == DEPTH + 1 and row["ci95"] == [DEPTH + 1, DEPTH + 1]
    assert row["by_depth"] == [1.0] * DEPTH and row["rounds"] == 3 * len(prompts)
    row = fool.row("fool")
    assert row["tau"] == 1.0 and row["by_depth"] == [0.0]


def test_the_opening_round_may_carry_a_draft_too(engine, prompts):
    text = plain(engine, prompts[0])

    def propose(tokens):
        return DraftTree.chain(text[len(tokens) - len(prompts[0]) :][:DEPTH])

    gained = [each.new for each in rounds(engine, prompts[0], propose, frozenset(), MOST, opening=True)]
    assert [token for new in gained for token in new] == text
    assert len(gained[0]) == DEPTH + 1


def test_an_answer_ends_with_its_stop_token(engine, prompts):
    text = plain(engine, prompts[0])
    stop = text[6]
    stopped = plain(engine, prompts[0], stops=frozenset({stop}))
    assert stopped == text[: text.index(stop) + 1]


BUSH = DraftTree(np.array([5, 6, 7, 8, 9]), np.array([ROOT, ROOT, 0, 2, 3]))
"""5 -> 7 -> 8 -> 9, and 6."""


@pytest.mark.parametrize(
    ("accepted", "new", "offered"),
    [
        ((), [3], [1, 0, 0]),  # Refused at the root.
        ((1,), [6, 3], [1, 0, 0]),  # The tree ends after 6, however deep it is elsewhere.
        ((0,), [5, 3], [1, 1, 0]),
        ((0, 2), [5, 7, 3], [1, 1, 1]),
        ((0, 2), [5, 7], [1, 1, 0]),  # 7 was a stop token.
        ((0,), [5, 7], [1, 0, 0]),  # 7 would have been taken, had there been room.
    ],
)
def test_only_what_the_target_judged_counts_by_depth(accepted, new, offered):
    tally = Tally()
    tally.judge(BUSH, accepted, new)
    assert tally.offered[:3].tolist() == offered and not tally.offered[3:].any()
    assert tally.accepted.tolist() == [1] * len(accepted) + [0] * (DEEPEST - len(accepted))


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=12), min_size=1, max_size=30))
def test_the_interval_holds_tau(gained):
    row = Tally(gained).row("any")
    low, high = row["ci95"]
    flat = [tokens for prompt in gained for tokens in prompt]
    assert row["tau"] == round(sum(flat) / len(flat), 3) and row["rounds"] == len(flat)
    assert min(flat) <= low <= high <= max(flat)
    assert len(gained) > 1 or low == high == row["tau"]


def test_the_interval_narrows_with_more_prompts():
    random = np.random.default_rng(0)
    few, many = (Tally(random.integers(1, 9, (count, 10)).tolist()).row("any") for count in (10, 250))
    for row in (few, many):
        assert row["ci95"][0] < row["tau"] < row["ci95"][1]
    assert np.ptp(many["ci95"]) < np.ptp(few["ci95"]) / 2


@pytest.mark.parametrize(
    ("tokens", "proposed"),
    [
        ([1, 2, 3, 4, 5, 1, 2, 3], [4, 5, 1, 2, 3]),  # To the end of the text.
        ([7, 2, 3, 4, 8, 2, 3, 5, 9, 2, 3], [5, 9, 2, 3]),  # The newest of equal matches.
        ([1, 2, 3, 8, 4, 3, 9, 1, 2, 3], [8, 4, 3, 9, 1, 2, 3]),  # The longest n-gram, not the newest shorter one.
        ([4, 4, 4], [4]),
        ([6, 5, *range(10, 20), 5], [*range(10, 17)]),  # At most 7.
        ([1, 2, 3], []),
        ([1], []),
        ([], []),
    ],
)
def test_prompt_lookup_continues_what_was_there(tokens, proposed):
    tree = PromptLookup()(tokens)
    assert tree.tokens.tolist() == proposed
    assert tree.parents.tolist() == list(range(-1, len(proposed) - 1))


def test_drafters_are_measured_on_the_same_answers(engine, drafter, prompts):
    most = 24
    rows = {}
    for name in (*DRAFTED, "prompt-lookup"):
        tally = measure(engine, drafter, prompts, name, most)
        assert [sum(gained) for gained in tally.gained] == [most - 1] * len(prompts)
        assert (tally.accepted <= tally.offered).all() and (np.diff(tally.offered) <= 0).all()
        assert (tally.offered[1:] <= tally.accepted[:-1]).all()
        rows[name] = tally.row(name)
    assert rows["moa"]["tau"] >= rows["moa-chain-7"]["tau"] > 1.0


@pytest.mark.parametrize("tree_rule", ["deterministic", "sampled"])
def test_both_rules_are_measured_above_temperature_zero(engine, drafter, prompts, tree_rule):
    most, calibration = 24, Calibration()
    for name in DRAFTED:
        tally = measure(
            engine, drafter, prompts, name, most, temperature=0.7, tree_rule=tree_rule, calibration=calibration
        )
        assert [sum(gained) for gained in tally.gained] == [most - 1] * len(prompts)
        assert tally.row(name)["tau"] > 1.0 and 1.0 <= tally.row(name)["expected_tau"] <= 9.0
        assert len(tally.expected) == sum(map(len, tally.gained))
    assert calibration.dump() != Calibration().dump()


def test_staleness_is_counted_from_the_newest_memory(engine, drafter, prompts):
    # The first of 8 tokens comes with the memory of everything before it. The others are 1 to 7 tokens stale.
    assert set(agreement_by_staleness(engine, drafter, prompts, 8)) == {"1"}
    shares = agreement_by_staleness(engine, drafter, prompts, 9)
    assert set(shares) == {"1", "8"} and all(0 <= share <= 1 for share in shares.values())


def test_each_drafter_makes_a_row_and_a_missing_one_says_how_to_train_it(engine, drafter, tiny_pair, tmp_path, capsys):
    config = baseline_config(engine.model, "tiny", "eagle2", parameters=moa_parameters(drafter.config))
    save_baseline(build(config), tmp_path / "eagle2")
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "list all files"}\n')
    out = tmp_path / "out.json"
    options = [f"--target={tiny_pair / 'target'}", f"--moa={tiny_pair / 'drafter'}", f"--baselines={tmp_path}"]
    options += [f"--prompts={tmp_path / 'prompts.jsonl'}", "--max-tokens=9"]
    main([*options, f"--others={tiny_pair / 'drafter'}", f"--json={out}"])
    rows = {row["drafter"]: row for row in json.loads(out.read_text())["rows"]}
    assert list(rows) == ["moa", "moa-chain-7", "moa-staged", "eagle2", "prompt-lookup", "moa-f1-n0"]
    assert rows.pop("moa-f1-n0") == {**rows["moa"], "drafter": "moa-f1-n0"}  # Here it is the same drafter.
    assert all(row["tau"] >= 1 and row["ci95"] and row["prompts"] == 1 for row in rows.values())
    assert {name for name, row in rows.items() if row["by_staleness"]} == {"moa", "eagle2"}
    wire = {name: row["bytes_per_token"] for name, row in rows.items()}
    memory = memory_bytes(1, drafter.memory_layers, drafter.config.memory_bits)
    assert wire == {
        "moa": memory,
        "moa-chain-7": memory,
        "moa-staged": memory,
        "eagle2": 2 * config.hidden,
        "prompt-lookup": 0,
    }
    assert rows["eagle2"]["trained_parameters"] == pytest.approx(rows["moa"]["trained_parameters"], rel=0.2)
    said = capsys.readouterr().err
    for name in ("eagle3", "independent"):
        assert f"recipes.shell_guide.baselines --answers FILE --target {tiny_pair / 'target'} --which {name}" in said
    with pytest.raises(SystemExit) as stopped:
        main([*options, "--drafter", "independent", "moa"])
    assert stopped.value.code == 1 and "No baseline in" in capsys.readouterr().err
