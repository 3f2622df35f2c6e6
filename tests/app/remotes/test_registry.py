"""Remotes on the disk, the places of their tokens, and that a token goes only to the server that it was given for."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from app.config import ConfigError, Folders, Settings
from app.remotes import tokens as secrets
from app.remotes.registry import Remote, Remotes, checked
from tests.remote.toy_verifier import http, listening, request_of
from tests.support.chat_server import in_thread
from tests.support.commands import CommandResult, Outrider
from tests.support.keyring import MemoryKeyring, NoKeyring, PlainKeyring, use_keyring

TOKEN = "sk-do-not-show-me-0123456789"
OFFICE = Remote(url="https://office.example:8443")


def files(folders: Folders) -> str:
    """The text of all files in the config folder."""
    return "".join(path.read_text() for path in folders.config.iterdir())


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


# ---- the file --------------------------------------------------------------------------------------------------------


def test_no_token_stays_of_a_remote_that_could_not_be_kept(folders: Folders, ring: MemoryKeyring) -> None:
    remotes = Remotes(folders)
    remotes.put("home", Remote(url="https://home.example"), "another-token")
    remotes.path.write_text("broken = ")
    with pytest.raises(ConfigError, match="not valid TOML"):
        remotes.put("office", OFFICE, TOKEN)
    assert list(ring.kept.values()) == ["another-token"]
    with pytest.raises(ConfigError, match="not valid TOML"):
        remotes.put("home", Remote(url="https://home.example"), "a-new-token")
    assert list(ring.kept.values()) == ["a-new-token"]  # It was there before, and still is.


def test_what_was_put_is_there_again(folders: Folders, no_ring: None, tmp_path: Path) -> None:
    files = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    full = Remote(
        url="http://10.0.0.2:8000/team", kind="openai", model='a "model" \\ naïve 🦀', proxy="socks5://127.0.0.1:1080",
        connect_timeout=2.5, read_timeout=60.0, parallel=2, token_variable="TEAM_TOKEN", **files,
    )  # fmt: skip
    remotes = Remotes(folders)
    assert len(remotes) == 0 and not folders.config.exists()
    remotes.put("office", OFFICE)
    remotes.put("team.2", full)
    remotes.use("team.2")
    again = Remotes(folders)
    assert dict(again) == {"office": OFFICE, "team.2": full} and again.used == "team.2"
    assert mode(remotes.path) == 0o600 and [path.name for path in folders.config.iterdir()] == ["remotes.toml"]
    again.use(None)
    again.remove("office")
    assert [name for name, _ in Remotes(folders)] == ["team.2"] and Remotes(folders).used is None
    again.use("team.2")
    again.remove("team.2")
    assert Remotes(folders).used is None


def test_a_broken_file_is_explained_and_left_alone(folders: Folders) -> None:
    folders.config.mkdir(parents=True)
    path = folders.config / "remotes.toml"
    for text, says in (
        ("use = ", "not valid TOML"),
        ("[remotes.office]\n", "lacks its 'url'"),
        ('[remotes.office]\nurl = "http://a"\ncolour = 1\n', "no 'colour'; a server has url, kind"),
        ('[remotes.office]\nurl = "http://a"\nproxy = "http://me:secret@proxy"\n', "without credentials"),
        ('[remotes."of fice"]\nurl = "http://a"\n', "a name consists of letters"),
        ('use = "home"\n[remotes.office]\nurl = "http://a"\n', "no such server"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            Remotes(folders).put("other", OFFICE)
        assert says in str(caught.value) and str(path) in str(caught.value)
        assert path.read_text() == text


def test_a_link_to_the_file_stays_one(folders: Folders, no_ring: None, tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles" / "remotes.toml"
    elsewhere.parent.mkdir()
    elsewhere.write_text("")
    folders.config.mkdir(parents=True)
    (folders.config / "remotes.toml").symlink_to(elsewhere)
    Remotes(folders).put("office", OFFICE)
    assert (folders.config / "remotes.toml").is_symlink() and "office" in elsewhere.read_text()


def test_two_windows_change_it_at_once(folders: Folders, no_ring: None) -> None:
    first, second = Remotes(folders), Remotes(folders)
    first.put("office", OFFICE, TOKEN)
    second.put("home", Remote(url="https://home.example"), "another-token")
    second.use("home")
    first.put("office", msgspec.structs.replace(OFFICE, model="new", token="file"))
    found = Remotes(folders)
    assert [name for name, _ in found] == ["office", "home"] and found.used == "home"
    assert (found.get("office").model, found.token("office"), found.token("home")) == ("new", TOKEN, "another-token")
    second.remove("office")
    with pytest.raises(ConfigError, match="no server 'office'"):
        first.use("office")
    assert [name for name, _ in Remotes(folders)] == ["home"]


@pytest.mark.skipif(sys.platform == "win32", reason="folders are not locked")
def test_no_change_of_several_at_once_is_lost(folders: Folders, no_ring: None) -> None:
    def add(number: int) -> None:
        Remotes(folders).put(f"r{number}", Remote(url=f"https://r{number}.example"), f"token-{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    found = Remotes(folders)
    assert {name: found.token(name) for name, _ in found} == {f"r{number}": f"token-{number}" for number in range(24)}
    assert {path.name for path in folders.config.iterdir()} == {"remotes.toml", "tokens.json"}


def test_paths_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    remote = checked(Remote(url="https://office", ca="ca.pem", cert="~/cert.pem"))
    assert (remote.ca, remote.cert) == (str(tmp_path / "ca.pem"), "/home/me/cert.pem")


# ---- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ring", ["none", "plain", "locked"])
def test_else_a_file_that_nobody_else_can_read(folders: Folders, ring: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"none": NoKeyring(), "plain": PlainKeyring(), "locked": MemoryKeyring()}[ring]
    if ring == "locked":
        found.locked = True  # type: ignore[attr-defined]
    use_keyring(monkeypatch, found)
    remotes = Remotes(folders)
    kept = remotes.put("office", OFFICE, TOKEN)
    file = folders.config / "tokens.json"
    assert (kept.token, remotes.token_place(kept)) == ("file", str(file)) and mode(file) == 0o600
    assert Remotes(folders).token("office") == TOKEN and TOKEN not in remotes.path.read_text()
    file.chmod(0o644)
    assert "others can read it" in remotes.token_place(kept)
    remotes.put("home", OFFICE, "another-token")
    assert mode(file) == 0o600
    remotes.remove("office")
    assert TOKEN not in files(folders) and Remotes(folders).token("home") == "another-token"


def test_a_keyring_that_nobody_unlocks(folders: Folders, ring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets._ask, "__defaults__", (0.05,))
    ring.silent.clear()
    assert Remotes(folders).put("office", OFFICE, TOKEN).token == "file"
    ring.silent.set()
    for thread in threading.enumerate():
        if thread.name == "keyring":
            thread.join(30)
    assert ring.kept == {}, "unlocked too late, it keeps nothing"


@pytest.mark.parametrize("keyring", [True, False])
def test_a_token_never_goes_to_another_server(folders: Folders, keyring: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    use_keyring(monkeypatch, MemoryKeyring() if keyring else NoKeyring())
    remotes = Remotes(folders)
    kept = remotes.put("office", OFFICE, TOKEN)
    moved = msgspec.structs.replace(kept, url="https://office.example:8443/v1")
    assert remotes.put("office", moved).token == kept.token and remotes.token("office") == TOKEN
    gone = remotes.put("office", msgspec.structs.replace(kept, url="https://elsewhere.example"))
    assert gone.token == "environment" and remotes.token("office", {}) is None
    assert TOKEN not in files(folders)
    remotes.put("office", OFFICE, TOKEN)
    remotes.path.write_text(remotes.path.read_text().replace("office.example", "elsewhere.example"))
    with pytest.raises(ConfigError, match="no token of office for https://elsewhere.example:8443"):
        Remotes(folders).token("office")


def test_a_new_token_takes_the_place_of_the_old_one(folders: Folders, ring: MemoryKeyring) -> None:
    remotes = Remotes(folders)
    ring.locked = True
    assert remotes.put("office", OFFICE, TOKEN).token == "file"
    ring.locked = False
    assert remotes.put("office", OFFICE, "the-new-one").token == "keyring"
    with pytest.raises(ConfigError, match="the token .*; nothing was changed"):
        remotes.put("office", OFFICE, "two words")
    assert remotes.token("office") == "the-new-one" and json.loads((folders.config / "tokens.json").read_text()) == {}
    remotes.put("office", OFFICE)
    assert ring.kept == {}  # A remote without a place for its token has none.


def test_what_a_keyring_keeps_to_itself_is_told(folders: Folders, ring: MemoryKeyring) -> None:
    remotes = Remotes(folders)
    remotes.put("office", OFFICE, TOKEN)
    ring.locked = True
    with pytest.raises(ConfigError, match="unlock it, or give the token again") as caught:
        remotes.token("office")
    assert TOKEN not in str(caught.value)
    with pytest.raises(ConfigError, match="still in the keyring.*account office https://office.example:8443"):
        remotes.remove("office")
    assert "office" not in Remotes(folders)


def test_a_token_file_that_is_not_ours(folders: Folders, no_ring: None) -> None:
    remotes = Remotes(folders)
    remotes.put("office", OFFICE, TOKEN)
    for text in ("{", "[1]", '{"a": 1}'):
        (folders.config / "tokens.json").write_text(text)
        with pytest.raises(ConfigError, match="is damaged"):
            remotes.token("office")
        with pytest.raises(ConfigError, match="is damaged"):
            remotes.put("office", OFFICE, "another")
        assert (folders.config / "tokens.json").read_text() == text


def test_credentials_that_were_written_into_the_file_are_not_shown(folders: Folders) -> None:
    folders.config.mkdir(parents=True, exist_ok=True)
    (folders.config / "remotes.toml").write_text(
        '[remotes.office]\nurl = "http://anna:S3cret#9@office"\ntoken = "file"\n', encoding="utf-8"
    )
    remotes = Remotes(folders)
    assert remotes.get("office").shown_url == "http://office"
    with pytest.raises(ConfigError) as failed:
        remotes.token("office", {})
    assert "S3cret" not in str(failed.value)


# ---- each server records the tokens that it gets ---------------------------------------------------------------------


@dataclass
class Recorder:
    """A server that records each token. `redirect`: the address that it sends everybody to."""

    redirect: str | None = None
    url: str = ""
    shown: list[str | None] = field(default_factory=list)
    """The header `Authorization` of each request; None: there was none."""

    async def serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await request_of(reader)
        token = re.search(rb"\r\nauthorization: ([^\r]*)", head, re.IGNORECASE)
        self.shown.append(token and token[1].decode())
        moved = "" if self.redirect is None else f"location: {self.redirect}{head.split()[1].decode()}\r\n"
        writer.write(http(b"", status="307 There" if moved else "404 Not Found", content_type=None, extra=moved))
        await writer.drain()


@contextmanager
def recorder(redirect: str | None = None) -> Iterator[Recorder]:
    server = Recorder(redirect)
    with in_thread(listening(server.serve)) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server


@pytest.fixture
def outrider(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> Outrider:
    for name in ("OUTRIDER_TOKEN", "OUTRIDER_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    use_keyring(monkeypatch, NoKeyring())
    return outrider


@pytest.fixture
def ours() -> Iterator[Recorder]:
    with recorder() as server:
        yield server


@pytest.fixture
def other() -> Iterator[Recorder]:
    with recorder() as server:
        yield server


def settings_file(home: Path, text: str) -> None:
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "config.toml").write_text(text)


def ask(outrider: Outrider, *arguments: str) -> CommandResult:
    return outrider("ask", "list files", "--mode", "hosted", "--max-tokens", "2", *arguments)


COMMANDS = [["ask", "a", "--mode", "hosted", "--remote"], ["doctor", "--remote"], ["remote", "test"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_the_token_of_the_file_goes_to_the_remote_of_the_file(
    outrider: Outrider, home: Path, ours: Recorder, other: Recorder, command: list[str]
) -> None:
    settings_file(home, f'remote = "{ours.url}"\ntoken = "{TOKEN}"\n')
    outrider(*command, other.url)
    assert other.shown and set(other.shown) == {None} and not ours.shown
    outrider(*command, f"{ours.url}/v1")  # The same server, another path.
    assert ours.shown and set(ours.shown) == {f"Bearer {TOKEN}"}


OURS, OTHER = "ours", "other"
FILE = {"remote": OURS, "token": TOKEN}
CASES: list[tuple[dict[str, str], dict[str, str], str, str]] = [
    (FILE, {"remote": OTHER}, "", OTHER),
    ({"token": TOKEN}, {"remote": OTHER}, "", OTHER),
    ({}, {"token": TOKEN}, OTHER, OTHER),
    ({}, {"token": TOKEN, "remote": OURS}, "", OURS),
    ({}, {"token": TOKEN, "remote": OURS}, OTHER, OTHER),
    ({"remote": OURS}, {"token": TOKEN}, "", OURS),  # The address is in the file, the secret is not.
]
"""The settings file, the environment, the option --remote, and who is asked: only `ours` has been given a token."""


@pytest.mark.parametrize(("file", "environment", "option", "asked"), CASES)
def test_a_token_goes_to_the_remote_that_it_was_given_with(
    outrider: Outrider, home: Path, ours: Recorder, other: Recorder, monkeypatch: pytest.MonkeyPatch,
    file: dict[str, str], environment: dict[str, str], option: str, asked: str,
) -> None:  # fmt: skip
    urls = {OURS: ours.url, OTHER: other.url}
    settings_file(home, "".join(f'{key} = "{urls.get(value, value)}"\n' for key, value in file.items()))
    for key, value in environment.items():
        monkeypatch.setenv(f"OUTRIDER_{key.upper()}", urls.get(value, value))
    said = ask(outrider, *(["--remote", urls[option]] if option else []))
    assert set(ours.shown) == ({f"Bearer {TOKEN}"} if asked == OURS else set())
    assert set(other.shown) == ({None} if asked == OTHER else set())
    if not file and "remote" not in environment:
        assert "OUTRIDER_TOKEN or config.toml is not sent" in said.err and TOKEN not in said.err


@pytest.mark.parametrize("chosen", ["--remote", "use", "environment"])
def test_no_named_remote_gets_a_token_that_it_was_not_given(
    outrider: Outrider, home: Path, other: Recorder, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    settings_file(home, f'token = "{TOKEN}"\n')
    monkeypatch.setenv("OUTRIDER_TOKEN", TOKEN)
    outrider("remote", "add", "office", other.url)
    if chosen == "use":
        outrider("remote", "use", "office")
    elif chosen == "environment":
        monkeypatch.setenv("OUTRIDER_REMOTE", "office")
    ask(outrider, *(["--remote", "office"] if chosen == "--remote" else []))
    outrider("remote", "test", "office")
    outrider("doctor", "--remote", "office")
    assert other.shown and set(other.shown) == {None}


def test_a_named_remote_gets_the_variable_that_it_names(
    outrider: Outrider, ours: Recorder, other: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_TOKEN", TOKEN)
    outrider("remote", "add", "office", ours.url, "--token-env", "OUTRIDER_TOKEN")
    outrider("remote", "add", "team", other.url, "--token-env", "TEAM_TOKEN")
    outrider("remote", "test", "office")
    told = outrider("remote", "test", "team").out
    assert "! token       none: TEAM_TOKEN is not set" in told
    assert ours.shown and set(ours.shown) == {f"Bearer {TOKEN}"}
    assert other.shown and set(other.shown) == {None}


def test_a_redirect_takes_the_token_of_a_call_nowhere(outrider: Outrider, other: Recorder, home: Path) -> None:
    settings_file(home, 'remote = "http://127.0.0.1:9"\ntoken = "another-one"\n')
    (home / "token").write_text(TOKEN)
    with recorder(other.url) as server:
        for command in COMMANDS[:2]:
            outrider(*command, server.url, "--token-file", str(home / "token"))
        assert server.shown and set(server.shown) == {f"Bearer {TOKEN}"} and not other.shown


def test_another_server_is_told_by_scheme_host_and_port() -> None:
    given = Settings().replaced({"remote": "http://home.example", "token": TOKEN}, "a test")
    for remote in ("http://home.example:80", "http://HOME.example/v1"):
        assert given.replaced({"remote": remote, "seed": 3}, "a test").token == TOKEN
    others = ["https://home.example", "http://home.example:8000", "http://home.example:notaport", "office", None]
    others += [f"http://{where}" for where in ("home.example.elsewhere.example", "home.example@elsewhere.example")]
    for remote in (*others, "http://elsewhere.example/http://home.example"):
        assert given.replaced({"remote": remote, "seed": 3}, "a test").token is None, remote
