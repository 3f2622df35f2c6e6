"""An answer that ends at a limit says which, and `ask` how to go on, whoever wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config import Settings
from app.drafting.prompt import conversation_tokens
from app.reply import offline
from app.reply.request import CONTEXT_TOKENS
from drafter.runtime import Drafter
from storage import Message
from tests.app.reply.conftest import Connect
from tests.support.commands import Outrider
from tests.support.conversing import ask
from tests.support.serving import VerifierProcess

ROOM = 24
"""Tokens that the context has left for the answer."""


def nearly_full(drafter: Drafter, most: int) -> str:
    """A question that leaves `ROOM` tokens of `most` for its answer."""

    def length(words: int) -> int:
        question = Message("m", "c", None, "user", "a " * words, "done", (), (), {}, "")
        return len(conversation_tokens(drafter.text, [question]))

    each = (length(200) - length(100)) / 100
    return "a " * int((most - ROOM - length(0)) / each)


@pytest.mark.parametrize("mode", ["edge", "hosted"])
async def test_a_full_context_ends_an_answer_and_is_named(
    verifier: VerifierProcess, drafter: Drafter, mode: str, connect: Connect
) -> None:
    settings = Settings().replaced({"mode": mode}, "the test")
    async with connect(verifier.url, settings=settings) as opened:
        await opened.settled()
        card = opened.backend.routing.shown.verifier.card  # type: ignore[union-attr]
        heard = await ask(opened, nearly_full(drafter, min(CONTEXT_TOKENS, card.limits.max_tokens)))
    assert 0 < len(heard.done.token_ids) <= 2 * ROOM
    assert (heard.done.reason, heard.done.cut_by, heard.done.full) == ("length", "context", True)
    assert heard.done.cut == "the conversation has reached the length that the model can read"
    assert heard.done.model == card.target


async def test_the_drafter_alone_has_a_guard(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "MOST_ALONE", most := 40)
    settings = Settings(mode="offline", temperature=2.0, seed=3)
    async with connect(None, settings=settings) as opened:
        heard = await ask(opened, "list files")
        assert len(heard.done.token_ids) == most
        assert (heard.done.cut_by, heard.done.full, heard.done.model) == ("length", False, "")
        assert "the most that the small model writes alone" in heard.done.cut
        stored = opened.store.messages.get(heard.message)
        assert stored.stats["cut_by"] == "length" and "model" not in stored.stats
        more = [event async for event in opened.resume(heard.message)]
        assert len(more[-1].token_ids) > most  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["edge", "offline"])
def test_a_limit_of_tokens_is_told(outrider: Outrider, verifier: VerifierProcess, tmp_path: Path, mode: str) -> None:
    server = () if mode == "offline" else ("--remote", verifier.url)
    cut = outrider("ask", "list files", "--mode", mode, *server, "--max-tokens", "4")
    assert cut.code == 0 and "the answer is not whole: cut at 4 tokens (max_tokens)" in cut.err
    assert "To go on: " in cut.err and "--max-tokens" in cut.err
    told = outrider("ask", "a", "--mode", mode, *server, "--max-tokens", "4", "--json").json
    assert (told["reason"], told["cut"], told["cut_by"]) == ("length", "length", "cut at 4 tokens (max_tokens)")
    assert told["go_on"].endswith("a longer answer: --max-tokens")
    (tmp_path / "prompts").write_text('{"prompt": "list files"}\n{"prompt": "list them"}\n')
    each = outrider("ask", "--prompts", str(tmp_path / "prompts"), "--mode", mode, *server, "--max-tokens", "4")
    assert each.err.count("the answer is not whole") == 2
