"""The device's half: a small model that guesses what the target will say. It imports torch only where asked to.

Names are looked up when they are first used, so a program that needs one module does not wait for numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drafter.calibration import Calibration
    from drafter.context import DraftContext
    from drafter.multicandidate import DraftSampling
    from drafter.runtime import Drafter
    from drafter.search import Pace
    from models.config import DrafterConfig, DrafterCorrupt, DrafterError, DrafterMissing
    from models.memory import MalformedMemory
    from models.text.chat_text import ChatText
    from models.text.template import TemplateFailed
    from models.tree import ROOT, DraftTree, MalformedTree

_HOMES = {
    "ROOT": "tree",
    "Calibration": "calibration",
    "ChatText": "text",
    "DraftContext": "context",
    "DraftSampling": "multicandidate",
    "DraftTree": "tree",
    "Drafter": "runtime",
    "DrafterConfig": "config",
    "DrafterCorrupt": "config",
    "DrafterError": "config",
    "DrafterMissing": "config",
    "MalformedMemory": "memory",
    "MalformedTree": "tree",
    "Pace": "search",
    "TemplateFailed": "template",
}

__all__ = [
    "ROOT",
    "Calibration",
    "ChatText",
    "DraftContext",
    "DraftSampling",
    "DraftTree",
    "Drafter",
    "DrafterConfig",
    "DrafterCorrupt",
    "DrafterError",
    "DrafterMissing",
    "MalformedMemory",
    "MalformedTree",
    "Pace",
    "TemplateFailed",
]


def __getattr__(name: str) -> object:
    if home := _HOMES.get(name):
        return getattr(import_module(f"drafter.{home}"), name)
    raise AttributeError(f"module 'drafter' has no attribute {name!r}")
