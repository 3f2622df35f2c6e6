"""A drafter opened from its folder: the step graph, its tokenizer, and what memory it understands."""

from __future__ import annotations

from pathlib import Path

from drafter.config import GRAPH, DrafterConfig, read_config
from drafter.context import DraftContext
from drafter.second_stage import SecondStage
from drafter.step import StepGraph
from drafter.text import ChatText


class Drafter:
    """The light half, ready to draft; one is shared by all conversations, each with a `DraftContext` of its own."""

    def __init__(self, config: DrafterConfig, text: ChatText, step: StepGraph) -> None:
        self.config = config
        self.text = text
        self.memory_digest = bytes.fromhex(config.memory)
        """Memory of another digest means nothing to this drafter."""
        self.memory_layers = config.memory_layers
        """(heads, size) of each memory row."""
        self._step = step

    @classmethod
    def load(cls, folder: Path) -> Drafter:
        """Open an artefact folder, checked against its checksums.

        Raises `DrafterMissing` or `DrafterCorrupt`, both `DrafterError`.
        """
        config = read_config(folder, verify=(GRAPH,))
        return cls(config, ChatText.load(folder), StepGraph.load(folder, config))

    @property
    def independent_rows(self) -> bool:
        """Whether the second stage can be used for drafter-only text: see `StepGraph.independent_rows`."""
        return self._step.independent_rows

    def context(self, second_stage: SecondStage | None = None) -> DraftContext:
        """An empty conversation, with a second stage of its own or none."""
        return DraftContext(self._step, self.config.vocabulary, self.memory_layers, second_stage)
