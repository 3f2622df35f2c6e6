"""Settings from file and environment, and the errors of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import platformdirs
import pytest
from platformdirs.macos import MacOS
from platformdirs.unix import Unix

from app.config import ConfigError, Folders, Settings, load_settings


def write(folders: Folders, text: str) -> None:
    folders.config.mkdir(parents=True, exist_ok=True)
    folders.settings.write_text(text)


@pytest.mark.parametrize(
    ("platform", "config", "data", "logs"),
    [
        (Unix, ".config/outrider", ".local/share/outrider", ".local/state/outrider/log"),
        (MacOS, *["Library/Application Support/outrider"] * 2, "Library/Logs/outrider"),
    ],
)
def test_folders_of_each_platform(
    platform: type, config: str, data: str, logs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings as docs/settings.md writes them."""
    monkeypatch.setattr(platformdirs, "PlatformDirs", platform)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    found = Folders.locate({})
    assert [found.config, found.data, found.logs] == [tmp_path / config, tmp_path / data, tmp_path / logs]


def test_file_then_environment(folders: Folders) -> None:
    write(folders, 'remote = "http://10.0.0.2:8000"\ntemperature = 0.5\nmax_tokens = 64\n')
    settings = load_settings(
        folders, {"OUTRIDER_TEMPERATURE": "0.9", "OUTRIDER_MODE": "offline", "OUTRIDER_TOKEN": "s3"}
    )
    assert (settings.remote, settings.temperature, settings.max_tokens) == ("http://10.0.0.2:8000", 0.9, 64)
    assert (settings.mode, settings.token) == ("offline", "s3")


def test_a_bad_file_is_explained(folders: Folders) -> None:
    for text, says in (
        ("temperature = ", "not valid TOML"),
        ("tempreature = 1.0", "no setting 'tempreature'; did you mean temperature?"),
        ("remote = 3", "remote: expected text in quotes, got a whole number"),
        ("temperature = inf", "temperature"),
        ('temperature = "hot"', "temperature: expected a number, got text"),
        ('mode = "cloud"', "mode is auto or edge or hosted or offline, not 'cloud'"),
        ('second_stage = "perhaps"', "second_stage: expected true or false"),
        ('remote = "ftp://example.org"', "http://"),
        ("keys = 3", "keys: expected a table"),
        ('[keys.chat]\nnew = "f11"\npanel = 3', "keys.chat.panel: write a key in quotes"),
        ('[keys.chat.panel]\nto = "f11"', "keys.chat.panel: write a key in quotes"),
    ):
        write(folders, text)
        with pytest.raises(ConfigError) as caught:
            load_settings(folders, {})
        assert says in str(caught.value) and str(folders.settings) in str(caught.value)


def test_a_bad_variable_such_as_the_seed_is_named(folders: Folders) -> None:
    for name, value in (("MAX_TOKENS", "many"), ("SEED", "x")):
        with pytest.raises(ConfigError, match=f"OUTRIDER_{name}.*{name.lower()}: expected a whole number"):
            load_settings(folders, {f"OUTRIDER_{name}": value})


def test_an_empty_variable_is_one_that_is_not_set(folders: Folders) -> None:
    assert load_settings(folders, {}) == Settings()
    write(folders, 'remote = "http://file"\nseed = 3\n')
    for name in Settings.__struct_fields__:
        assert load_settings(folders, {f"OUTRIDER_{name.upper()}": ""}) == load_settings(folders, {}), name


@pytest.mark.parametrize("before", ["bearer\t", "Authorization: Bearer ", " \ufeffBearer  "])
def test_a_token_as_people_copy_it(folders: Folders, before: str) -> None:
    given = f"{before}s3cret\r\n"
    assert load_settings(folders, {"OUTRIDER_TOKEN": given}).token == "s3cret"
    assert load_settings(folders, {}).replaced({"token": given}, "the command line").token == "s3cret"
    write(folders, f"remote = 'http://far'\ntoken = {json.dumps(given)}\n")
    assert load_settings(folders, {}).token == "s3cret"


def test_a_token_that_no_header_can_carry_is_refused_where_it_is_given(folders: Folders) -> None:
    for token in ("s3cret\udce9", "s3cr\u00e9t", "two s3cret", "s3cret\nBearer s3cret", "s3\0cret", "Bearer"):
        with pytest.raises(ConfigError, match="OUTRIDER_TOKEN: the token ") as refused:
            load_settings(folders, {"OUTRIDER_TOKEN": token})
        assert "s3" not in str(refused.value)
    assert load_settings(folders, {"OUTRIDER_TOKEN": " "}).token is None, "an empty one is none"


def test_a_file_in_another_encoding_is_refused_in_a_sentence(folders: Folders) -> None:
    folders.config.mkdir()
    folders.settings.write_bytes("seed = 3\r\n".encode("utf-8-sig"))
    assert load_settings(folders, {}).seed == 3
    for encoding in ("utf-16", "utf-16-le", "utf-32", "latin-1"):
        folders.settings.write_bytes('seed = 3\nsystem = "na\u00efve"\n'.encode(encoding))
        with pytest.raises(ConfigError, match=r"config\.toml is not text in UTF-8.*; save it as UTF-8\.$"):
            load_settings(folders, {})
