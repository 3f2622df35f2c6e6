"""Which bundled pair a figure was measured with: a figure outlives the weights that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.cli.machine import machine
from app.config import BUNDLED_DRAFTER
from models.config import read_config

ABOUT_IT = (
    *("acceptance", "acceptance-equal-time", "acceptance-deep", "acceptance-shipped"),
    *("acceptance-shipped-deep", "comparison", "offline", "ablations"),
    *("single_device", "single_device-onnx", "single_device-llama"),
    *("second_stage", "draft_step", "everyday", "rephrased", "behaviour", "execution", "network", "withdrawn"),
    *("exactness", "handover", "shell", "learning", "server_learning", "topics", "coins", "service", "service-openai"),
    "overload",
)
"""The results whose figures depend on the bundled weights."""
FORMER = "former"
"""Field of a result, when it is read: whether it was measured with an older pair."""


def pair_of(drafter: Path = BUNDLED_DRAFTER) -> str:
    """The beginning of the digest that a drafter and its target share."""
    return read_config(drafter).memory[:8]


def machine_and_pair(drafter: Path = BUNDLED_DRAFTER) -> dict[str, object]:
    """The machine and the pair that a figure is of: for `machine` of a result that depends on the weights."""
    return {**machine(), "pair": pair_of(drafter)}


def is_former(name: str, document: Mapping[str, Any]) -> bool:
    """Whether the result of this name was measured with another pair than the bundled one."""
    return name in ABOUT_IT and document["machine"].get("pair") != pair_of()
