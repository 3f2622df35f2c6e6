"""The drafters that the Mixture of Attentions is measured against, trained as it is: EAGLE-2, EAGLE-3, a small LM."""

from drafter.training.baselines.artefact import load_baseline, save_baseline
from drafter.training.baselines.config import METHODS, BaselineConfig, Method
from drafter.training.baselines.context import BaselineContext
from drafter.training.baselines.model import Baseline
from drafter.training.baselines.recipe import BaselineRecipe
from drafter.training.baselines.shapes import baseline_config, build
from drafter.training.baselines.train import train_baseline

__all__ = [
    "METHODS",
    "Baseline",
    "BaselineConfig",
    "BaselineContext",
    "BaselineRecipe",
    "Method",
    "baseline_config",
    "build",
    "load_baseline",
    "save_baseline",
    "train_baseline",
]
