"""Models on this device: the ones that were added, the one that stands in for servers, and those of other programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.config import ConfigError, Folders
from app.local.find import Found, find
from app.local.registry import LocalModels


def test_the_model_in_use_is_kept_until_it_is_forgotten(folders: Folders) -> None:
    models = LocalModels(folders)
    for name in ("one", "two"):
        models.add(name, Path(f"/models/{name}.gguf"))
    with pytest.raises(ConfigError, match="set local to one, two"):
        models.chosen(None)
    LocalModels(folders).use("two")
    again = LocalModels(folders)
    assert again.used == "two" and again.chosen(None) == ("two", Path("/models/two.gguf"))
    assert again.chosen("one")[0] == "one", "a setting comes first"
    models.add("three", Path("/models/three.gguf"))
    assert LocalModels(folders).used == "two", "another window chose it"
    models.remove("two")
    assert LocalModels(folders).used is None
    with pytest.raises(ConfigError, match="no model 'four'"):
        models.use("four")
    models.use("one")
    models.path.write_text(models.path.read_text().replace('"one" =', '"five" ='))
    assert LocalModels(folders).used is None, "it was removed by hand"


def test_a_found_model_gets_a_name_that_fits_and_is_free(folders: Folders) -> None:
    models = LocalModels(folders)
    models.add("one", Path("/models/one.gguf"))
    assert models.free_name("llama3.2:1b", Path("/models/two.gguf")) == "llama3.2:1b"
    assert models.free_name("hf.co/some body/tiny:Q4", Path("/models/two.gguf")) == "hf.co-some-body-tiny:Q4"
    assert models.free_name("one", Path("/models/two.gguf")) == "one-2"
    assert models.free_name("other", Path("/models/../models/one.gguf")) == "one", "it was added already"
    for hostile in ("\x1b[31m", "../..", "🦀", "x" * 500):
        models.add(models.free_name(hostile, Path("/models/two.gguf")), Path("/models/three.gguf"))


@pytest.mark.parametrize("folder", ["📁", 'a "quoted" \\ one', "\x7f"])
def test_any_path_of_characters_is_kept(folders: Folders, folder: str) -> None:
    LocalModels(folders).add("one", Path(f"/{folder}/m.gguf"))
    assert LocalModels(folders).get("one") == Path(f"/{folder}/m.gguf")


def test_a_path_that_is_no_text_is_refused(folders: Folders) -> None:
    with pytest.raises(ConfigError, match="not UTF-8"):
        LocalModels(folders).add("one", Path("/\udcff/m.gguf"))
    assert list(LocalModels(folders)) == []


# ---- where other programs keep theirs --------------------------------------------------------------------------------


WEIGHTS = b"GGUF" + bytes(60)


def keep(path: Path, content: bytes = WEIGHTS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def manifest(models: Path, name: str, digest: str) -> None:
    layers = [
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:00", "size": 1},
        {"mediaType": "application/vnd.ollama.image.model", "digest": digest, "size": len(WEIGHTS)},
    ]
    keep(models / "manifests" / name, json.dumps({"schemaVersion": 2, "layers": layers}).encode())


def found(home: Path, *folders: Path, **environment: str) -> list[tuple[str, str, Path]]:
    return [(one.name, one.program, one.path) for one in find([*folders], environment, home)]


def test_each_program_keeps_its_models_elsewhere(tmp_path: Path) -> None:
    models = tmp_path / ".ollama/models"
    blob = keep(models / "blobs/sha256-abc")
    manifest(models, "registry.ollama.ai/library/qwen2.5/0.5b", "sha256:abc")
    manifest(models, "hf.co/somebody/tiny/latest", "sha256:gone")
    studio = keep(tmp_path / ".lmstudio/models/somebody/Small-GGUF/Small-Q4_K_M.gguf")
    cached = keep(tmp_path / ".cache/llama.cpp/somebody_small.gguf")
    hub = keep(tmp_path / ".cache/huggingface/hub/models--a--b/snapshots/0a/b-Q8_0.gguf")
    assert found(tmp_path) == [
        ("b-Q8_0", "Hugging Face", hub),
        ("qwen2.5:0.5b", "Ollama", blob),
        ("Small-Q4_K_M", "LM Studio", studio),
        ("somebody_small", "llama.cpp", cached),
    ]


def test_variables_and_pointers_move_the_folders(tmp_path: Path) -> None:
    manifest(tmp_path / "o", "registry.ollama.ai/library/a/latest", "sha256:1")
    keep(tmp_path / "o/blobs/sha256-1")
    keep(tmp_path / ".lmstudio-home-pointer", str(tmp_path / "studio").encode())
    keep(tmp_path / "studio/models/x/b.gguf")
    keep(tmp_path / "h/hub/models--c/snapshots/1/c.gguf")
    keep(tmp_path / "l/d.gguf")
    where = {"OLLAMA_MODELS": str(tmp_path / "o"), "HF_HOME": str(tmp_path / "h"), "LLAMA_CACHE": str(tmp_path / "l")}
    assert [name for name, _, _ in found(tmp_path, **where)] == ["a:latest", "b", "c", "d"]


def test_what_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    keep(tmp_path / ".cache/llama.cpp/a.gguf")
    keep(tmp_path / ".cache/huggingface/hub/models--c/snapshots/1/c.gguf")
    far = str(tmp_path / ("a" * 300))
    for variable, readable in (("OLLAMA_MODELS", ["a", "c"]), ("HF_HUB_CACHE", ["a"])):
        assert [name for name, _, _ in found(tmp_path, **{variable: far})] == readable
    models = tmp_path / ".ollama/models"
    for at, odd in enumerate((b"\xff{", b'{"layers": [{"digest": "\xff"}]}', b'{"x": ' + b"[" * 100_000)):
        keep(models / f"manifests/registry.ollama.ai/library/x/{at}", odd)
    manifest(models, "registry.ollama.ai/library/evil/latest", "sha256:../../../../etc/passwd")
    manifest(models, "registry.ollama.ai/library/good/latest", "sha256:1")
    manifest(models, "nowhere", "sha256:1")
    keep(models / "blobs/sha256-1")
    assert [name for name, _, _ in found(tmp_path)] == ["a", "c", "good:latest"]


def test_what_holds_no_chat_model_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    for name in ("mmproj-model-f16.gguf", "nomic-embed-text.gguf", "notes.txt"):
        keep(folder / name)
    keep(folder / "broken.gguf", b"<html>")
    (folder / "folder.gguf").mkdir()
    keep(folder / "big-00001-of-00002.gguf")
    keep(folder / "big-00002-of-00002.gguf")
    (one,) = find([folder, folder], {}, tmp_path)
    assert one == Found("big", folder / "big-00001-of-00002.gguf", 2 * len(WEIGHTS), str(folder))
