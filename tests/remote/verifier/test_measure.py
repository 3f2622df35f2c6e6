"""Tau and its parts, in cases with known results: an oracle, and a fool."""

from __future__ import annotations

from models.tree import DraftTree
from remote.verifier.making.measure import Tally, rounds

DEPTH = 4
MOST = 1 + 3 * (DEPTH + 1)


def said(engine, prompt, propose, tally=None, **options) -> list[int]:
    """The tokens of an answer. All rounds except the opening one are counted in `tally`."""
    answer = list(rounds(engine, prompt, propose, options.pop("stops", frozenset()), MOST, **options))
    if tally is not None:
        tally.add(iter(answer))
    return [token for round in answer for token in round.new]


def test_an_oracle_gains_its_depth_and_a_fool_the_bonus_only(engine, prompts):
    oracle, fool = Tally(), Tally()
    for prompt in prompts:
        text = said(engine, prompt, lambda _: DraftTree.empty())

        def ahead(tokens, wrong=0, text=text, prompt=prompt):
            return DraftTree.chain([token ^ wrong for token in text[len(tokens) - len(prompt) :][:DEPTH]])

        assert said(engine, prompt, ahead, oracle) == text
        assert said(engine, prompt, lambda tokens: ahead(tokens, 1), fool) == text
        assert said(engine, prompt, ahead, opening=True) == text
        stopped = said(engine, prompt, ahead, stops=frozenset({text[6]}))
        assert len(text) == MOST and stopped == text[: text.index(text[6]) + 1]
    row = oracle.row("oracle")
    assert row["tau"] == DEPTH + 1 and row["ci95"] == [DEPTH + 1, DEPTH + 1]
    assert row["by_depth"] == [1.0] * DEPTH and row["rounds"] == 3 * len(prompts)
    row = fool.row("fool")
    assert row["tau"] == 1.0 and row["by_depth"] == [0.0]
