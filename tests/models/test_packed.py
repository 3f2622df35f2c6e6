"""Packed weights are exact 8-bit numbers, close to what was packed, and a damaged file is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from models.packed import BLOCK, Packed, array_of, flat, floats, pack, quantised, read_packed
from models.tensors import DamagedWeights

RNG = np.random.default_rng(1)


def matrix(outputs: int, inputs: int) -> np.ndarray:
    """Rows and blocks of very different sizes; one row is zero."""
    spread = np.exp(RNG.normal(size=(outputs, inputs // BLOCK))).repeat(BLOCK, axis=1) * np.exp(
        RNG.normal(size=(outputs, 1))
    )
    numbers = (RNG.normal(size=(outputs, inputs)) * spread).astype(np.float32)
    numbers[3] = 0
    return numbers


def defined(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 8-bit numbers and the scales, by the definition, one row after another."""
    numbers, scales = np.empty(weights.shape, int), np.ones(len(weights), np.float32)
    for at, row in enumerate(weights.reshape(len(weights), -1, BLOCK)):
        sizes = np.abs(row).max(axis=1) / np.float32(7)
        scales[at] = sizes.max() / np.float32(15) or 1
        factors = np.clip(np.rint(sizes / scales[at]), 1, 15).astype(np.float32)
        quanta = np.clip(np.rint(row / (scales[at] * factors)[:, None]), -8, 7)
        numbers[at] = (quanta * factors[:, None]).ravel()
    return numbers, scales


@pytest.mark.parametrize("shape", [(5, 32), (7, 96), (64, 64)])
def test_what_is_unpacked_is_what_the_definition_says(shape: tuple[int, int]) -> None:
    weights = matrix(*shape)
    numbers, scales = pack(weights).int8()
    wanted, sizes = defined(weights)
    assert numbers.dtype == np.int8 and (numbers == wanted).all() and (scales == sizes).all()
    assert (floats(pack(weights)) == (wanted * sizes[:, None]).astype(np.float32)).all() and numbers.min() < -15
    blocks = np.abs(floats(pack(weights)) - weights) / np.abs(weights).max(initial=1e-9, axis=1)[:, None]
    assert blocks.max() < 0.1


def test_a_file_gives_back_what_was_packed_and_several_matrices_side_by_side(tmp_path: Path) -> None:
    weights = {"table": matrix(9, 64), "a": matrix(5, 64), "b": matrix(6, 64), "odd": matrix(4, 32)[:, :20]}
    packed = quantised({**weights, "norm": RNG.normal(size=64).astype(np.float32)}, ("table",))
    (tmp_path / "file").write_bytes(save(flat(packed)))
    found = read_packed(tmp_path / "file")
    assert found.keys() == packed.keys() and isinstance(found["a"], Packed) and not isinstance(found["odd"], Packed)
    for name, weight in packed.items():
        assert (floats(found[name]) == floats(weight)).all()
    both, scales = array_of(found, "a+b.signed"), array_of(found, "a+b.scales")
    assert (both * scales == np.concatenate((floats(found["a"]), floats(found["b"]))).T).all()
    rows = array_of(found, "table.rows") * array_of(found, "table.row_scales")
    assert (rows == floats(found["table"])).all()


@pytest.mark.parametrize("damage", ["cut", "lacking", "another shape"])
def test_a_damaged_file_is_told(damage: str, tmp_path: Path) -> None:
    tensors = flat({"a": pack(matrix(6, 64))})
    if damage == "lacking":
        del tensors["a.factors"]
    elif damage == "another shape":
        tensors["a.scales"] = tensors["a.scales"][:-1]
    data = save(tensors)
    (tmp_path / "file").write_bytes(data[:-50] if damage == "cut" else data)
    with pytest.raises(DamagedWeights, match="file is damaged"):
        read_packed(tmp_path / "file")
