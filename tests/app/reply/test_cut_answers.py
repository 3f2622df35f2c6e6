"""`ask` says on stderr that an answer ended at a limit, and how to go on, whoever wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Outrider
from tests.support.serving import VerifierProcess


@pytest.mark.parametrize("mode", ["edge", "hosted", "offline"])
def test_a_limit_of_tokens(outrider: Outrider, verifier: VerifierProcess, mode: str) -> None:
    server = () if mode == "offline" else ("--remote", verifier.url)
    cut = outrider("ask", "list files", "--mode", mode, *server, "--max-tokens", "4")
    assert cut.code == 0 and "the answer is not whole: cut at 4 tokens (max_tokens)" in cut.err
    assert "To go on: " in cut.err and "--max-tokens" in cut.err
    told = outrider("ask", "a", "--mode", mode, *server, "--max-tokens", "4", "--json").json
    assert (told["reason"], told["cut"], told["cut_by"]) == ("length", "length", "cut at 4 tokens (max_tokens)")
    assert told["go_on"].endswith("a longer answer: --max-tokens")


def test_each_answer_of_a_file(outrider: Outrider, verifier: VerifierProcess, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "list files"}\n{"prompt": "list them"}\n')
    done = outrider("ask", "--prompts", str(prompts), "--remote", verifier.url, "--max-tokens", "4")
    assert done.err.count("the answer is not whole") == 2
