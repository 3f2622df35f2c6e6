"""The benchmark of many clients: real servers are asked in turn, and each round has its figures."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from benchmarks import service
from benchmarks.service_ways import hosted, in_rounds
from models.tree import DraftTree
from remote import VerifierClient
from tests.support.serving import VerifierProcess


def test_every_server_has_a_row_for_each_number_of_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LEAST", 2)
    monkeypatch.setattr(service, "KNOWN", 4)
    out = tmp_path / "service.json"
    options = ["--clients", "1,3", "--answers", "1", "--rounds", "1", "--engines", "onnx", "--json", str(out)]
    options += ["--ways", "openai,hosted,edge"]
    everyday = service.read_questions
    monkeypatch.setattr(service, "read_questions", lambda path: everyday(path)[:6])
    monkeypatch.setattr(sys, "argv", ["service", *options])
    service.main()
    rows = json.loads(out.read_text())["rows"]
    assert {row["server"] for row in rows} == {"Outrider, onnx", "Outrider, onnx, no drafts"}
    for way in ("openai", "hosted", "edge"):
        assert sorted(row["clients"] for row in rows if row["way"] == way) == [1, 1, 3, 3]
    for row in rows:
        [found] = row["rounds"]
        assert found["tokens_per_second"] > 1 and 0 < found["first_ms"]["p50"] <= found["first_ms"]["p95"]
        assert (found["refused"], found["failed"]) == (0, 0) and found["memory_mb"] > 50
        assert found["same"] in (None, 1.0)
        one_token_each = row["clients"] == 1 and row["server"].endswith("no drafts") and row["way"] != "edge"
        assert (found["passes"] >= 90) == one_token_each
        if row["way"] == "edge":
            assert found["pieces"] < 16, "rounds with drafts bring several tokens each"


def test_llama_cpp_is_given_what_it_needs_for_as_many_clients(tmp_path: Path) -> None:
    arguments = service.parser().parse_args(
        ["--engines", "llama", "--clients", "1,16", "--llama-server", "llama-server", "--gguf", "q8_0"]
    )
    ours, _, last = service.servers(arguments, tmp_path)
    [file] = tmp_path.rglob("*.gguf")
    assert last.title == "llama.cpp, q8_0" and last.command[:3] == ("llama-server", "-m", str(file))
    assert last.command[last.command.index("--parallel") + 1] == "16"
    assert ours.command[ours.command.index("--model") + 1] == str(file) and (file.parent / "tokenizer.json").is_file()


def test_an_answer_in_rounds_is_no_longer_than_a_hosted_one(verifier: VerifierProcess) -> None:
    prompt = list(range(5, 25))

    async def said() -> tuple[list[int], list[int]]:
        async with VerifierClient(verifier.url) as client:
            whole = [token async for piece in hosted(client.session(), prompt, 20) for token in piece]
            drafts = [DraftTree.chain(whole[at : at + 8]) for at in range(len(whole))]
            return whole, [token async for piece in in_rounds(client.session(), prompt, drafts, 12) for token in piece]

    whole, short = asyncio.run(said())
    assert len(whole) > 12 and short == whole[:12]
