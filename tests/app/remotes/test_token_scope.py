"""A token goes only to the server that it was given for: each server records the tokens that it gets."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from app.config import Settings
from tests.remote.toy_verifier import http, listening, request_of
from tests.support.chat_server import in_thread
from tests.support.commands import CommandResult, Outrider
from tests.support.keyring import NoKeyring, use_keyring

TOKEN = "sk-given-for-one-server-0123456789"


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


def test_the_token_of_the_command_line_goes_to_the_server_of_that_call(
    outrider: Outrider, home: Path, ours: Recorder, tmp_path: Path
) -> None:
    settings_file(home, 'remote = "http://127.0.0.1:9"\ntoken = "another-one"\n')
    (tmp_path / "token").write_text(TOKEN)
    ask(outrider, "--remote", ours.url, "--token-file", str(tmp_path / "token"))
    assert ours.shown and set(ours.shown) == {f"Bearer {TOKEN}"}


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


def test_a_redirect_takes_the_token_nowhere(outrider: Outrider, other: Recorder, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    with recorder(other.url) as server:
        for command in COMMANDS[:2]:
            outrider(*command, server.url, "--token-file", str(tmp_path / "token"))
        assert f"Bearer {TOKEN}" in server.shown and not other.shown


def test_another_server_is_told_by_scheme_host_and_port() -> None:
    given = Settings().replaced({"remote": "http://home.example", "token": TOKEN}, "a test")
    for remote in ("http://home.example:80", "http://HOME.example/v1"):
        assert given.replaced({"remote": remote, "seed": 3}, "a test").token == TOKEN
    others = ["https://home.example", "http://home.example:8000", "http://home.example:notaport", "office", None]
    others += [f"http://{where}" for where in ("home.example.elsewhere.example", "home.example@elsewhere.example")]
    for remote in (*others, "http://elsewhere.example/http://home.example"):
        assert given.replaced({"remote": remote, "seed": 3}, "a test").token is None, remote
