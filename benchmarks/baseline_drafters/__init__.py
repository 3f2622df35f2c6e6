"""The drafters that the Mixture of Attentions is compared with: EAGLE-2, EAGLE-3, and a small language model.

All of them are trained in the same way as it.
"""

from benchmarks.baseline_drafters.artefact import load_baseline, save_baseline
from benchmarks.baseline_drafters.config import METHODS, BaselineConfig, Method
from benchmarks.baseline_drafters.context import BaselineContext
from benchmarks.baseline_drafters.feature_tap import FeatureTap
from benchmarks.baseline_drafters.model import Baseline
from benchmarks.baseline_drafters.recipe import BaselineRecipe
from benchmarks.baseline_drafters.shapes import baseline_config, build, equal_config
from benchmarks.baseline_drafters.train import train_baseline

__all__ = [
    "METHODS",
    "Baseline",
    "BaselineConfig",
    "BaselineContext",
    "BaselineRecipe",
    "FeatureTap",
    "Method",
    "baseline_config",
    "build",
    "equal_config",
    "load_baseline",
    "save_baseline",
    "train_baseline",
]
