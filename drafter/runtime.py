"""A drafter opened from its folder: the step graph, the tokenizer, and the memory that it understands."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import UnsetType

from drafter.cache import DraftCache
from drafter.context import DraftContext
from drafter.ngram import NGramIndex, load_datastore
from drafter.second_stage import SecondStage
from drafter.step import Correction, DraftStep, StepGraph
from drafter.whole_model import NOBODY, ModelCache, WholeModel
from models.config import DATASTORE, GRAPH, DrafterConfig, DrafterCorrupt, DrafterError, read_config
from models.extras import how_to_install
from models.guide.names import Marks, NoMarks
from models.guide.prompt import Prompt
from models.guide.recipe import open_prompt
from models.memory import MalformedMemory, MemoryRow, unpack_memory
from models.text.chat_text import ChatText

Runtime = Literal["onnx", "torch"]


class Drafter:
    """A drafter that is ready to draft. All conversations share it, each with its own `DraftContext`."""

    def __init__(
        self,
        config: DrafterConfig,
        text: ChatText,
        step: DraftStep | WholeModel,
        folder: Path | None = None,
        prompt: Prompt | None = None,
    ) -> None:
        """`folder`: of its datastore, if it has one. `prompt`: the recipe by which its target is asked."""
        self.config = config
        self.text = text
        self.prompt = prompt
        """The prompt recipe, or None if questions are asked as they are."""
        self.memory_digest = config.memory_digest
        """The drafter only understands memory with this digest."""
        self.memory_layers = () if isinstance(step, WholeModel) else config.memory_layers
        """(heads, size) of each memory row; empty for a whole model, which reads none."""
        self.version = 0
        """Number of the learnt version that drafts now, or 0."""
        self._step = step
        self._first = self._first_memory()
        self._graph: Path | None = None
        """The learnt graph that drafts now, or None for the drafter's own."""
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
        """Open a drafter's folder and verify its checksums.

        `runtime` onnx: the int8 graph, on the CPU. `runtime` torch: the float weights, on a `device` of PyTorch (None:
        a GPU if there is one), with linear layers quantised to `bits` (floats if None). Raises `DrafterMissing`,
        `DrafterCorrupt`, and `DrafterError` if PyTorch or its device is not available, or the prompt recipe is unknown.
        """
        if runtime == "torch":
            config, text = read_config(folder), ChatText.load(folder)
            return cls(config, text, _torch_step(folder, device, bits), folder, open_prompt(folder, config))
        if device not in (None, "cpu") or bits != 8:
            raise ValueError("ONNX Runtime runs the int8 graph on the CPU; another device, or other bits, need torch")
        config = read_config(folder, verify=(GRAPH,))
        prompt = open_prompt(folder, config)
        return cls(config, ChatText.load(folder), StepGraph(folder / GRAPH, config), folder, prompt)

    def asked_as(self, question: str) -> list[int]:
        """The token ids of a conversation's first question, as its target is asked. Raises `DrafterCorrupt`."""
        return self.text.render(self.prompt.asked_as([question]) if self.prompt else [("user", question)])

    def marks(self, questions: Sequence[str]) -> Marks:
        """The marks of a conversation's names after these questions."""
        return NoMarks() if self.prompt is None else self.prompt.marks(questions)

    @property
    def is_model(self) -> bool:
        """Whether it is a whole model in another process, which may not run, and reads slowly."""
        return isinstance(self._step, WholeModel) and self.drafts

    @property
    def drafts(self) -> bool:
        """Whether it ever drafts. One that never does knows the text of its target and nothing else."""
        return self._step is not NOBODY

    @property
    def runs(self) -> bool:
        """Whether it can draft now."""
        return not isinstance(self._step, WholeModel) or self._step.runs()

    def reads(self, length: int) -> bool:
        """Whether it reads conversations of this many tokens, as far as known."""
        return not isinstance(self._step, WholeModel) or length <= self._step.most_tokens

    @property
    def runtime(self) -> str:
        """The runtime, for people: library, device, kind of numbers."""
        return self._step.runtime

    @property
    def independent_rows(self) -> bool:
        """True if the second stage can be used when the drafter writes alone; see `DraftStep.independent_rows`."""
        return self._step.independent_rows

    @property
    def correctable(self) -> bool:
        """Whether it can draft with a correction of its logits."""
        return isinstance(self._step, StepGraph) and self.config.correctable

    def correct(self, correction: Correction | None, version: int, graph: Path | None = None) -> None:
        """From the next step on, draft with this correction, which belongs to `version`, or with none.

        `graph`: also draft with this graph, which has trained attention layers, or else with the drafter's own. Raises
        `ValueError` if it takes no correction, `DrafterCorrupt` for a graph that cannot be loaded.
        """
        if not isinstance(self._step, StepGraph) or not self.config.correctable:
            raise ValueError("this drafter takes no correction")
        if graph != self._graph:
            self._step.become(StepGraph(graph or self._own_graph, self.config))
            self._graph = graph
        self._step.correction = Correction.none(self.config) if correction is None else correction
        self.version = version

    def twin(self) -> Drafter:
        """A copy of this drafter, on the same graph until either is given another (`correct`)."""
        twin = copy.copy(self)
        if isinstance(self._step, StepGraph):
            twin._step = copy.copy(self._step)
        return twin

    @property
    def _own_graph(self) -> Path:
        if self._folder is None:
            raise ValueError("this drafter has no folder")
        return self._folder / GRAPH

    def datastore(self) -> NGramIndex:
        """The texts of the drafter's datastore, for its second stage. Built anew at each call; empty if there is none.

        Raises `DrafterMissing` or `DrafterCorrupt`.
        """
        if self._folder is None or DATASTORE not in self.config.files:
            return NGramIndex()
        read_config(self._folder, verify=(DATASTORE,))
        return load_datastore(self._folder / DATASTORE, self.config.vocabulary)

    def context(self, second_stage: SecondStage | None = None) -> DraftContext:
        """An empty conversation, with its own second stage or none."""
        step, vocabulary = self._step, self.config.vocabulary
        if isinstance(step, WholeModel):
            return DraftContext(ModelCache(step, vocabulary), vocabulary, second_stage)
        return DraftContext(DraftCache(step, self.memory_layers, self._first), vocabulary, second_stage)

    def _first_memory(self) -> tuple[int, list[MemoryRow]] | None:
        first = self.config.first_memory
        if isinstance(first, UnsetType) or not self.memory_layers:
            return None
        try:
            return first.token, unpack_memory(first.memory, 1, self.memory_layers)
        except MalformedMemory as error:
            raise DrafterCorrupt(f"The drafter's memory of the first token is damaged ({error}).") from None


def _torch_step(folder: Path, device: str | None, bits: Literal[8, 4] | None) -> DraftStep:
    try:
        # This takes seconds and needs PyTorch; the other runtime does not.
        from drafter.model.torch_step import TorchStep

        return TorchStep.load(folder, device, bits)
    except ModuleNotFoundError as error:
        advice = f"{how_to_install('server')}, or use the runtime onnx"
        raise DrafterError(f"The drafter's runtime torch needs {error.name}, which is missing: {advice}.") from None
