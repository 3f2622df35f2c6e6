"""`outrider local`: models on this device are found, added, tried and forgotten; their files stay where they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.config import BUNDLED_TARGET
from tests.support.commands import Outrider


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "models" / "small-Q4.gguf"
    path.parent.mkdir()
    path.write_bytes(b"GGUF" + bytes(996))
    return path


def test_a_model_is_found_added_listed_and_forgotten(outrider: Outrider, file: Path) -> None:
    pytest.importorskip("llama_cpp")
    found = outrider("local", "find", str(file.parent), "--json")
    assert json.loads(found.out) == {"name": "small-Q4", "size": 1000, "program": str(file.parent), "file": str(file)}
    added = outrider("local", "add", str(file), "--name", "mine")
    assert added.code == 0 and 'offline = "local"' in added.err
    listed = outrider("local", "list", "--json")
    assert json.loads(listed.out) == {"name": "mine", "size": 1000, "file": str(file)}
    file.rename(file.with_name("gone"))
    assert outrider("local").out == f"mine  missing  {file}\n"
    assert outrider("local", "rm", "mine").code == 0
    assert outrider("local", "list").out == "" and file.with_name("gone").exists()


def test_a_model_is_tried(outrider: Outrider) -> None:
    assert outrider("local", "add", str(BUNDLED_TARGET), "--name", "guide").code == 0
    tried = outrider("local", "try", "guide")
    assert tried.code == 0, tried.err
    assert "loaded in" in tried.out and "tokens/s" in tried.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["add", "nowhere.gguf"], 2, "no file nowhere.gguf"),
        (["rm", "other"], 2, "no model 'other'"),
        (["try", "other"], 2, "outrider local find"),
        (["find"], 3, "outrider local find FOLDER"),
    ],
)
def test_what_cannot_be_done_is_said(outrider: Outrider, words: list[str], code: int, said: str) -> None:
    result = outrider("local", *words)
    assert result.code == code and said in result.err and not result.out


def test_a_damaged_file_of_models_is_never_overwritten(outrider: Outrider, tmp_path: Path, file: Path) -> None:
    pytest.importorskip("llama_cpp")
    assert outrider("local", "add", str(file)).code == 0
    (kept,) = tmp_path.rglob("local.toml")
    kept.write_text("[models")
    result = outrider("local", "add", str(file), "--name", "second")
    assert result.code == 2 and "local.toml" in result.err and kept.read_text() == "[models"


def test_a_setting_that_names_no_model_is_an_error(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MODE", "offline")  # No server is started for the question.
    monkeypatch.setenv("OUTRIDER_OFFLINE", "local")
    none = outrider("ask", "hello")
    assert none.code == 2 and "outrider local find" in none.err
    for name in ("one", "two"):
        assert outrider("local", "add", str(BUNDLED_TARGET), "--name", name).code == 0
    several = outrider("ask", "hello")
    assert several.code == 2 and "set local to one, two" in several.err
    monkeypatch.setenv("OUTRIDER_LOCAL", "nobody")
    result = outrider("ask", "hello")
    assert result.code == 2 and "no model 'nobody' on this device" in result.err
