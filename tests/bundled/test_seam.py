"""An answer of the bundled model that is cut anywhere goes on as the whole one did."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from app.config import BUNDLED_TARGET
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

QUESTIONS = (
    "How do I unpack photos.tar.gz?",
    "Find files larger than 1 GB",
    "Write a Python function that removes duplicates from a list.",
)
CUTS, TOKENS = 10, 48


@pytest.fixture(scope="module")
def server() -> Iterator[VerifierProcess]:
    with VerifierProcess(Path(), model=BUNDLED_TARGET, options=["--no-drafter"]) as process:
        yield process


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_cut_leaves_no_trace(question: str, server: VerifierProcess) -> None:
    def rest(begun: str) -> tuple[str, str]:
        said = [{"role": "user", "content": question}]
        said += [{"role": "assistant", "content": begun}] if begun else []
        body = {"messages": said, "temperature": 0, "max_tokens": TOKENS, "continue_final_message": bool(begun)}
        answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=PATIENCE_SECONDS)
        (choice,) = answer.json()["choices"]
        return choice["message"]["content"], choice["finish_reason"]

    whole, reason = rest("")
    begun = [whole[:at] for at in range(1, len(whole), max(1, len(whole) // CUTS))]
    with ThreadPoolExecutor(8) as pool:
        for text, (goes_on, _) in zip(begun, pool.map(rest, begun)):
            found = text + goes_on
            assert (found if reason == "stop" else found[: len(whole)]) == whole  # Otherwise it goes on further.
