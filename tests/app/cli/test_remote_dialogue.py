"""`outrider remote add` without an address, asked step by step at a real terminal, and `outrider remote find`."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.remotes import nearby
from tests.remote.toy_verifier import ToyVerifier, serving
from tests.support import model_servers as dialects
from tests.support.commands import Outrider, runner
from tests.support.model_servers import ModelServer
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY
from tests.support.terminal import Terminal

TOKEN = "sk-do-not-show-me-0123456789"
PROGRAM = """
import sys
from app.remotes import nearby
nearby.PORTS = tuple(map(int, sys.argv[1].split(",")))
nearby.PAGE_SECONDS = {seconds}
nearby.look.__defaults__ = (nearby.PORTS, {seconds})
sys.argv = ["outrider", "remote", "add", *sys.argv[2:]]
from app.cli.__main__ import main
main()
"""
"""The command, which looks at the ports of the test."""


class Dialogue(Terminal):
    """The questions at a terminal, and what is typed."""

    seen = 0
    """Characters of the text that belong to earlier questions."""

    def answer(self, question: str, typed: str) -> None:
        """Type a line as soon as the question is there."""
        self.wait_for(lambda: question in self.text[self.seen :], PATIENCE_SECONDS)
        self.seen = len(self.text)
        self.type(f"{typed}\n")


@contextmanager
def adding(home: Path, ports: Sequence[int], *arguments: str) -> Iterator[Dialogue]:
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment |= {
        "OUTRIDER_HOME": str(home),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        "PYTHONPATH": str(REPOSITORY),
    }
    program = PROGRAM.format(seconds=PATIENCE_SECONDS)
    command = [sys.executable, "-c", program, ",".join(map(str, ports)), *arguments]
    with Dialogue(command, environment=environment, folder=home.parent) as terminal:
        yield terminal


def kept(home: Path) -> dict[str, Any]:
    return tomllib.loads((home / "config" / "remotes.toml").read_text())


def test_a_server_that_was_found_is_added_tested_and_used(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with ModelServer(dialects.OLLAMA).in_thread() as port, adding(home, [port]) as terminal:
        terminal.answer("Only 127.0.0.1 is asked. [Y/n]", "")
        terminal.answer("another server [1]:", "1")
        terminal.answer("name of the model [1]:", "2")
        terminal.answer("Your name for it [ollama]:", "")
        terminal.answer("for all questions? [Y/n]", "y")
        assert terminal.end(PATIENCE_SECONDS) == 0
        assert f"1  Ollama at 127.0.0.1:{port}: llama3.2:latest, qwen3:8b" in terminal.text
        assert "✓ model" in terminal.text and "outrider remote use --none" in terminal.text
    remote = {"url": f"http://127.0.0.1:{port}/v1", "kind": "openai", "model": "qwen3:8b"}
    assert kept(home) == {"use": "ollama", "remotes": {"ollama": remote}}


def test_an_address_is_typed_with_a_hidden_token_and_a_model_by_name(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with (
        ModelServer(dialects.OLLAMA, token=TOKEN).in_thread() as port,
        ModelServer({}).in_thread() as nobody,
        adding(home, [nobody]) as terminal,
    ):
        terminal.answer("[Y/n]", "y")
        terminal.answer("Address of the server:", "office")
        terminal.answer("Address of the server:", f"http://localhost:{port}/v1")
        terminal.answer("(enter: none):", "wrong")
        terminal.answer("Add it anyway? [y/N]", "")
        terminal.answer("Address of the server:", f"localhost:{port}/v1")
        terminal.answer("(enter: none):", TOKEN)
        terminal.answer("name of the model [1]:", "nothing")
        terminal.answer("Request it anyway? [y/N]", "n")
        terminal.answer("name of the model [1]:", "llama3.2")
        terminal.answer("Your name for it [localhost]:", "not a name")
        terminal.answer("Your name for it [localhost]:", "mine")
        terminal.answer("for all questions? [Y/n]", "n")
        assert terminal.end(PATIENCE_SECONDS) == 0
        said = terminal.text
    assert 'outrider ask --remote mine "…"' in said
    assert f"port {nobody} cannot be used" in said and "http:// or https://" in said and "a name consists of" in said
    assert TOKEN not in said and TOKEN in (home / "config" / "tokens.json").read_text()
    remote = {"url": f"http://localhost:{port}/v1", "kind": "openai", "model": "llama3.2:latest", "token": "file"}
    assert kept(home) == {"remotes": {"mine": remote}}


def test_a_server_that_is_away_can_be_added_all_the_same(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with ModelServer({}).in_thread() as port:
        pass
    with adding(home, [port], f"http://127.0.0.1:{port}", "--token-env", "A_KEY") as terminal:
        terminal.answer("Add it anyway? [y/N]", "y")
        terminal.answer("Model (enter: the first that the server lists):", "m")
        terminal.answer("Your name for it [server]:", "later")
        terminal.answer("for all questions? [y/N]", "n")
        assert terminal.end(PATIENCE_SECONDS) == 3
    later = {"url": f"http://127.0.0.1:{port}", "model": "m", "token_variable": "A_KEY"}
    assert kept(home) == {"remotes": {"later": later}}


def test_leaving_leaves_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with ModelServer(dialects.OLLAMA).in_thread() as port, adding(home, [port]) as terminal:
        terminal.answer("[Y/n]", "y")
        terminal.answer("another server [1]:", "1")
        terminal.answer("name of the model [1]:", "1")
        terminal.wait_for("Your name for it [ollama]:", PATIENCE_SECONDS)
        terminal.type("\x03")
        assert terminal.end(PATIENCE_SECONDS) == 130 and "nothing was added" in terminal.text
    assert not (home / "config").exists()


@pytest.fixture
def outrider(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Outrider:
    monkeypatch.setattr(nearby, "PAGE_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(nearby.look, "__defaults__", (nearby.PORTS, PATIENCE_SECONDS))
    return runner(monkeypatch, capsys, tmp_path / "home", tmp_path / "drafter")


def test_what_is_found_is_listed(outrider: Outrider, tmp_path: Path) -> None:
    many = {"/v1/models": dialects.listed(*(f"m{number}\x1b[2J" for number in range(8)), owner="llamacpp")}
    with (
        ModelServer(dialects.OLLAMA).in_thread() as ollama,
        ModelServer(many).in_thread() as llama,
        serving(ToyVerifier().app()) as own,
        ModelServer({}).in_thread() as web,
    ):
        ports = [part for port in (ollama, llama, own, web) for part in ("--port", str(port))]
        found = outrider("remote", "find", *ports)
        rows = outrider("remote", "find", "--json", *ports).rows
    lines = found.out.splitlines()
    assert found.code == 0
    assert [line.split("  ")[0] for line in lines] == [f"127.0.0.1:{port}" for port in (ollama, llama, own)]
    assert "Ollama" in lines[0] and lines[0].endswith("llama3.2:latest, qwen3:8b")
    assert lines[1].endswith("m0, m1, m2 and 5 more") and "\x1b" not in found.out
    assert "Outrider" in lines[2] and lines[2].endswith("toy, checks drafts")
    assert f"port {web} cannot be used" in found.err and "outrider remote add" in found.err
    assert rows[0] == {
        "address": f"127.0.0.1:{ollama}", "program": "Ollama", "url": f"http://127.0.0.1:{ollama}/v1",
        "models": ["llama3.2:latest", "qwen3:8b"], "checks_drafts": False, "wants_token": False, "why_not": None,
    }  # fmt: skip
    assert rows[2]["checks_drafts"] and rows[3]["program"] is None and rows[3]["why_not"]
    assert not (tmp_path / "home").exists()  # Nothing is kept.
