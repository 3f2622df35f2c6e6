"""Judges whether a newer version of a small model, taught by its server, is better here than the current one.

Such a version reads the same memory and has the same shape; only its graph differs. It is judged on this device's own
answers against the version in use, which this device may have learnt itself. If it is better, it becomes a version like
any other: it can be rolled back, and later learning on the device starts from it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from app.drafting.learning import Learner, NothingLearnt
from drafter.delivery import delivery
from drafter.learning.comparison import Judged, compare, is_better
from drafter.learning.parts import FEWEST, split
from drafter.learning.versions import Version
from models.config import GRAPH, GRAPH_WEIGHTS, DrafterConfig, read_config
from remote import VerifierClient
from remote.delivery import fetch_drafter
from remote.errors import NotDelivered
from remote.protocol import Card

OFFERED = "offered"
"""The subfolder of everything learnt in which a version is kept until it is judged."""


def is_newer(card: Card, learner: Learner) -> bool:
    """Whether a server offers a version of this drafter that is neither the drafter itself nor already known.

    Reads files. Raises `DrafterError`.
    """
    if card.drafter is None or card.memory is None or card.memory.digest.hex() != learner.config.memory:
        return False
    wanted = card.drafter.digest
    return wanted != delivery(learner.folder).digest and wanted.hex() not in learner.versions.offered


async def fetch_newer(
    client: VerifierClient, card: Card, learner: Learner, learnt: Path, progress: Callable[[int, int], None]
) -> Path:
    """Fetch that version, except for files that are already here. Returns its folder, to be deleted after that.

    `learnt`: the folder of everything learnt. Raises what `fetch_drafter` raises.
    """
    folder = await fetch_drafter(client, card, learnt / OFFERED, progress=progress, known=learner.folder)
    config = read_config(folder, verify=(GRAPH,))
    if GRAPH_WEIGHTS in config.files or _shape(config) != _shape(learner.config):
        shutil.rmtree(folder)
        raise NotDelivered(
            f"the newer small model of {client.host} has a different shape; "
            "to switch: outrider drafter rm, then outrider drafter fetch"
        )
    return folder


def check_judgeable(learner: Learner, server: str) -> None:
    """Raise `NothingLearnt` if what this device has learnt itself cannot be compared; the device then keeps that."""
    own, _ = learner.in_use()
    if own is not None and learner.answers < FEWEST:
        raise _too_few(learner.answers, server)


def judge(
    learner: Learner,
    folder: Path,
    server: str,
    progress: Callable[[int, int], None] = lambda done, of: None,
    halted: Callable[[], bool] = lambda: False,
) -> Version:
    """Use the version in `folder` if it is better here, and record it in any case.

    If there are too few answers to judge it, it is used if this device has learnt nothing itself. Otherwise raises
    `NothingLearnt`: the device keeps its own version, and this one is judged when there are enough answers. Raises
    `DrafterError`, `StorageError`, `OSError`.
    """
    begun, (own, now), graph = time.monotonic(), learner.in_use(), folder / GRAPH
    lessons = learner.lessons(progress, halted, graph=now.graph)
    newest = oldest = Judged(0.0, 0.0, 0.0, 0.0, 0)
    if len(lessons) >= FEWEST:
        _, _, judging, fixed = split(lessons)
        newest = compare(learner.hits(judging, *now), learner.hits(judging, None, graph))
        oldest = compare(learner.hits(fixed, *now), learner.hits(fixed, None, graph))
        better = is_better(newest, oldest)
    elif own is None:
        better = True
    else:
        raise _too_few(len(lessons), server)
    version = Version.judged(newest.answers, newest, oldest, time.monotonic() - begun)
    version = msgspec.structs.replace(version, deep=True, server=server, offered=folder.name)
    return learner.versions.publish(version, None, graph if better else None)


def _too_few(answers: int, server: str) -> NothingLearnt:
    return NothingLearnt(
        f"only {answers} of the {FEWEST} checked answers needed to judge the newer version of {server}. "
        "What was learnt here stays in use"
    )


def _shape(config: DrafterConfig) -> DrafterConfig:
    """A config without the checksums of files, the training time, and the measured quality."""
    return msgspec.structs.replace(config, files={}, steps=0, seconds=0.0, measured=msgspec.UNSET)
