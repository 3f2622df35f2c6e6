"""Answers as `outrider ask --prompts` gives them, to the benchmarks that judge them."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from app.config import BUNDLED_DRAFTER
from benchmarks.answers import FENCE, NoAnswers, answers_in, ask_all, drafter_reading, generate_all, prompt_of
from benchmarks.exactness import TARGET
from drafter.runtime import Drafter


def test_the_last_answer_of_a_conversation_counts_and_lines_without_one_do_not() -> None:
    lines = [
        '{"id": "a", "prompt": "p", "text": "first"}',
        '{"id": "a", "prompt": "q", "text": "second"}',
        "",
        '{"id": "b", "prompt": "p", "error": "away"}',
    ]
    assert answers_in("\n".join(lines)) == {"a": "second"}


def test_the_end_of_the_text_closes_a_fence() -> None:
    assert FENCE.findall("```sh\nls\n```\nand\n```\npwd") == ["ls\n", "pwd"]


def test_a_real_program_answers_each_prompt_whatever_the_caller_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "1")
    prompts = [{"id": "one", "prompt": "list files"}, {"id": "two", "turns": ["list files", "by size"]}]
    answers = ask_all(prompts, "offline", options=["--max-tokens", "24"])
    assert set(answers) == {"one", "two"} and all(len(text) > 12 for text in answers.values())


def test_a_server_that_is_not_there_gives_no_share() -> None:
    with pytest.raises(NoAnswers, match="after 0 answers"):
        ask_all([{"id": "one", "prompt": "list files"}], "hosted", remote="http://127.0.0.1:9")


PROMPTS = [{"id": "one", "prompt": "list files"}, {"id": "two", "turns": ["unpack a.tar.gz", "how do I list it?"]}]


def test_a_checkpoint_alone_says_what_the_app_with_drafts_says() -> None:
    prompt = prompt_of(BUNDLED_DRAFTER, Path(TARGET))
    assert prompt is not None
    assert generate_all(TARGET, PROMPTS, prompt, 40) == ask_all(PROMPTS, "edge", options=["--max-tokens", "40"])


@pytest.mark.parametrize("pages", ["with", "without"])
def test_pages_stand_before_a_question_or_none_do(pages: str) -> None:
    with drafter_reading(pages) as folder:
        drafter = Drafter.load(folder)
        said = drafter.text.decode(drafter.asked_as("unpack a.tar"))
        assert "Answer with a shell command for " in said and ("=>" in said) == (pages == "with")
        assert set(ask_all(PROMPTS, "edge", options=["--max-tokens", "8"], drafter=folder)) == {"one", "two"}


def test_a_server_gets_the_token_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens: list[str | None] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tokens.append(self.headers["Authorization"])
            self.send_error(401)

        do_POST = do_GET

    monkeypatch.setenv("OUTRIDER_TOKEN", "a-secret")
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            with pytest.raises(NoAnswers):
                ask_all(
                    [{"id": "one", "prompt": "list files"}], "hosted", remote=f"http://127.0.0.1:{server.server_port}"
                )
        finally:
            server.shutdown()
    assert tokens and set(tokens) == {"Bearer a-secret"}
