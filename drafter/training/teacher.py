"""What a drafter learns from: the frozen target's keys, values and hidden states, computed for each batch or recorded.

The features of a conversation do not depend on what it is packed with. So they can be computed once for all training
data and kept in a file. This pays off if several drafters learn from the same answers: the target takes a third of a
step.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from drafter.model import weights_digest
from drafter.progress import stage
from drafter.training.answers import AnsweredConversation
from drafter.training.batches import Batch
from drafter.training.precision import autocast
from drafter.training.processes import processes
from drafter.training.target import Features, everything, features, hidden_states
from models.config import DrafterConfig

AT_ONCE = 16
"""Conversations in one forward while recording."""


class ForeignRecord(ValueError):
    """The recording belongs to another target or other answers. The message names the file."""


class Teacher:
    """The target itself, run again for each batch."""

    def __init__(self, target: PreTrainedModel) -> None:
        self._target = target

    def features(self, batch: Batch, config: DrafterConfig) -> Features:
        """The features of a batch, as from `target.features`."""
        mask = batch.causal[:, None]
        return features(self._target, batch.ids, batch.positions, mask, config)

    def hidden_states(self, batch: Batch, layers: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The hidden states of a batch, as from `target.hidden_states`."""
        return hidden_states(self._target, batch.ids, batch.positions, batch.causal[:, None], layers)


class Recording:
    """A target's features of all training data in a file: (tokens, width) bfloat16, conversation after conversation.

    The row of a token holds its keys and values of all layers, as in `Features.keys_values`, then its hidden states of
    `layers`. The file takes `width` times two bytes per token, which is a lot for a large target.
    """

    def __init__(
        self, path: Path, target: PreTrainedModel, data: Sequence[AnsweredConversation], layers: Sequence[int]
    ) -> None:
        """Open the recording in `path`, or make it. Raises `ForeignRecord`."""
        config = target.config.get_text_config(decoder=True)
        self._depth: int = config.num_hidden_layers
        self._layers, self._hidden = sorted({*layers, self._depth}), int(config.hidden_size)
        about = {
            "target": weights_digest(target.state_dict()).hex(),
            "tokens": sum(len(sample.ids) for sample in data),
            "answers": sum(sum(end - begin for begin, end in sample.learn) for sample in data),
            "layers": self._layers,
        }
        self._about = path.with_suffix(".json")
        with processes(target.device.type).main_process_first():  # Only this process may find no file there.
            if not self._about.exists():
                self._record(path, target, data, about)
        found = json.loads(self._about.read_text())
        if {name: found.get(name) for name in about} != about:
            raise ForeignRecord(f"{path} was recorded of another target, other answers or other layers. Delete it.")
        self._rows = np.memmap(path, np.int16, "r").reshape(found["tokens"], found["width"])

    def features(self, batch: Batch, config: DrafterConfig) -> Features:
        """The features of a batch, as from `Teacher.features`."""
        rows, last = self._read(batch)
        count = self._depth * self._keys_values_width
        keys_values = rows[..., :count].reshape(*rows.shape[:-1], self._depth, -1)
        start = self._state(rows, config.first_layers) if config.first_layers else None
        return Features(keys_values, self._state(rows, config.entry_layer), last, start)

    def hidden_states(self, batch: Batch, layers: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The hidden states of a batch, as from `Teacher.hidden_states`."""
        rows, last = self._read(batch)
        return torch.cat([self._state(rows, layer) for layer in layers] or [last[..., :0]], dim=-1), last

    @property
    def _keys_values_width(self) -> int:
        return (int(self._rows.shape[1]) - len(self._layers) * self._hidden) // self._depth

    def _read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        rows = torch.from_numpy(self._rows[batch.source.cpu().numpy()]).view(torch.bfloat16).to(batch.ids.device)
        rows = rows.float()  # As the target computes them: not every processor trains in bfloat16.
        return rows, self._state(rows, self._depth)

    def _state(self, rows: Tensor, layer: int) -> Tensor:
        if layer not in self._layers:
            raise ForeignRecord(f"hidden states of layer {layer} were not recorded, only of {self._layers}")
        at = rows.shape[-1] - (len(self._layers) - self._layers.index(layer)) * self._hidden
        return rows[..., at : at + self._hidden]

    @torch.no_grad()
    def _record(
        self, path: Path, target: PreTrainedModel, data: Sequence[AnsweredConversation], about: dict[str, Any]
    ) -> None:
        partial = path.with_suffix(".partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        offsets = np.cumsum([0, *(len(sample.ids) for sample in data)])
        # Conversations of similar length run together, to keep padding small.
        order = sorted(range(len(data)), key=lambda number: len(data[number].ids))
        written = None
        with stage("features", len(order)) as progress:
            for first in range(0, len(order), AT_ONCE):
                some = order[first : first + AT_ONCE]
                length = len(data[some[-1]].ids)
                ids = torch.tensor([data[number].ids + [0] * (length - len(data[number].ids)) for number in some])
                ids = ids.to(target.device)
                positions = torch.arange(length, device=target.device).expand(len(some), -1)
                mask = torch.ones(len(some), 1, length, length, dtype=torch.bool, device=target.device).tril()
                with autocast(target.device.type):
                    keys_values, states, _ = everything(target, ids, positions, mask, self._layers)
                rows = torch.cat((keys_values.flatten(2), states), dim=-1).to("cpu", torch.bfloat16).view(torch.int16)
                if written is None:
                    written = np.memmap(partial, np.int16, "w+", shape=(about["tokens"], rows.shape[-1]))
                for row, number in zip(rows.numpy(), some):
                    written[offsets[number] : offsets[number + 1]] = row[: len(data[number].ids)]
                progress.advance(len(some))
        assert written is not None
        written.flush()
        partial.replace(path)
        self._about.write_text(json.dumps({**about, "width": written.shape[1]}))
