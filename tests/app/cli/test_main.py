"""The commands, as scripts see them: stdout, stderr, exit codes."""

from __future__ import annotations

import io
import re
import shutil
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from app.cli.output import print_json
from models.config import GRAPH
from storage import Store
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


def test_the_answer_is_all_there_is_on_stdout(outrider: Outrider, verifier: VerifierProcess) -> None:
    asked = outrider("ask", "list files", "--remote", verifier.url, "--mode", "edge", "--max-tokens", "12")
    again = outrider("ask", "list files", "--remote", verifier.url, "--mode", "edge", "--max-tokens", "12", "--json")
    assert asked.code == again.code == 0
    answer = again.json
    assert list(answer) == ["conversation", *KEYS]
    assert asked.out == answer["text"] + "\n"
    assert (answer["mode"], answer["provenance"]) == ("edge", {"verified": 12, "drafted": 0, "streamed": 0})
    assert len(answer["token_ids"]) == 12 and answer["rounds"] <= 12 and answer["tau"] >= 1.0
    assert answer["bytes_up"] > 0 and answer["bytes_down"] > 0 and answer["first_token_seconds"] <= answer["seconds"]


@pytest.mark.parametrize("pace", ["measured", "fixed"])
def test_the_trace_tells_what_each_round_was_to_bring_and_brought(
    outrider: Outrider, verifier: VerifierProcess, monkeypatch: pytest.MonkeyPatch, pace: str
) -> None:
    monkeypatch.setenv("OUTRIDER_PACE", pace)
    ask = ("ask", "list files", "--remote", verifier.url, "--mode", "edge", "--max-tokens", "24", "--json")
    answer = outrider(*ask).json
    trace = answer["trace"]
    assert len(trace) == answer["rounds"] and sum(one["gained"] for one in trace) == 24
    assert sum(one["nodes"] for one in trace) == answer["drafted_nodes"] > 0
    assert all(one["expected"] >= 1 and one["server_seconds"] > 0 for one in trace)
    made = [one for one in trace if one["levels"]]  # By measure, a round without a draft may be tried.
    assert made and [one["cost"] is None for one in made] == [pace == "fixed"] * len(made)
    assert pace == "measured" or made == trace


def test_the_reference_takes_a_round_for_each_token(outrider: Outrider, verifier: VerifierProcess) -> None:
    ask = ("ask", "show disk usage", "--remote", verifier.url, "--max-tokens", "12", "--json")
    drafted, alone = outrider(*ask).json, outrider(*ask, "--no-draft").json
    assert drafted["token_ids"] == alone["token_ids"]
    assert (alone["rounds"], alone["drafted_nodes"], alone["tau"]) == (12, 0, 1.0)


def test_offline_tells_so_on_stderr(outrider: Outrider) -> None:
    asked = outrider("ask", "list files", "--mode", "offline", "--max-tokens", "8")
    assert asked.code == 0 and asked.out.strip()
    assert "offline" in asked.err and "the small model for tiny alone wrote this answer" in asked.err
    sampled = ("ask", "a", "--mode", "offline", "--max-tokens", "8", "--temperature", "2", "--seed")
    seeds = [outrider(*sampled, seed).out for seed in ("1", "1", "2")]
    assert seeds[0] == seeds[1] != seeds[2]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ask"], "no question"),
        (["ask", "a", "--mode", "cloud"], "mode"),
        (["ask", "a", "--temperature", "9"], "temperature: expected a number <= 2"),
        (["ask", "a", "--remote", "example.org"], "http"),
        (["ask", "a", "--remote", "http://me:secret@example.org"], "credentials"),
        (["ask", "a", "--no-draft", "--mode", "offline"], "choose one"),
        (["ask", "a", "--prompts", "p.jsonl"], "not both"),
        (["ask", "--prompts", "/nowhere/p.jsonl"], "cannot be read"),
        (["ask", "-c", "--prompts", "p.jsonl"], "-c"),
        (["ask", "a", "--tree", "random"], "--tree"),
        (["ask", "--no-save", "-c", "list files"], "--no-save keeps nothing"),
        (["ask", "--no-save", "--conversation", "c0ffee", "list files"], "--no-save keeps nothing"),
        (["ask", "--no-save", "--queue", "list files"], "--no-save keeps nothing"),
        (["ask", "--queue"], "no question"),
        (["ask", "--queue", "a", "--json"], "--queue"),
        (["ask", "--queue", "a", "--no-draft"], "--queue"),
        (["ask", "--queue", "--prompts", "p.jsonl"], "--queue"),
        (["completion", "csh"], "csh"),
        (["--install-completion"], "--install-completion"),  # Nobody's files are edited.
        (["shell"], "Name a shell"),
        (["shell", "bash", "--stop"], "Name a shell"),
        (["serve", "--tls-cert", "a.pem"], "--tls-key"),
        (["serve", "--replicas", "2", "--drain-seconds", "30"], "--drain-seconds is for one process"),
        (["serve", "--replicas", "2", "--learn", "own"], "leave out --replicas or --learn"),
    ],
)
def test_usage_errors(outrider: Outrider, arguments: list[str], says: str) -> None:
    asked = outrider(*arguments)
    assert asked.says(2, says) and asked.out == "" and "Traceback" not in asked.err


