"""Models that other programs keep on this device, found where those programs have them."""

from __future__ import annotations

import json
from pathlib import Path

from app.local.find import Found, find

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
