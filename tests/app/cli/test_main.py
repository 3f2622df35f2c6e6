"""The commands, as scripts see them: stdout, stderr, exit codes."""

from __future__ import annotations

import io
import re
import shutil
import sys
from pathlib import Path

import pytest

from app.cli.output import print_json
from models.config import GRAPH
from tests.support.commands import Outrider
from tests.support.serving import VerifierProcess

KEYS = re.findall(
    r"\w+",
    """
    text token_ids model drafted_by stretches provenance reason cut cut_by go_on sources reasoning mode rounds tau
    drafted_nodes second_stage ahead_tries ahead_hits ahead_adopted seconds first_token_seconds rtt_ms line
    up_bytes_per_second down_bytes_per_second bytes_up bytes_down trace risks
    """,
)


def test_the_answer_is_all_there_is_on_stdout_and_json_tells_its_rounds(
    outrider: Outrider, verifier: VerifierProcess
) -> None:
    ask = ("ask", "list files", "--remote", verifier.url, "--mode", "edge", "--max-tokens", "24")
    asked, again = outrider(*ask), outrider(*ask, "--json")
    assert asked.code == again.code == 0
    answer = again.json
    assert list(answer) == ["conversation", *KEYS]
    assert asked.out == answer["text"] + "\n"
    assert (answer["mode"], answer["provenance"]) == ("edge", {"verified": 24, "drafted": 0, "streamed": 0})
    assert len(answer["token_ids"]) == 24 and answer["rounds"] <= 24 and answer["tau"] >= 1.0
    assert answer["bytes_up"] > 0 and answer["bytes_down"] > 0 and answer["first_token_seconds"] <= answer["seconds"]
    trace = answer["trace"]
    assert len(trace) == answer["rounds"] and sum(one["gained"] for one in trace) == 24
    assert sum(one["nodes"] for one in trace) == answer["drafted_nodes"] > 0
    assert all(one["expected"] >= 1 and one["server_seconds"] > 0 for one in trace)
    made = [one for one in trace if one["levels"]]  # By measure, a round without a draft may be tried.
    assert made and all(one["cost"] is not None for one in made)


def test_usage_errors(outrider: Outrider) -> None:
    for arguments, says in (
        (["ask"], "no question"),
        (["ask", "a", "--temperature", "9"], "temperature: expected a number <= 2"),
        (["ask", "a", "--remote", "example.org"], "http"),
        (["ask", "a", "--remote", "http://me:secret@example.org"], "credentials"),
        (["ask", "a", "--no-draft", "--mode", "offline"], "choose one"),
        (["ask", "a", "--prompts", "p.jsonl"], "not both"),
        (["ask", "--prompts", "/nowhere/p.jsonl"], "cannot be read"),
        (["ask", "-c", "--prompts", "p.jsonl"], "-c"),
        (["ask", "a", "--tree", "random"], "--tree"),
        (["ask", "--no-save", "-c", "list files"], "--no-save keeps nothing"),
        (["ask", "--no-save", "--queue", "list files"], "--no-save keeps nothing"),
        (["ask", "--queue"], "no question"),
        (["ask", "--queue", "a", "--json"], "--queue"),
        (["ask", "--queue", "--prompts", "p.jsonl"], "--queue"),
        (["ask", "--queue", "a", "--remote", "http://127.0.0.1:9"], "name one of `outrider remote list`"),
        (["ask", "--queue", "a", "-c", "--remote", "bundled"], "the server of its conversation"),
        (["ask", "--queue", "a", "--conversation", "c0ffee", "--model", "x"], "the server of its conversation"),
        (["ask", "--queue", "a", "--temperature", "0"], "but not these options"),
        (["ask", "--queue", "a", "--mode", "offline"], "but not these options"),
        (["ask", "--queue", "a", "--local", "qwen"], "but not these options"),
        (["ask", "--queue", "a", "--allow", "read"], "but not these options"),
        (["completion", "csh"], "csh"),
        (["--install-completion"], "--install-completion"),  # Nobody's files are edited.
        (["shell"], "Name a shell"),
        (["shell", "bash", "--stop"], "Name a shell"),
        (["serve", "--model", ""], "--model is empty"),
        (["serve", "--budget", "300"], "such as 300MB"),
        (["serve", "--tls-cert", "a.pem"], "--tls-key"),
        (["serve", "--replicas", "2", "--drain-seconds", "30"], "--drain-seconds needs a single process"),
        (["serve", "--replicas", "2", "--learn", "own"], "leave out --replicas or --learn"),
    ):
        asked = outrider(*arguments)
        assert asked.says(2, says) and asked.out == "" and "Traceback" not in asked.err, arguments


def test_the_setting_chooses_what_runs_the_drafter_and_broken_parts_are_exit_1(
    outrider: Outrider, home: Path, monkeypatch: pytest.MonkeyPatch, tiny_pair: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_pair / "drafter", tmp_path / "drafter")
    monkeypatch.setenv("OUTRIDER_DRAFTER", str(folder))
    monkeypatch.setenv("OUTRIDER_MODE", "offline")
    assert "with ONNX Runtime on cpu a draft takes" in outrider("doctor").out
    (folder / GRAPH).unlink()  # Only PyTorch works without the graph.
    assert outrider("ask", "list files", "--max-tokens", "5").says(1, "drafter.onnx is missing")
    found = outrider("doctor")
    assert found.code == 1 and "✗ drafter" in found.out and "drafter.onnx is missing" in found.out
    monkeypatch.setenv("OUTRIDER_DRAFTER_RUNTIME", "torch")
    asked = outrider("ask", "list files", "--max-tokens", "5")
    assert asked.code == 0 and asked.out.strip()
    (home / "data" / "outrider.db").write_bytes(b"no database " * 1000)
    asked = outrider("ask", "a")
    assert asked.says(1, "outrider.db") and "Traceback" not in asked.err


@pytest.mark.parametrize(("encoding", "written"), [("utf-8", "📁é"), ("latin-1", r"\ud83d\udcc1\u00e9")])
def test_json_loses_no_character_in_any_encoding(encoding: str, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding, errors="replace"))
    print_json({"a": "📁é"})
    assert printed.getvalue() == f'{{"a": "{written}"}}\n'.encode()
