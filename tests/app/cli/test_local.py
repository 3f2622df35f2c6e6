"""`outrider local`: models on this device are found, added, tried and forgotten; their files stay where they are."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.commands import Outrider
from tests.support.gguf_files import byte_level, entries_of, write_vocabulary


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "models" / "small-Q4.gguf"
    path.parent.mkdir()
    template = "{% for one in messages %}{{ one.content }}{% endfor %}"
    return write_vocabulary(path, {**entries_of(byte_level()), "tokenizer.chat_template": template})


@pytest.fixture
def guide(tiny_pair: Path) -> Path:
    """A model that starts quickly."""
    return tiny_pair / "target"


def test_a_model_is_found_added_listed_and_forgotten(outrider: Outrider, file: Path) -> None:
    pytest.importorskip("llama_cpp")
    found, size = outrider("local", "find", str(file.parent), "--json"), file.stat().st_size
    assert found.json == {"name": "small-Q4", "size": size, "program": str(file.parent), "file": str(file)}
    assert outrider("local", "add", str(file), "--name", "mine").says(0, "outrider local use mine")
    listed = outrider("local", "list", "--json")
    assert listed.json == {"name": "mine", "size": size, "file": str(file), "used": False}
    file.rename(file.with_name("gone"))
    assert outrider("local").out == f"   mine  missing  {file}\n"
    assert outrider("local", "rm", "mine").says(0, f"Its file was missing: {file}")
    file.with_name("gone").rename(file)
    assert outrider("local", "add", str(file), "--name", "mine").code == 0
    assert outrider("local", "rm", "mine").says(0, f"Its file stays: {file}")
    assert outrider("local", "list").out == "" and file.exists()


def test_a_file_that_cannot_be_looked_at_is_said_to_be_so(outrider: Outrider, file: Path, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    assert outrider("local", "add", str(file), "--name", "mine").code == 0
    far = tmp_path / ("a" * 300)  # As on a disk that is away, to look at it is an error.
    store = next(tmp_path.rglob("local.toml"))
    store.write_text(store.read_text().replace(str(file), str(far / "x.gguf")))
    why = "not readable (File name too long)"
    assert outrider("local").out == f"   mine  {why}  {far / 'x.gguf'}\n"
    assert outrider("local", "list", "--json").json["size"] is None
    for command in (["find", str(far)], ["add", str(far)]):
        assert outrider("local", *command).says(2, f"{far} is {why}."), command
    assert outrider("local", "try", "mine").says(1, f"is {why}.")
    assert outrider("doctor", "--remote", "http://127.0.0.1:9").out.count(f"x.gguf is {why}: put it right") == 1
    assert outrider("local", "rm", "mine").says(0, f"Its file was {why}")


def test_a_model_that_cannot_answer_is_not_added(outrider: Outrider, file: Path, tmp_path: Path) -> None:
    write_vocabulary(file, entries_of(byte_level()))
    (tmp_path / "empty").mkdir()
    for path, said in ((file, "small-Q4.gguf has no chat template"), (tmp_path / "empty", "empty has no model")):
        assert outrider("local", "add", str(path)).says(1, said)
    assert outrider("local", "list").out == ""


def test_a_model_that_takes_the_name_of_another_says_so(outrider: Outrider, tiny_pair: Path, tmp_path: Path) -> None:
    one, other = (shutil.copytree(tiny_pair / "target", tmp_path / name) for name in ("one", "other"))
    for path, said in ((one, False), (one, False), (other, True)):
        added = outrider("local", "add", str(path), "--name", "mine")
        assert added.code == 0 and (f"mine was {one} until now" in added.err) == said
    assert str(other) in outrider("local", "list").out


def test_a_model_is_tried_unless_it_was_damaged_since(outrider: Outrider, guide: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(guide, tmp_path / "tiny")
    assert outrider("local", "add", str(folder)).code == 0
    tried = outrider("local", "try", "tiny")
    assert tried.code == 0 and "loaded in" in tried.out and "tokens/s" in tried.out, tried.err
    assert sys.platform != "linux" or " MB of memory" in tried.out
    os.truncate(folder / "model.safetensors", 1000)
    tried = outrider("local", "try", "tiny")
    assert tried.says(1, "model.safetensors is ") and "Fetch it again" in tried.err
    shutil.rmtree(folder)
    tried = outrider("local", "try", "tiny")
    assert tried.says(1, "tiny is missing") and "outrider local rm tiny" in tried.err


def test_what_cannot_be_done_is_said(outrider: Outrider) -> None:
    for words, code, said in (
        (["add", "nowhere.gguf"], 2, "nowhere.gguf is missing"),
        (["rm", "other"], 2, "no model 'other'"),
        (["try", "other"], 2, "outrider local find"),
        (["find"], 3, "outrider local find FOLDER"),
        (["find", "nowhere"], 2, "nowhere is missing"),
    ):
        result = outrider("local", *words)
        assert result.says(code, said) and not result.out


def test_a_model_answers_by_option_or_choice(outrider: Outrider, guide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "8")
    monkeypatch.setenv("OUTRIDER_REMOTE", "http://127.0.0.1:9/v1")
    assert outrider("local", "add", str(guide), "--name", "guide").code == 0
    assert outrider("ask", "hello").code == 3
    answered = outrider("ask", "--local", "guide", "--json", "hello")
    assert answered.says(0, "guide, on this device, wrote all of it; it was not checked")
    assert [one["writer"] for one in answered.json["stretches"]] == ["guide"]
    for command in (["ask", "hello"], ["chat"]):
        assert outrider(*command, "--local", "nobody").says(2, "no model 'nobody' on this device; yours: guide")
    assert outrider("local", "use", "guide").code == 0
    assert outrider("local").out.startswith("*  guide") and outrider("ask", "hello").code == 0
    monkeypatch.setenv("OUTRIDER_OFFLINE", "fail")
    told = outrider("local", "use", "guide")
    assert told.says(0, "no effect") and "OUTRIDER_OFFLINE" in told.err
    assert outrider("ask", "hello").code == 3, "a setting comes first"
    monkeypatch.delenv("OUTRIDER_OFFLINE")
    assert outrider("local", "use", "--none").code == 0 and outrider("ask", "hello").code == 3
    assert outrider("local", "use").code == 2
