from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.memory import (
    LARGEST,
    MalformedMemory,
    dequantise,
    memory_bytes,
    pack_memory,
    quantise,
    quantise_row,
    unpack_memory,
)

formats = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), max_size=3)
bits_of_a_number = st.sampled_from([4, 8])


def random_rows(seed, count, layers, bits=8):
    random = np.random.default_rng(seed)
    return [quantise_row(*random.normal(size=(2, count, heads, size)), bits) for heads, size in layers]


@given(st.integers(0, 2**32 - 1), st.floats(-7, 4), bits_of_a_number)
def test_each_number_is_within_half_a_scale(seed, spread, bits):
    numbers = np.random.default_rng(seed).normal(scale=10**spread, size=(3, 2, 16)).astype(np.float32)
    stored, scales = quantise(numbers, bits)
    error = np.abs(dequantise(stored, scales) - numbers)
    assert (error <= 0.5001 * scales[..., None].astype(np.float32)).all()
    assert (scales <= np.abs(numbers).max(-1) / LARGEST[bits] * 1.001 + 2.0**-24).all()


def test_zeros_stay_zeros_and_huge_numbers_stay_finite():
    assert not dequantise(*quantise(np.zeros((2, 1, 4)))).any()
    assert np.isfinite(dequantise(*quantise(np.full((1, 1, 4), 3e38)))).all()
    assert dequantise(*quantise(np.zeros((0, 2, 4)))).shape == (0, 2, 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_broken_activations_are_refused(bad):
    with pytest.raises(MalformedMemory, match="infinities or NaN"):
        quantise(np.array([[[1.0, bad]]]))


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(0, 6), formats, bits_of_a_number)
def test_packing_round_trips(seed, count, layers, bits):
    rows = random_rows(seed, count, layers, bits)
    data = pack_memory(rows, bits)
    assert len(data) == memory_bytes(count, layers, bits)
    for row, back in zip(rows, unpack_memory(data, count, layers), strict=True):
        for one, other in zip(row, back, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


@settings(max_examples=50)
@given(st.binary(max_size=64), st.integers(-1, 3), formats)
def test_any_bytes_give_sound_rows_or_the_typed_error(data, count, layers):
    try:
        rows = unpack_memory(data, count, layers)
    except MalformedMemory:
        return
    assert all(np.isfinite(dequantise(row.keys, row.key_scales)).all() for row in rows)


@pytest.mark.parametrize("scale", [np.nan, -1.0])
def test_a_poisoned_scale_is_refused(scale):
    data = bytearray(pack_memory(random_rows(0, 2, [(1, 4)])))
    data[8:10] = np.float16(scale).tobytes()
    with pytest.raises(MalformedMemory, match="scale"):
        unpack_memory(bytes(data), 2, [(1, 4)])
