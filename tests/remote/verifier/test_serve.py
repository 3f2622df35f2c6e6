from __future__ import annotations

import hashlib
import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from models.config import DrafterMissing
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from models.errors import CorruptWeights, MissingTokenizer, UnknownModel
from models.tree import DraftTree
from remote.protocol import Limits
from remote.verifier.connections import bind
from remote.verifier.holders import Tokens
from remote.verifier.options import ServeOptions
from remote.verifier.security import Unprotected
from remote.verifier.serve import card, serve
from remote.verifier.start_errors import BadCertificate, CannotBind
from tests.remote.verifier.tiny import (
    STOP,
    VOCABULARY,
    generated,
    plain_logits,
    tiny_encoder,
    tiny_model,
    tiny_tokenizer,
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    model = tiny_model()
    model.generation_config.eos_token_id = STOP
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def test_a_target_is_loaded_with_what_a_device_must_know(saved: Path) -> None:
    target = load_target(str(saved), device="cpu")
    assert target.model.dtype == torch.float32
    assert generated(target.model, [5, 9, 2], 3) == generated(tiny_model(), [5, 9, 2], 3)
    engine = TorchEngine(target.model, tiny_encoder())
    shown = card(target, engine)
    assert (shown.target, shown.vocabulary, shown.stop_tokens) == ("tiny", VOCABULARY, (STOP,))
    assert shown.tokenizer == hashlib.blake2b((saved / "tokenizer.json").read_bytes(), digest_size=16).digest()
    assert "<end>" in shown.chat_template
    assert shown.memory is not None and shown.memory.layers == ((2, 16), (2, 8))
    assert shown.limits.max_tokens == 512
    assert card(target, TorchEngine(target.model), max_tokens=100).limits == Limits(
        max_nodes=256, max_depth=256, max_tokens=100, max_body_bytes=4 * 100 + 6 * 256 + (64 << 10)
    )


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_a_quantised_target_still_verifies(saved: Path, kind: str) -> None:
    target = load_target(str(saved), quantize=kind, device="cpu")  # type: ignore[arg-type]
    engine = TorchEngine(target.model)
    context = engine.context()
    context.assign(0, [5, 9, 2])
    logits = engine.verify(context, DraftTree.empty())[0]
    # Half a step of int4 is large beside a random weight, but most of the direction stays.
    plain = plain_logits(tiny_model(), [5, 9, 2])
    assert logits @ plain / np.linalg.norm(logits) / np.linalg.norm(plain) > {"int8": 0.99, "int4": 0.5}[kind]
    assert type(target.model.model.layers[0].mlp.up_proj).__name__ == "QLinear"
    assert type(target.model.lm_head).__name__ == "Linear"


def halved(folder: Path) -> None:
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])


def without_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def of_unknown_architecture(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "abacus", "architectures": ["Abacus"]}))


@pytest.mark.parametrize(
    ("damage", "error", "told"),
    [
        (shutil.rmtree, UnknownModel, "There is no folder"),
        (lambda folder: [path.unlink() for path in folder.iterdir()], UnknownModel, "cannot be loaded as a model"),
        (of_unknown_architecture, UnknownModel, "abacus"),
        (halved, CorruptWeights, "damaged"),
        (without_a_tensor, CorruptWeights, r"layers\.1\.mlp\.up_proj"),
        (pickled, UnknownModel, "safetensors"),
        (lambda folder: (folder / "tokenizer.json").unlink(), MissingTokenizer, r"tokenizer\.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), MissingTokenizer, "cannot be read"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_told(
    saved: Path, tmp_path: Path, damage: Callable[[Path], object], error: type[Exception], told: str
) -> None:
    damage(copy := Path(shutil.copytree(saved, tmp_path / "tiny")))
    with pytest.raises(error, match=told):
        load_target(str(copy))


def test_what_cannot_be_served_is_told_before_loading(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(Unprotected):
        serve(ServeOptions(str(saved), host="0.0.0.0", port=0))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CannotBind, match="Choose another"):
        serve(ServeOptions(str(saved), port=taken.getsockname()[1]))
    with pytest.raises(CannotBind):
        serve(ServeOptions(str(saved), host="no.such.host.invalid", tokens=Tokens.one("0123456789abcdef")))
    (tmp_path / "cert.pem").write_text("no certificate")
    with pytest.raises(BadCertificate, match=r"cert\.pem"):
        serve(ServeOptions(str(saved), port=0, tls_cert=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem"))
    with pytest.raises(DrafterMissing):
        serve(ServeOptions(str(saved), tmp_path, port=0))


def test_small_frames_leave_at_once() -> None:
    """asyncio turns Nagle's algorithm off only on sockets whose protocol is TCP; with it, a round takes 40 ms more."""
    with bind("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
