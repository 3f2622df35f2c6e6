"""Sampling at its bounds: a drawn token is always one of the vocabulary, whatever the settings and the logits."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drafter.multicandidate import DraftSampling
from models.engines.engine import BrokenTarget
from models.engines.torch_engine import TorchEngine
from models.tree import DraftTree
from remote.protocol import ProtocolError, Sampling, decode, encode
from remote.verifier.acceptance import chooser, target_distribution
from tests.remote.verifier.test_sessions import PROMPT
from tests.remote.verifier.tiny import VOCABULARY, tiny_model

TINY = [5e-324, 1e-320, 1e-40, 1e-38, 1e-30, 1e-9]
extremes = st.sampled_from([math.inf, -math.inf, 0.0, -0.0, 3e38, -3e38, 1e-45, 20.0, 20.000002, -7.5])
logits = st.lists(extremes | st.floats(-100, 100, width=32), min_size=1, max_size=40).filter(
    lambda row: any(value > -math.inf for value in row)
)


@given(
    row=logits,
    temperature=st.sampled_from([*TINY, 0.0, 0.3, 1.0, 2.0, 100.0]),
    top_k=st.sampled_from([0, 1, 3, 41, (1 << 31) - 1]),
    top_p=st.sampled_from([5e-324, 1e-30, 1e-9, 0.5, 1 - 2**-53, 1.0]),
    seed=st.integers(-(1 << 63), (1 << 63) - 1),
)
def test_a_drawn_token_is_one_that_the_target_allows(
    row: list[float], temperature: float, top_k: int, top_p: float, seed: int
) -> None:
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    token = chooser(np.array([row], np.float32), sampling)(0, 5)
    assert 0 <= token < len(row)
    assert row[token] > -math.inf
    if math.inf in row:
        assert row[token] == math.inf
    if temperature:
        shares = target_distribution(np.array(row, np.float32), sampling)
        assert abs(float(shares.sum()) - 1) < 1e-9 and shares[token] > 0


@pytest.mark.parametrize("temperature", TINY)
def test_a_tiny_temperature_is_its_limit(temperature: float) -> None:
    row = np.random.default_rng(0).normal(size=(1, 500)).astype(np.float32)
    for seed in range(20):
        assert chooser(row, Sampling(temperature=temperature, seed=seed))(0, 3) == int(row.argmax())
    drafted = DraftSampling(temperature).weights(np.log(np.array([[0.5, 0.3, 0.2]])))
    assert drafted[0, 0] > 0 and (drafted[0, 1:] == 0).all()


def test_a_target_that_allows_no_token_at_all_is_told() -> None:
    model = tiny_model()
    engine = TorchEngine(model)
    hook = model.lm_head.register_forward_hook(lambda module, given, out: torch.full_like(out, -math.inf))
    context = engine.context()
    context.assign(0, PROMPT)
    with pytest.raises(BrokenTarget):
        engine.verify(context, DraftTree.empty())
    hook.remove()


def test_a_head_that_is_wider_than_the_vocabulary_gives_no_token_outside_it() -> None:
    model = tiny_model()
    engine = TorchEngine(model)

    def widened(module: object, given: object, out: torch.Tensor) -> torch.Tensor:
        return torch.cat([out, torch.full_like(out[..., :3], 1e9)], -1)

    hook = model.lm_head.register_forward_hook(widened)
    context = engine.context()
    context.assign(0, PROMPT)
    assert engine.verify(context, DraftTree.empty()).shape == (1, VOCABULARY)
    hook.remove()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("temperature", value) for value in (math.nan, math.inf, -math.inf, -1e-9, -1.0, 100.1)),
        *(("top_p", value) for value in (math.nan, math.inf, -math.inf, -0.5, 0.0, 1.1)),
        ("top_k", -1),
        ("top_k", 1 << 31),
        ("seed", 1 << 63),
    ],
)
def test_the_wire_refuses_what_is_out_of_bounds(name: str, value: float) -> None:
    with pytest.raises(ProtocolError):
        decode(msgspec.msgpack.encode({name: value}), Sampling)
    assert decode(encode(Sampling(temperature=100.0)), Sampling).temperature == 100