@pytest.mark.parametrize("option", [["--mode", "hosted"], ["--no-draft"]])
def test_no_verifier_is_exit_3(outrider: Outrider, option: list[str]) -> None:
    asked = outrider("ask", "a", "--remote", "http://127.0.0.1:9", *option)
    assert asked.says(3, "nothing listens") and asked.out == ""


def test_broken_parts_are_exit_1(
    outrider: Outrider, home: Path, tiny_pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_DRAFTER", str(tmp_path / "nowhere"))
    assert outrider("ask", "a", "--mode", "offline").says(1, "No drafter")
    broken = shutil.copytree(tiny_pair / "drafter", tmp_path / "broken")
    with (broken / "drafter.onnx").open("r+b") as graph:
        graph.seek(100)
        graph.write(b"broken")
    monkeypatch.setenv("OUTRIDER_DRAFTER", str(broken))
    assert outrider("ask", "a", "--mode", "offline").says(1, "checksum")
    (home / "data" / "outrider.db").write_bytes(b"no database " * 1000)
    asked = outrider("ask", "a", "--mode", "offline")
    assert asked.says(1, "outrider.db") and "Traceback" not in asked.err


def test_a_prompt_file_gives_a_line_for_each_question(
    outrider: Outrider, verifier: VerifierProcess, tmp_path: Path
) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"id": "one", "prompt": "list files"}\n{"turns": ["show disk usage", "of this folder"]}\n')
    asked = outrider("ask", "--prompts", str(path), "--remote", verifier.url, "--mode", "edge", "--max-tokens", "6")
    lines = asked.rows
    assert asked.code == 0
    assert [line["prompt"] for line in lines] == ["list files", "show disk usage", "of this folder"]
    assert lines[0]["id"] == "one" and all(list(line)[-len(KEYS) :] == KEYS for line in lines)
    assert all(line["provenance"] == {"verified": 6, "drafted": 0, "streamed": 0} for line in lines)


def test_history_shows_the_time_of_the_clock_on_the_wall(
    outrider: Outrider, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outrider("ask", "unpack a tarball", "--mode", "offline", "--max-tokens", "1")
    with Store.open(home / "data" / "outrider.db") as store:
        stored = datetime.fromisoformat(store.conversations.all()[0].updated)
    try:
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("TZ", "XYZ-9")
            time.tzset()
            listed, found = outrider("history").out, outrider("history", "search", "tarball").out
    finally:
        time.tzset()
    wall = (stored + timedelta(hours=9)).strftime("%Y-%m-%d %H:%M")
    assert listed.split("  ")[1] == wall and found.split("  ")[1][:-3] == wall[:-3]


def test_the_setting_chooses_what_runs_the_drafter(
    outrider: Outrider, monkeypatch: pytest.MonkeyPatch, tiny_pair: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_pair / "drafter", tmp_path / "drafter")
    monkeypatch.setenv("OUTRIDER_DRAFTER", str(folder))
    monkeypatch.setenv("OUTRIDER_MODE", "offline")
    assert "with ONNX Runtime on cpu a draft takes" in outrider("doctor").out
    (folder / GRAPH).unlink()  # Only PyTorch works without the graph.
    assert outrider("ask", "list files", "--max-tokens", "5").says(1, "drafter.onnx is missing")
    monkeypatch.setenv("OUTRIDER_DRAFTER_RUNTIME", "torch")
    asked = outrider("ask", "list files", "--max-tokens", "5")
    assert asked.code == 0 and asked.out.strip()


def test_serve_explains_what_it_cannot_load(outrider: Outrider, tmp_path: Path) -> None:
    asked = outrider("serve", "--model", str(tmp_path / "nowhere"), "--port", "0")
    assert asked.code == 1 and "nowhere" in asked.err and asked.out == ""
    assert outrider("serve", "--host", "0.0.0.0", "--port", "0").says(1, "token")


@pytest.mark.parametrize(("encoding", "written"), [("utf-8", "📁é"), ("latin-1", r"\ud83d\udcc1\u00e9")])
def test_json_loses_no_character_where_the_terminal_lacks_it(
    encoding: str, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding, errors="replace"))
    print_json({"a": "📁é"})
    assert printed.getvalue() == f'{{"a": "{written}"}}\n'.encode()
