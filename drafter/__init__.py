"""The light half: a small model on the device that guesses what the target will say. Never imports torch by itself."""

from drafter.calibration import Calibration
from drafter.config import DrafterConfig, DrafterCorrupt, DrafterError, DrafterMissing
from drafter.context import DraftContext
from drafter.memory import MalformedMemory
from drafter.multicandidate import DraftSampling
from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.text import ChatText, TemplateFailed
from drafter.tree import ROOT, DraftTree, MalformedTree

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
