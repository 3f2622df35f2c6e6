"""`kill -9` of the program in the middle of an answer loses at most the round in flight."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from storage import Message, Store
from tests.support.serving import REPOSITORY, VerifierProcess

QUESTION = "list files"
ENOUGH_TOKENS = 12


def test_the_question_and_the_rounds_survive(verifier: VerifierProcess, tiny_pair: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "OUTRIDER_HOME": str(tmp_path),
        "OUTRIDER_DRAFTER": str(tiny_pair / "drafter"),
        "OUTRIDER_REMOTE": verifier.url,
    }
    # Token by token, and long, so that it is caught in the middle.
    command = [sys.executable, "-m", "app.cli", "ask", QUESTION, "--no-draft", "--max-tokens", "900"]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        seen = watch(tmp_path / "data" / "outrider.db", process)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    with Store.open(tmp_path / "data" / "outrider.db") as store:  # Which ends what the dead process left.
        (conversation,) = store.conversations.all()
        question, answer = store.branches.thread(conversation.id)
    assert (question.role, question.text, question.status) == ("user", QUESTION, "done")
    assert answer.status == "stopped"
    assert ENOUGH_TOKENS <= len(seen.tokens) <= len(answer.tokens) < 900
    assert answer.tokens[: len(seen.tokens)] == seen.tokens
    assert answer.text.startswith(seen.text)
    assert all(answer.provenance)


def watch(database: Path, process: subprocess.Popen[bytes]) -> Message:
    """Watch the answer from another process until it has some tokens."""
    store = None
    try:
        for _ in range(6000):
            time.sleep(0.02)
            assert process.poll() is None, "the answer ended before it could be cut"
            if store is None:
                store = Store.open(database) if database.exists() else None
                continue
            for conversation in store.conversations.all():
                thread = store.branches.thread(conversation.id)
                if thread and thread[-1].role == "assistant" and len(thread[-1].tokens) >= ENOUGH_TOKENS:
                    return thread[-1]
    finally:
        if store is not None:
            store.close()
    raise AssertionError("no tokens were stored in time")
