"""A model that cannot answer is told from its files, with what to do, and without llama.cpp or PyTorch."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from app.local.suitability import check
from models.errors import BadTemplate, CorruptWeights, MissingTokenizer, ModelError, UnknownModel
from tests.support.gguf_files import byte_level, entries_of, rewritten, write_vocabulary
from tests.support.gguf_writer import write_gguf

BROKEN = struct.pack("<Q", 3) + b"[1]"
"""A file of safetensors whose header is none."""


@pytest.fixture
def gguf(tiny_pair: Path, tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    write_gguf(tiny_pair / "target", path, "f16")
    return path


@pytest.fixture
def folder(tiny_pair: Path, tmp_path: Path) -> Path:
    shutil.copytree(tiny_pair / "target", tmp_path / "tiny")
    (tmp_path / "tiny/target.onnx").unlink()
    return tmp_path / "tiny"


def test_whole_models_pass(gguf: Path, folder: Path, tiny_pair: Path, tmp_path: Path) -> None:
    for whole in (gguf, rewritten(gguf, tmp_path / "split.gguf", most_tensors=5), folder):
        check(whole)
    (folder / "model.safetensors").unlink()
    shutil.copy(tiny_pair / "target/target.onnx", folder)
    check(folder)


@pytest.mark.parametrize("kept", [0.01, 0.5, 1])
def test_a_file_that_is_cut_is_told(kept: float, gguf: Path, folder: Path) -> None:
    for path, model in ((gguf, gguf), (folder / "model.safetensors", folder)):
        os.truncate(path, int(path.stat().st_size * kept) - 1)
        with pytest.raises(
            CorruptWeights, match=r"(is cut short: it has .* of .* bytes|is damaged: .*)\. Fetch it again"
        ):
            check(model)


def test_a_model_with_a_file_missing_is_told(gguf: Path, tmp_path: Path) -> None:
    first = rewritten(gguf, tmp_path / "split.gguf", most_tensors=5)
    second = next(tmp_path.glob("split-00002-of-*.gguf"))
    os.truncate(second, second.stat().st_size - 1)
    with pytest.raises(CorruptWeights, match=f"{second.name} is cut short"):
        check(first)
    second.unlink()
    with pytest.raises(UnknownModel, match=f"{second.name} is not beside"):
        check(first)


def test_a_template_that_does_not_work_is_told(folder: Path, tmp_path: Path) -> None:
    for template, said in (
        ("", "base model, which continues text and does not answer. Choose its instruct version"),
        ("{% for %}", "is not valid Jinja: .* outrider local catalogue"),
        ("{{ raise_exception('not today') }}", "fails. .*not today. Choose another one"),
        ("hello", "leaves out what is asked"),
    ):
        (folder / "chat_template.jinja").write_text(template)
        entries = {**entries_of(byte_level()), "tokenizer.chat_template": template}
        for path in (write_vocabulary(tmp_path / "tiny.gguf", entries), folder):
            with pytest.raises(BadTemplate, match=said):
                check(path)


def test_a_file_that_cannot_be_read_is_told(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()
    with pytest.raises(ModelError, match="model.safetensors cannot be read: Is a directory"):
        check(folder)


def test_a_part_of_a_model_or_one_larger_than_the_memory_is_told(gguf: Path, tmp_path: Path) -> None:
    part = write_vocabulary(tmp_path / "lora.gguf", {"general.type": "adapter"})
    with pytest.raises(UnknownModel, match=r"only a part of a model \(adapter\). Give the model itself"):
        check(part)
    os.truncate(gguf, 1 << 43)  # Sparse: it takes no room on the disk.
    with pytest.raises(UnknownModel, match=r"takes 8796\.1 GB of memory, and this device has .* Choose a smaller one"):
        check(gguf)


def test_what_is_no_model_is_told(tmp_path: Path) -> None:
    for name, content, said in (
        ("page.gguf", b"<html>", "is not a GGUF file, whatever its name says"),
        ("blob", b"GGUF", "ends within its header"),
        ("model.bin", b"\x80\x02}", "is not a model. Give a GGUF file, or a folder with config.json and safetensors"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelError, match=said):
            check(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), UnknownModel, "has no model: .* other formats"),
        (lambda folder: (folder / "config.json").unlink(), UnknownModel, "has no model: it needs config.json"),
        (lambda folder: (folder / "tokenizer.json").unlink(), MissingTokenizer, "has no tokenizer.json"),
        (lambda folder: (folder / "model.safetensors").write_bytes(BROKEN), CorruptWeights, "its header cannot be"),
        (lambda folder: (folder / "model.safetensors").rename(folder / "a.gguf"), UnknownModel, "such as .*a.gguf"),
    ],
)
def test_a_folder_that_lacks_something_is_told(
    change: Callable[[Path], object], kind: type[ModelError], said: str, folder: Path
) -> None:
    change(folder)
    with pytest.raises(kind, match=said):
        check(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b'{"text_config": ["x"]}'),
        ("generation_config.json", b'{"eos_token_id": "x"}'),
        ("generation_config.json", b'{"eos_token_id": [{}]}'),
        ("generation_config.json", b'{"eos_token_id": Infinity}'),
        ("tokenizer_config.json", b'{"eos_token": {"special": true}}'),
        ("tokenizer_config.json", b'{"chat_template": [{"name": "default"}]}'),
        ("model.safetensors", struct.pack("<Q", 8) + b'{"\xff":{}}'),
    ],
)
def test_a_file_that_holds_something_else_is_told(name: str, content: bytes, folder: Path) -> None:
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name}.*Fetch it again"):
        check(folder)
