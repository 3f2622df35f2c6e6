"""`outrider remote find`: the look at this device as a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.remotes import nearby
from tests.remote.toy_verifier import ToyVerifier, serving
from tests.support import model_servers as dialects
from tests.support.commands import Outrider, runner
from tests.support.model_servers import ModelServer
from tests.support.patience import PATIENCE_SECONDS


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
        ModelServer(dialects.VLLM, token="t").in_thread() as vllm,
        serving(ToyVerifier().app()) as own,
        ModelServer({}).in_thread() as web,
    ):
        ports = [part for port in (ollama, llama, vllm, own, web) for part in ("--port", str(port))]
        found = outrider("remote", "find", *ports)
        rows = [json.loads(line) for line in outrider("remote", "find", "--json", *ports).out.splitlines()]
    assert found.code == 0
    assert [line.split("  ")[0] for line in found.out.splitlines()] == [
        f"127.0.0.1:{port}" for port in (ollama, llama, vllm, own)
    ]
    lines = found.out.splitlines()
    assert "Ollama" in lines[0] and lines[0].endswith("llama3.2:latest, qwen3:8b")
    assert lines[1].endswith("m0, m1, m2 and 5 more") and "\x1b" not in found.out
    assert "vLLM" in lines[2] and lines[2].endswith("wants a token")
    assert "Outrider" in lines[3] and lines[3].endswith("toy, checks drafts")
    assert f"port {web} cannot be used" in found.err and "outrider remote add" in found.err
    assert rows[0] == {
        "address": f"127.0.0.1:{ollama}",
        "program": "Ollama",
        "url": f"http://127.0.0.1:{ollama}/v1",
        "models": ["llama3.2:latest", "qwen3:8b"],
        "checks_drafts": False,
        "wants_token": False,
        "why_not": None,
    }
    assert rows[2]["wants_token"] and rows[3]["checks_drafts"] and rows[4]["program"] is None and rows[4]["why_not"]
    assert not (tmp_path / "home").exists()  # Nothing is kept.


def test_where_nothing_answers_it_says_where_it_looked(outrider: Outrider) -> None:
    with ModelServer({}).in_thread() as port:
        pass
    found = outrider("remote", "find", "--port", str(port))
    assert found.code == 3 and found.out == "" and f"looked at 127.0.0.1, port {port}" in found.err
    assert outrider("remote", "find", "--json", "--port", str(port)).out == ""
    assert outrider("remote", "find", "--port", "0").code == 2
