"""A drafter opened from its folder: the step graph, its tokenizer, and what memory it understands."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from drafter.config import DATASTORE, GRAPH, DrafterConfig, DrafterError, read_config
from drafter.context import DraftContext
from drafter.datastore import load_datastore
from drafter.extras import how_to_install
from drafter.ngram import NGramIndex
from drafter.second_stage import SecondStage
from drafter.step import DraftStep, StepGraph
from drafter.text import ChatText

Runtime = Literal["onnx", "torch"]


class Drafter:
    """The light half, ready to draft; one is shared by all conversations, each with a `DraftContext` of its own."""

    def __init__(self, config: DrafterConfig, text: ChatText, step: DraftStep, folder: Path | None = None) -> None:
        """`folder`: where its datastore lies, if it has one."""
        self.config = config
        self.text = text
        self.memory_digest = bytes.fromhex(config.memory)
        """Memory of another digest means nothing to this drafter."""
        self.memory_layers = config.memory_layers
        """(heads, size) of each memory row."""
        self._step = step
        self._folder = folder

    @classmethod
    def load(
        cls,
        folder: Path,
        runtime: Runtime = "onnx",
        *,
        device: str | None = None,
        bits: Literal[8, 4] | None = 8,
    ) -> Drafter:
        """Open an artefact folder, checked against its checksums.

        `runtime` onnx: the int8 graph, on the CPU. torch: the float weights, on a `device` of PyTorch (None: a GPU
        where there is one), their linear layers quantised to `bits` (None: not at all).
        Raises `DrafterMissing`, `DrafterCorrupt`, or a plain `DrafterError` where PyTorch or its device is not there.
        """
        if runtime == "torch":
            return cls(read_config(folder), ChatText.load(folder), _torch_step(folder, device, bits), folder)
        if device not in (None, "cpu") or bits != 8:
            raise ValueError("ONNX Runtime runs the int8 graph on the CPU; another device, or other bits, need torch")
        config = read_config(folder, verify=(GRAPH,))
        return cls(config, ChatText.load(folder), StepGraph.load(folder, config), folder)

    @property
    def runtime(self) -> str:
        """What runs it, for people: the library, the device and the kind of numbers."""
        return self._step.runtime

    @property
    def independent_rows(self) -> bool:
        """Whether the second stage can be used for drafter-only text: see `DraftStep.independent_rows`."""
        return self._step.independent_rows

    def datastore(self) -> NGramIndex:
        """Texts that it came with, for its second stage: built anew at each call, empty where it came with none.

        Raises `DrafterMissing` or `DrafterCorrupt`.
        """
        if self._folder is None or DATASTORE not in self.config.files:
            return NGramIndex()
        read_config(self._folder, verify=(DATASTORE,))
        return load_datastore(self._folder / DATASTORE, self.config.vocabulary)

    def context(self, second_stage: SecondStage | None = None) -> DraftContext:
        """An empty conversation, with a second stage of its own or none."""
        return DraftContext(self._step, self.config.vocabulary, self.memory_layers, second_stage)


def _torch_step(folder: Path, device: str | None, bits: Literal[8, 4] | None) -> DraftStep:
    try:
        from drafter.model.torch_step import TorchStep  # Seconds, and PyTorch, which the other runtime needs not.

        return TorchStep.load(folder, device, bits)
    except ModuleNotFoundError as error:
        advice = f"{how_to_install('server')}, or use the runtime onnx"
        raise DrafterError(f"The drafter's runtime torch needs {error.name}, which is missing: {advice}.") from None
