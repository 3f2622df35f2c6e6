"""The processes of a training run: one, or one for each of several devices (`accelerate launch` or `torchrun`).

All processes run the same program and share a file system. The main process alone writes logs, checkpoints and the
drafter. Everything else is accelerate's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Literal

import torch
from accelerate import PartialState
from accelerate.utils import reduce

Device = Literal["auto", "cpu", "cuda", "mps"]

PATIENCE = timedelta(days=7)
"""How long processes wait for the main one. If one dies, the launcher ends the others."""


class NoDevice(ValueError):
    """A device that is not here, or that several processes cannot share. The message says which."""


def processes(device: str = "cpu") -> PartialState:
    """The processes that train together, usually one. The first call connects them and sets their kind of device."""
    launched = "LOCAL_RANK" in os.environ
    # A single process does not need accelerate's choice of a device.
    return PartialState(cpu=not launched or device == "cpu", timeout=PATIENCE)


def choose_device(wanted: Device = "auto") -> str:
    """Choose the device of this process, and connect all processes. `auto` is CUDA, else MPS, else the CPU.

    Raises `NoDevice`.
    """
    here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind = next(name for name in here if here[name]) if wanted == "auto" else wanted
    if not here[kind]:
        raise NoDevice(f"PyTorch finds no {kind} device here. Give another --device, or none to take what there is.")
    together = processes(kind)
    if together.num_processes == 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise NoDevice(f"Several processes cannot train together on {kind}: launch one, or give --device cpu.")
    return str(together.device) if together.num_processes > 1 else kind


def average_gradients(parameters: Iterable[torch.nn.Parameter], together: PartialState) -> None:
    """Give all processes the mean of their gradients. A gradient that is missing in one of them counts as 0 there."""
    if together.num_processes == 1:
        return
    for parameter in parameters:
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        parameter.grad = reduce(gradient, "mean")
