"""What the target might have said, as it is kept: whole, in order, and in few bytes."""

from __future__ import annotations

import numpy as np
import pytest

from drafter.learning.distributions import MOST, NONE, NOTHING, TEXT, Distributions, MalformedDistributions


def drawn(places: list[tuple[int, int]], seed: int = 0) -> Distributions:
    """Some at these (position, rejected token), with one more token each than the one before."""
    random = np.random.default_rng(seed)
    tokens = np.full((len(places), MOST), NONE, np.int64)
    log_probs = np.full((len(places), MOST), -np.inf, np.float32)
    for row in range(len(places)):
        count = row % MOST + 1
        tokens[row, :count] = random.choice(100_000, size=count, replace=False)
        chances = np.sort(random.dirichlet(np.ones(count + 1))[:count])[::-1]
        log_probs[row, :count] = np.log(chances).astype(np.float16)
    positions, instead = np.array(places, np.int64).reshape(-1, 2).T
    return Distributions(positions, instead, tokens, log_probs)


def same(one: Distributions, other: Distributions) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in Distributions.__dataclass_fields__)


@pytest.mark.parametrize("count", [0, 20])
def test_they_survive_their_bytes(count: int) -> None:
    whole = drawn([(7 + at, TEXT if at % 3 else 5 + at) for at in range(count)])
    data = whole.pack()
    assert same(Distributions.unpack(data), whole)
    assert len(data) == 8 + 9 * count + 6 * int((whole.tokens != NONE).sum())


def test_damaged_bytes_are_refused() -> None:
    data = drawn([(at, TEXT) for at in range(9)]).pack()
    for wrong in (b"", data[:5], data[:-1], data + b"\0", data[:4] + b"\xff\xff\xff\xff" + data[8:]):
        with pytest.raises(MalformedDistributions):
            Distributions.unpack(wrong)
    at = 8 + 8 * 9
    with pytest.raises(MalformedDistributions, match="from 1 to 8|are announced"):
        Distributions.unpack(data[:at] + bytes([MOST + 1]) + data[at + 1 :])


def test_parts_come_together_in_order_and_those_of_an_answer_are_after_its_prompt() -> None:
    first, second = drawn([(4, TEXT), (5, TEXT), (5, 30)], 1), drawn([(5, TEXT), (6, TEXT), (5, 20)], 2)
    whole = Distributions.of([first, second])
    assert list(zip(whole.positions.tolist(), whole.instead.tolist())) == [(4, -1), (5, -1), (5, 20), (5, 30), (6, -1)]
    assert np.array_equal(whole.tokens[1], first.tokens[1]), "what was known first stays"
    assert same(whole.text, Distributions.of([first.take(np.array([0, 1])), second.take(np.array([1]))]))
    assert len(whole.branches) == 2 and same(Distributions.of([]), NOTHING)
    whole = drawn([(9, TEXT), (10, TEXT), (10, 3), (11, 3), (14, TEXT), (15, TEXT), (15, 3), (16, 3)])
    kept = whole.within(10, 15)
    assert list(zip(kept.positions.tolist(), kept.instead.tolist())) == [(10, -1), (11, 3), (14, -1), (15, 3)]
