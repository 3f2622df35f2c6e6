"""A recording holds what the target would say, whatever it is packed with. A recording of something else is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from drafter.training.answers import AnsweredConversation
from drafter.training.batches import batches
from drafter.training.recipe import Recipe
from drafter.training.target import drafter_config
from drafter.training.teacher import ForeignRecord, Recording, Teacher
from tests.drafter.distilling import VOCABULARY, tiny_target

LAYERS = (1, 3)
RECIPE = Recipe(rows=2, row=48)


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(scope="module")
def data() -> list[AnsweredConversation]:
    rng = np.random.default_rng(3)
    lengths = rng.integers(9, 30, size=40)
    return [AnsweredConversation(rng.integers(VOCABULARY, size=n).tolist(), [(4, int(n))]) for n in lengths]


@pytest.fixture
def recording(target, data, tmp_path) -> Recording:
    return Recording(tmp_path / "features", target, data, LAYERS)


def close(recorded: torch.Tensor, computed: torch.Tensor, batch) -> None:
    """Equal within bfloat16, in which they are recorded, except for padding."""
    used = batch.segments > 0
    assert recorded.dtype == computed.dtype == torch.float32 and recorded.shape == computed.shape
    assert (recorded[used] - computed[used]).norm() <= 0.05 * computed[used].norm()


def test_what_is_recorded_is_what_the_packed_batch_gives(target, data, recording):
    teacher, batch = Teacher(target), next(batches(data, RECIPE, 5))
    assert (batch.segments.max(dim=1).values > 1).all()
    for inference_layers, first_layers in ((0, 0), (1, 0), (1, 1), (0, 3), (3, 0)):
        config = drafter_config(target, "tiny", inference_layers=inference_layers, first_layers=first_layers)
        recorded, computed = (each.features(batch, config) for each in (recording, teacher))
        for part in ("keys_values", "entry", "last", *(["start"] if first_layers else [])):
            close(getattr(recorded, part), getattr(computed, part), batch)
        assert first_layers or recorded.start is computed.start is None
    for layers in ((), (4,), (1, 3, 4), (3, 1)):
        recorded, computed = (each.hidden_states(batch, layers) for each in (recording, teacher))
        for one, other in zip(recorded, computed, strict=True):
            close(one, other, batch)


def test_a_recording_of_something_else_is_refused(target, data, recording, tmp_path):
    for other in ({"target": tiny_target(9)}, {"data": data[1:]}, {"layers": (1, 2)}):
        with pytest.raises(ForeignRecord, match="Delete it"):
            Recording(tmp_path / "features", **{"target": target, "data": data, "layers": LAYERS, **other})
