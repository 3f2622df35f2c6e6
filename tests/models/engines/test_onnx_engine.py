"""Graphs of targets: which models have one, what is refused, and a server where PyTorch is not installed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest
from safetensors.numpy import save
from safetensors.torch import load_file

from models.config import ENCODER
from models.engines.choice import EngineOptions, open_model, suited
from models.engines.engine import UnfitDrafter, UnverifiableTarget
from models.engines.onnx_engine import OnnxEngine
from models.engines.target import load_target
from models.errors import CorruptWeights, MissingTokenizer, UnknownModel
from models.files import PACKED, TARGET_GRAPH, graph_in
from models.packed import flat, floats, read_packed
from models.tensors import DamagedWeights, read_tensors
from models.text.text_side import read_text_side
from models.tree import DraftTree
from recipes.shell_guide.graph import write_graph
from remote.protocol import Card, decode
from tests.models.engines.conftest import holding, tiny_array_encoder
from tests.remote.verifier.tiny import generated, tiny_model
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

WITHOUT_TORCH = """
import sys
for name in ("torch", "transformers", "safetensors", "onnx", "accelerate"):
    sys.modules[name] = None  # Importing it raises ImportError.
from pathlib import Path
from remote.verifier.serve import ServeOptions, serve
serve(ServeOptions({target!r}, Path({drafter!r}), port=0, watch_stdin=True))
"""


@pytest.fixture
def target(tiny_pair: Path, tmp_path: Path) -> Path:
    """A copy of the tiny target, with a graph in float32 beside its weights."""
    folder = Path(shutil.copytree(tiny_pair / "target", tmp_path / "target"))
    write_graph(folder, folder / TARGET_GRAPH, int8=False)
    return folder


class WithoutTorch(VerifierProcess):
    def command(self) -> list[str]:
        return [sys.executable, "-c", WITHOUT_TORCH.format(target=str(self.model), drafter=str(self.pair / "drafter"))]


def test_a_server_without_pytorch_says_what_pytorch_says(tiny_pair: Path, target: Path, tmp_path: Path) -> None:
    with (
        WithoutTorch(tiny_pair, model=target, said=tmp_path / "said") as server,
        httpx.Client(base_url=server.url, timeout=PATIENCE_SECONDS, trust_env=False) as client,
    ):
        shown = decode(client.get("/v1/card").content, Card)
        question = {"messages": [{"role": "user", "content": "list files"}], "temperature": 0, "max_tokens": 30}
        said = client.post("/v1/chat/completions", json=question).json()["choices"][0]["message"]["content"]
    assert "ONNX Runtime" in (tmp_path / "said").read_text()
    loaded = load_target(str(target), device="cpu")
    assert (shown.vocabulary, shown.tokenizer, shown.stop_tokens) == (
        loaded.model.config.vocab_size, loaded.tokenizer, loaded.stop_tokens,
    )  # fmt: skip
    assert shown.memory is not None and shown.drafts
    assert loaded.text is not None
    prompt = loaded.text.render([("user", "list files")])
    assert said == loaded.text.decode(generated(loaded.model, prompt, 30))


def test_a_graph_is_taken_where_there_is_one_and_what_a_folder_lacks_is_told(target: Path, tmp_path: Path) -> None:
    assert graph_in(target) == target / TARGET_GRAPH and suited(str(target), EngineOptions()) == "onnx"
    assert suited(str(target), EngineOptions(quantize="int8")) == "torch"
    for source in (str(tmp_path), "owner/model"):
        assert suited(source, EngineOptions()) == "torch"
    with pytest.raises(UnknownModel, match="--engine torch"):
        open_model(str(tmp_path), EngineOptions("onnx"))
    with pytest.raises(UnknownModel, match="--quantize"):
        open_model(str(target), EngineOptions("onnx", "int8"))
    (target / "tokenizer.json").unlink()
    with pytest.raises(MissingTokenizer, match=r"tokenizer\.json"):
        read_text_side(target)
    (target / "config.json").unlink()
    with pytest.raises(UnknownModel, match=r"config\.json"):
        read_text_side(target)


def test_weights_are_read_as_safetensors_reads_them(tiny_pair: Path, tmp_path: Path) -> None:
    for file in (tiny_pair / "target" / "model.safetensors", tiny_pair / "drafter" / ENCODER):
        expected, found = load_file(file), read_tensors(file)
        assert expected.keys() == found.keys()
        assert all(np.array_equal(expected[name].float().numpy(), found[name]) for name in expected)
    whole = (tiny_pair / "drafter" / ENCODER).read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"\xff" * 40):
        (tmp_path / "half.safetensors").write_bytes(damaged)
        with pytest.raises(DamagedWeights, match="damaged"):
            read_tensors(tmp_path / "half.safetensors")


def test_a_file_that_is_no_graph_and_a_drafter_of_another_target_are_refused(tmp_path: Path, tiny_pair: Path) -> None:
    (tmp_path / "target.onnx").write_bytes(b"no graph")
    for path in (tmp_path / "target.onnx", tiny_pair / "drafter" / "drafter.onnx"):
        with pytest.raises(CorruptWeights, match="--engine torch"):
            OnnxEngine(path)
    tiny_model("llama-multi-query").save_pretrained(tmp_path / "other")
    write_graph(tmp_path / "other", tmp_path / "other.onnx", int8=False)
    with pytest.raises(UnfitDrafter, match="Serve its own target"):
        OnnxEngine(tmp_path / "other.onnx", tiny_array_encoder(tmp_path))


@pytest.mark.parametrize("kind", ["gemma", "mistral-window", "llama, scaled"])
def test_a_model_that_has_no_graph_is_named(kind: str, tmp_path: Path) -> None:
    tiny_model(kind.partition(",")[0]).save_pretrained(tmp_path)
    if kind == "llama, scaled":
        config = json.loads((tmp_path / "config.json").read_text())
        config["rope_parameters"] = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}
        (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnverifiableTarget, match="linear" if "scaled" in kind else "--engine torch"):
        write_graph(tmp_path, tmp_path / "target.onnx", int8=False)


def test_pytorch_reads_packed_weights_and_says_where_there_are_none(target: Path) -> None:
    write_graph(target, target / TARGET_GRAPH, int8=True)
    (target / "model.safetensors").unlink()
    packed = read_packed(target / PACKED)
    found = load_target(str(target), device="cpu").model.state_dict()
    assert found.keys() == packed.keys()
    assert all(np.array_equal(found[name].numpy(), floats(weight)) for name, weight in packed.items())
    (target / PACKED).write_bytes(save(flat({**packed, "another": packed["model.norm.weight"]})))
    with pytest.raises(CorruptWeights, match="other weights than its config says, such as another"):
        load_target(str(target), device="cpu")
    (target / PACKED).write_bytes(b"junk")
    for load in (load_target, lambda source: OnnxEngine(Path(source) / TARGET_GRAPH)):
        with pytest.raises(CorruptWeights, match="damaged"):
            load(str(target))
    (target / PACKED).unlink()
    with pytest.raises(UnknownModel, match="a graph and no weights for PyTorch"):
        load_target(str(target))


def test_threads_change_no_bit_of_weights_of_8_bits(tmp_path: Path) -> None:
    tiny_model("llama").save_pretrained(tmp_path / "target")
    write_graph(tmp_path / "target", tmp_path / "target.onnx", int8=True)
    tree, found = DraftTree(np.arange(2, 14), np.array([-1, -1, 0, 0, 1, 2, 3, 3, 5, 6, 9, 10])), []
    for threads in (1, 3):
        engine = OnnxEngine(tmp_path / "target.onnx", threads=threads)
        found.append(engine.verify(holding(engine, [at % 40 for at in range(150)]), tree))
    np.testing.assert_array_equal(found[0], found[1])
