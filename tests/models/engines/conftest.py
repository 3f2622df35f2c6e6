"""Every engine under test, each as a `Bench`: a tiny target, and what transformers says of the same weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from drafter.model import save_weights
from models.config import ENCODER, write_config
from models.engines.engine import Engine, Forward, TargetContext
from models.engines.llama_engine import LlamaEngine
from models.engines.memory_encoder import ArrayEncoder
from models.engines.onnx_engine import OnnxEngine
from models.engines.sequential_engine import SequentialEngine
from models.engines.torch_engine import TorchEngine
from models.files import PACKED
from models.packed import floats, read_packed
from models.tree import DraftTree
from recipes.shell_guide.graph import write_graph
from remote.protocol import Sampling
from remote.verifier.sessions.acceptance import chooser, walk
from tests.remote.verifier.tiny import TREELESS, encoder_config, tiny_encoder, tiny_model
from tests.support.gguf_writer import write_gguf

TORCH = ("llama", "qwen3-mixed", "gemma2-eager", "gpt2")
ONNX = ("llama", "llama-tied", "qwen2", "qwen3", "llama-many-heads")
LLAMA_CPP = ("llama", "llama-tied", "qwen2", "qwen3", "gemma3-mixed")
LLAMA_CPP_TREELESS = ("mamba", "lfm2")
"""Models whose state cannot be taken back."""
CHUNK = 8


def holding(engine: Engine, tokens: Sequence[int]) -> TargetContext:
    """A context with these tokens, none of which is computed."""
    context = engine.context()
    context.assign(0, list(tokens))
    return context


def asked(context: TargetContext, tree: DraftTree) -> Forward:
    return Forward(context, len(context.tokens) - context.computed, tree)


def accept(context: TargetContext, tree: DraftTree, logits: np.ndarray) -> tuple[int, ...]:
    """Walk and commit greedily. Returns the nodes that were accepted."""
    choose = chooser(logits, Sampling())
    found = walk(tree, choose, position=len(context.tokens), room=1000, stop_tokens=frozenset())
    context.commit(tree, found.accepted, found.bonus)
    return found.accepted


@dataclass(frozen=True)
class Bench:
    """An engine, the model of transformers with the same weights, and how far logits may differ."""

    engine: Engine
    model: PreTrainedModel
    tolerance: float
    """A share of the largest logit."""
    same_bits: bool
    """A token's logits are the same, bit for bit, alone, in a tree and in a batch."""
    apart: float = 2e-5
    """Otherwise, how far they may differ, as a share of the largest logit."""

    @property
    def windowed(self) -> bool:
        """Whether layers see the newest tokens alone."""
        return getattr(self.model.config, "sliding_window", None) is not None

    def tree(self, tree: DraftTree) -> DraftTree:
        """The first nodes of a tree, no more than the engine takes."""
        most = self.engine.most_nodes
        return DraftTree(tree.tokens[:most], tree.parents[:most])

    def same_as_anew(self, context: TargetContext, logits: np.ndarray | None = None) -> None:
        """What comes next is what a fresh context says of the same tokens. `logits`: of what comes next, if known."""
        found = self.engine.verify(context, DraftTree.empty())[0] if logits is None else logits
        fresh = holding(self.engine, context.tokens)
        self.same(found, self.engine.verify(fresh, DraftTree.empty())[0])
        fresh.release()

    def close(self, logits: np.ndarray, expected: np.ndarray) -> None:
        np.testing.assert_allclose(logits, expected, atol=self.tolerance * np.abs(expected).max(), rtol=0)

    def same(self, logits: np.ndarray, expected: np.ndarray) -> None:
        """Two ways to the same logits on this engine."""
        if self.same_bits:
            np.testing.assert_array_equal(logits, expected)
        else:
            np.testing.assert_allclose(logits, expected, atol=self.apart * np.abs(expected).max(), rtol=0)
            assert (logits.argmax(-1) == expected.argmax(-1)).all()


def onnx_bench(kind: str, folder: Path, *, int8: bool) -> Bench:
    model = tiny_model(kind)
    model.save_pretrained(folder / "target")
    write_graph(folder / "target", folder / "target.onnx", int8=int8)
    if int8:
        stored = {name: torch.from_numpy(floats(weight)) for name, weight in read_packed(folder / PACKED).items()}
        model.load_state_dict(stored, strict=False)
    encoder = tiny_array_encoder(folder) if kind == "llama" else None
    engine = OnnxEngine(folder / "target.onnx", encoder, chunk=CHUNK)
    # Inputs of 8 bits are coarse in a model of random numbers; what they mean for text is measured on the bundled one.
    return Bench(engine, model, 0.3 if int8 else 1e-4, int8)


def llama_bench(kind: str, folder: Path) -> Bench:
    """A GGUF file on llama.cpp, whose cache holds float16. Skipped without the `gguf` extra."""
    pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install '.[gguf]'")
    model, file = tiny_model(kind), folder / "target.gguf"
    if not file.exists():
        model.save_pretrained(folder / "target")
        write_gguf(folder / "target", file)
    engine = LlamaEngine(file, tiny_array_encoder(folder) if kind == "llama" else None, chunk=CHUNK)
    return Bench(engine, model, 0.01, False, 0.02)


def tiny_array_encoder(folder: Path) -> ArrayEncoder:
    (folder / "drafter").mkdir(exist_ok=True)
    save_weights(tiny_encoder(), folder / "drafter" / ENCODER)
    write_config(folder / "drafter", encoder_config())
    return ArrayEncoder.load(folder / "drafter")


def torch_bench(kind: str) -> Bench:
    model = tiny_model(kind)
    return Bench(TorchEngine(model, tiny_encoder() if kind == "llama" else None, chunk=CHUNK), model, 1e-4, False)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Bench]:
    """The bench of a name, made once."""
    kept: dict[str, Bench] = {}
    folders = tmp_path_factory.mktemp("engines")

    def bench(name: str) -> Bench:
        if name not in kept:
            runtime, _, kind = name.partition(" ")
            (folder := folders / name).mkdir(exist_ok=True)
            if runtime == "llama.cpp":
                return llama_bench(kind, folder)  # Its contexts share lanes, so each test has an engine of its own.
            if runtime == "torch":
                kept[name] = torch_bench(kind)
            elif runtime == "sequential":
                model = tiny_model(kind)
                kept[name] = Bench(SequentialEngine(model, chunk=CHUNK), model, 1e-4, False, 1e-4)
            elif runtime in ("onnx", "int8"):
                kept[name] = onnx_bench(kind, folder, int8=runtime == "int8")
            else:
                raise LookupError(f"no engine makes {name}")
        return kept[name]

    return bench


EVERY = [
    *(f"torch {kind}" for kind in TORCH),
    *(f"sequential {kind}" for kind in TREELESS),
    *(f"onnx {kind}" for kind in ONNX),
    "int8 llama",
    "int8 qwen3",
    "int8 llama-many-heads",
    *(f"llama.cpp {kind}" for kind in (*LLAMA_CPP, *LLAMA_CPP_TREELESS)),
]


@pytest.fixture(params=EVERY)
def bench(made: Callable[[str], Bench], request: pytest.FixtureRequest) -> Bench:
    return made(request.param)


@pytest.fixture(params=["torch llama", "onnx llama", "int8 llama", "llama.cpp llama"])
def encoding(made: Callable[[str], Bench], request: pytest.FixtureRequest) -> Bench:
    """A bench whose engine has a memory encoder."""
    return made(request.param)
