"""Settings from file and environment, and the errors of wrong ones."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest
from platformdirs import windows
from platformdirs.macos import MacOS
from platformdirs.unix import Unix
from platformdirs.windows import Windows

from app.config import ConfigError, Folders, Settings, load_settings


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders.locate({"OUTRIDER_HOME": str(tmp_path)})


def write(folders: Folders, text: str) -> None:
    folders.config.mkdir(parents=True)
    folders.settings.write_text(text)


def test_home_holds_everything(tmp_path: Path) -> None:
    folders = Folders.locate({"OUTRIDER_HOME": str(tmp_path)})
    assert (folders.config, folders.data, folders.logs) == (tmp_path / "config", tmp_path / "data", tmp_path / "logs")
    assert folders.database.parent == folders.data and folders.log.parent == folders.logs


def test_xdg_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "PlatformDirs", Unix)
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    folders = Folders.locate({})
    assert folders.settings == tmp_path / "config/outrider/config.toml"
    assert folders.database == tmp_path / "data/outrider/outrider.db"
    assert folders.log == tmp_path / "state/outrider/log/outrider.log"


@pytest.mark.parametrize(
    ("platform", "config", "data", "logs"),
    [
        (Unix, ".config/outrider", ".local/share/outrider", ".local/state/outrider/log"),
        (MacOS, *["Library/Application Support/outrider"] * 2, "Library/Logs/outrider"),
        (Windows, *["AppData/Local/outrider"] * 2, "AppData/Local/outrider/Logs"),
    ],
)
def test_folders_of_each_platform(
    platform: type, config: str, data: str, logs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings as docs/settings.md writes them."""
    monkeypatch.setattr(platformdirs, "PlatformDirs", platform)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(windows, "get_win_folder", windows.get_win_folder_from_env_vars)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "AppData/Local"))
    found = Folders.locate({})
    assert [Path(str(path).replace("\\", "/")) for path in (found.config, found.data, found.logs)] == [
        tmp_path / config, tmp_path / data, tmp_path / logs,
    ]  # fmt: skip


def test_defaults_without_a_file(folders: Folders) -> None:
    assert load_settings(folders, {}) == Settings()


def test_file_then_environment(folders: Folders) -> None:
    write(folders, 'remote = "http://10.0.0.2:8000"\ntemperature = 0.5\nmax_tokens = 64\n')
    settings = load_settings(
        folders, {"OUTRIDER_TEMPERATURE": "0.9", "OUTRIDER_MODE": "offline", "OUTRIDER_TOKEN": "s3"}
    )
    assert (settings.remote, settings.temperature, settings.max_tokens) == ("http://10.0.0.2:8000", 0.9, 64)
    assert (settings.mode, settings.token) == ("offline", "s3")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("temperature = ", "not valid TOML"),
        ("tempreature = 1.0", "no setting 'tempreature'"),
        ("temperature = -1", "temperature"),
        ("temperature = 2.1", "temperature"),
        ("temperature = inf", "temperature"),
        ('temperature = "warm"', "temperature"),
        ('mode = "cloud"', "mode is auto or edge or hosted or offline, not 'cloud'"),
        ('pace = "quick"', "pace is measured or fixed, not 'quick'"),
        ('tree = "random"', "tree is deterministic or sampled, not 'random'"),
        ('drafter_runtime = "tpu"', "drafter_runtime is onnx or torch, not 'tpu'"),
        ("max_tokens = 0", "max_tokens"),
        ('second_stage = "perhaps"', "second_stage: expected true or false"),
        ('remote = "ftp://example.org"', "http://"),
        ("[remote]\nurl = 1", "remote"),
        ("keys = 3", "keys: expected a table"),
    ],
)
def test_a_bad_file_is_explained(folders: Folders, text: str, says: str) -> None:
    write(folders, text)
    with pytest.raises(ConfigError) as caught:
        load_settings(folders, {})
    assert says in str(caught.value)
    assert str(folders.settings) in str(caught.value)


def test_a_bad_variable_is_named(folders: Folders) -> None:
    with pytest.raises(ConfigError, match="OUTRIDER_MAX_TOKENS.*max_tokens"):
        load_settings(folders, {"OUTRIDER_MAX_TOKENS": "many"})


def test_bytes_that_are_no_text(folders: Folders) -> None:
    folders.config.mkdir(parents=True)
    folders.settings.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_settings(folders, {})


@pytest.mark.parametrize("name", [name.upper() for name in Settings.__struct_fields__])
def test_an_empty_variable_is_one_that_is_not_set(folders: Folders, name: str) -> None:
    write(folders, 'remote = "http://file"\nseed = 3\n')
    assert load_settings(folders, {f"OUTRIDER_{name}": ""}) == load_settings(folders, {})


def test_a_wrong_seed_is_told_in_words(folders: Folders) -> None:
    with pytest.raises(ConfigError, match="seed: expected a whole number, got 'text'|seed: expected a whole number$"):
        load_settings(folders, {"OUTRIDER_SEED": "x"})
