"""A GGUF file as a target: its text side, its weights in PyTorch, and what is said where something is missing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, normalizers
from transformers import AutoTokenizer

from models.engines.choice import EngineOptions, licence, llama_engine, open_model
from models.engines.target import load_target
from models.errors import CorruptWeights, MissingPackage, UnknownModel
from models.gguf.text import first_difference, text_source
from models.text.text_side import read_text_side
from tests.remote.verifier.tiny import save_speaking
from tests.support.gguf_files import LlamaVocabulary
from tests.support.gguf_writer import write_gguf
from tests.support.tiny_text import END, SPECIAL

ASSISTANT = SPECIAL.index("<|assistant|>")
TEXT = "list the files of a folder, and then those of 12 others; it's a naïve test"


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with a byte-level BPE tokenizer, as transformers saves it."""
    folder = save_speaking("qwen3", tmp_path_factory.mktemp("models") / "tiny", [TEXT])
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    return folder


@pytest.fixture(scope="module")
def alone(model_folder: Path) -> Path:
    """The model as a GGUF file, with nothing beside it."""
    path = model_folder.parent / "files" / "tiny-f32.gguf"
    path.parent.mkdir(exist_ok=True)
    write_gguf(model_folder, path)
    return path


def test_the_text_side_is_unpacked_from_the_file(model_folder: Path, alone: Path) -> None:
    wanted = read_text_side(model_folder)
    with text_source(str(alone)) as folder:
        found = read_text_side(Path(folder))
        tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
        theirs = AutoTokenizer.from_pretrained(folder)  # A drafter is made with it.
    assert not Path(folder).exists()
    asked = theirs.apply_chat_template([{"role": "user", "content": TEXT}], add_generation_prompt=True)["input_ids"]
    assert found.stop_tokens == wanted.stop_tokens == (END,)
    assert found.chat_template == wanted.chat_template and found.positions == wanted.positions
    reference = Tokenizer.from_file(str(model_folder / "tokenizer.json"))
    assert tokenizer.encode(TEXT).ids == reference.encode(TEXT).ids
    assert found.text is not None and wanted.text is not None
    assert found.text.render([("user", TEXT)]) == wanted.text.render([("user", TEXT)]) == asked
    assert theirs(TEXT)["input_ids"] == found.text.encode(TEXT)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_pytorch_reads_the_same_weights(family: str, tmp_path: Path) -> None:
    save_speaking(family, tmp_path / "tiny", [TEXT])
    (tmp_path / "files").mkdir()
    write_gguf(tmp_path / "tiny", file := tmp_path / "files" / "tiny-f32.gguf")
    target, reference = (load_target(str(each), device="cpu") for each in (file, tmp_path / "tiny"))
    with text_source(str(file)) as folder:
        assert target.tokenizer == read_text_side(Path(folder)).tokenizer, "one text side, whatever runs it"
    assert target.name == "tiny-f32" and target.stop_tokens == (END,)
    tokens = torch.tensor([[5, 9, 200, 30, 7, 7, 110]])
    with torch.no_grad():
        found, wanted = (each.model(tokens).logits for each in (target, reference))
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)


