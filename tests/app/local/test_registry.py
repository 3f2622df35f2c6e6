"""The models on this device that were added, and the one that stands in for servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config import ConfigError, Folders, Settings, Unanswered
from app.local.registry import LocalModels, why_no_effect


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


def test_settings_come_before_a_choice() -> None:
    for offline, local, name, field in (
        ("local", None, "one", ""),
        ("local", "one", "one", ""),
        (None, "two", "one", "local"),
        ("queue", None, "one", "offline"),
        (None, None, None, ""),
        ("queue", None, None, ""),
        ("local", None, None, "offline"),
    ):
        why = why_no_effect(Settings(offline=offline, local=local), name)
        assert why == "" if not field else f"OUTRIDER_{field.upper()} or config.toml says {field} = " in why


@pytest.mark.parametrize(
    ("mode", "offline", "answers"), [("auto", "queue", False), ("hosted", "queue", None), ("hosted", "local", True)]
)
def test_nothing_on_this_device_drafts_where_the_server_writes(
    tmp_path: Path, mode: str, offline: Unanswered, answers: bool | None
) -> None:
    models = LocalModels(Folders.locate({"OUTRIDER_HOME": str(tmp_path)}))
    models.add("one", tmp_path)
    duty = models.duty(Settings().replaced({"mode": mode, "offline": offline, "local": "one"}, "a test"))
    assert (None if duty is None else duty.answers) is answers


@pytest.mark.parametrize("folder", ["📁", 'a "quoted" \\ one', "\x7f"])
def test_any_path_of_characters_is_kept(folders: Folders, folder: str) -> None:
    LocalModels(folders).add("one", Path(f"/{folder}/m.gguf"))
    assert LocalModels(folders).get("one") == Path(f"/{folder}/m.gguf")


def test_a_path_that_is_no_text_is_refused(folders: Folders) -> None:
    with pytest.raises(ConfigError, match="not UTF-8"):
        LocalModels(folders).add("one", Path("/\udcff/m.gguf"))
    assert list(LocalModels(folders)) == []
