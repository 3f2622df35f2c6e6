"""The target's hidden states, taken from the forwards of a verifier's rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from drafter.training.target import side_by_side


class FeatureTap:
    """While open, keeps hidden states of a verifying target's forwards, which EAGLE's drafters get after each round.

    `layers` as in `drafter.training.target.hidden_states`. Each forward has one sequence: pending tokens, then the
    nodes of a draft tree.
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[int]) -> None:
        self._body, self._layers = model.model, list(layers)
        self._seen: list[Tensor] = []
        self._hooks: list[Any] = []

    def __enter__(self) -> FeatureTap:
        self._hooks = [
            self._body.register_forward_pre_hook(self._ask, with_kwargs=True),
            self._body.register_forward_hook(self._keep),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def take(self, nodes: int, accepted: Sequence[int]) -> Tensor:
        """The hidden states of the tokens that were verified since the last call: (n, len(layers)*E).

        These are all pending tokens, and the `accepted` ones of the last forward's `nodes` tree nodes.
        """
        rows = torch.cat(self._seen)
        self._seen.clear()
        pending = len(rows) - nodes
        return rows[[*range(pending), *(pending + node for node in accepted)]]

    def _ask(self, body: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, kwargs | {"output_hidden_states": self._layers or None}

    def _keep(self, body: Any, args: tuple[Any, ...], out: Any) -> None:
        self._seen.append(side_by_side(out, self._layers)[0])