def test_its_licence_comes_from_the_file_or_the_card_beside_it(alone: Path, tmp_path: Path) -> None:
    assert licence(str(alone)) == "mit"
    shutil.copy(alone, tmp_path)
    (tmp_path / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    assert licence(str(tmp_path / alone.name)) == "apache-2.0"


def test_llama_cpp_is_named_and_no_other_package_is_needed(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(MissingPackage, match=r"\.\[gguf\].*--engine torch"):
        llama_engine(str(alone))
    for package in ("torch", "transformers", "gguf"):
        monkeypatch.setitem(sys.modules, package, None)
    with text_source(str(alone)) as folder:
        found = read_text_side(Path(folder))
    assert found.text is not None and found.text.render([("user", "a")])[-1] == ASSISTANT
    assert licence(str(alone)) == "mit"


def test_transformers_translates_what_is_not_known_here_and_without_it_there_is_advice(
    alone: Path, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose tokenizer splits text by a rule that is not known here. transformers does not ask for the rule."""
    data, strange = alone.read_bytes(), tmp_path / "strange.gguf"
    assert data.count(b"gpt-2") == 1
    strange.write_bytes(data.replace(b"gpt-2", b"gpt-0"))
    with text_source(str(strange)) as folder:
        found = read_text_side(Path(folder))
    wanted = read_text_side(model_folder)
    assert found.text is not None and wanted.text is not None
    assert found.text.render([("user", TEXT)]) == wanted.text.render([("user", TEXT)])
    assert found.stop_tokens == (END,)
    monkeypatch.setitem(sys.modules, "gguf", None)
    said = r"strange\.gguf splits text by the rule gpt-0, .*gguf is missing: .*tokenizer.json and config.json next"
    with pytest.raises(MissingPackage, match=said), text_source(str(strange)):
        pass


# ---- keeping it -----------------------------------------------------------------------------------------------------


@pytest.fixture
def file(alone: Path, tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return Path(shutil.copy(alone, tmp_path / "files" / "tiny.gguf"))


def text_of(file: Path, kept: Path) -> tuple[Path, bytes]:
    """The folder of the text side of a file, and its tokenizer."""
    with text_source(str(file), kept) as folder:
        return Path(folder), (Path(folder) / "tokenizer.json").read_bytes()


def test_what_was_made_is_found_again_and_it_is_served_where_nothing_can_be_kept(file: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "texts"
    first, tokenizer = text_of(file, kept)
    [entry] = kept.iterdir()
    assert entry.name.startswith("tiny-") and first != entry, "it is made elsewhere, and appears when it is whole"
    about, whole = file.stat(), file.read_bytes()
    file.write_bytes(b"\0" * len(whole))  # Now nothing could be made of it.
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert text_of(file, kept) == (entry, tokenizer)
    os.utime(file, ns=(1, 1))
    with pytest.raises(CorruptWeights):
        text_of(file, kept)
    file.write_bytes(whole)
    text_of(file, kept)
    [changed] = kept.iterdir()
    assert text_of(file, kept) == (changed, tokenizer), "it takes the place of the older"
    (tmp_path / "blocked").write_text("a file, and no folder")
    assert text_of(file, tmp_path / "blocked")[1] and (tmp_path / "blocked").is_file()


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "config.json", "made.json"])
@pytest.mark.parametrize("gone", [True, False])
def test_what_is_damaged_is_made_again(file: Path, tmp_path: Path, name: str, gone: bool) -> None:
    kept = tmp_path / "kept"
    _, tokenizer = text_of(file, kept)
    [entry] = kept.iterdir()
    (entry / name).unlink() if gone else (entry / name).write_bytes((entry / name).read_bytes()[:-9])
    assert text_of(file, kept)[1] == tokenizer and text_of(file, kept) == (entry, tokenizer)


def test_what_is_no_gguf_file_is_told(tmp_path: Path, model_folder: Path) -> None:
    with pytest.raises(UnknownModel, match="There is no file"), text_source(str(tmp_path / "none.gguf")):
        pass
    (tmp_path / "a.gguf").write_bytes(b"not one")
    with pytest.raises(CorruptWeights, match=r"a.gguf is not a GGUF file"), text_source(str(tmp_path / "a.gguf")):
        pass
    with pytest.raises(UnknownModel, match="name ends in .gguf"):
        open_model(str(model_folder), EngineOptions("llama"))
    with pytest.raises(UnknownModel, match="--quantize is for PyTorch"):
        (tmp_path / "b.gguf").write_bytes(b"")
        llama_engine(str(tmp_path / "b.gguf"), None, EngineOptions(quantize="int8"))


# ---- compared with llama.cpp ----------------------------------------------------------------------------------------


def test_the_tokenizer_reads_text_as_llama_cpp_does(alone: Path, llama_cpp: Callable[[Path], LlamaVocabulary]) -> None:
    with text_source(str(alone)) as folder:
        text = read_text_side(Path(folder)).text
    assert text is not None and first_difference(text, llama_cpp(alone)) is None
    difference = first_difference(text, lambda data: text.encode(data.decode().lower()))
    assert difference is not None and difference.startswith("English, such as ")
    assert first_difference(text, lambda data: text.encode(data.decode())) == "what its chat template writes"


def test_another_tokenizer_beside_it_is_taken_with_a_warning(model_folder: Path, alone: Path, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install '.[gguf]'")
    shutil.copy(alone, tmp_path)
    for name in ("config.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(model_folder / name, tmp_path)
    tokenizer = Tokenizer.from_file(str(model_folder / "tokenizer.json"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    said = list[str]()
    found = open_model(str(tmp_path / alone.name), EngineOptions(threads=1), say=said.append)
    assert found.side.tokenizer == read_text_side(tmp_path).tokenizer
    assert any(f"the tokenizer.json next to {alone.name}" in line for line in said)
