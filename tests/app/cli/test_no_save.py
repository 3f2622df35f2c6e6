"""A question in the shell is kept apart from the conversations of the chat, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage import Store
from tests.support.commands import Outrider

SECRET = "xylophone"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MODE", "offline")
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "4")
    monkeypatch.setenv("OUTRIDER_LOG", "debug")


def origins(home: Path) -> list[str | None]:
    with Store.open(home / "data" / "outrider.db") as store:
        return [one.choices.origin for one in store.conversations.all()]


def test_a_question_of_the_shell_is_kept_as_one(outrider: Outrider, home: Path, tmp_path: Path) -> None:
    assert outrider("ask", "list", "files").code == 0
    assert origins(home) == ["ask"]
    assert outrider("ask", "-c", "hidden", "ones").code == 0
    assert origins(home) == ["ask"]
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    assert outrider("ask", "--prompts", str(prompts)).code == 0
    assert origins(home) == ["ask"] * 3


def test_what_goes_on_in_the_shell_stays_where_it_was_begun(outrider: Outrider, home: Path, tmp_path: Path) -> None:
    with Store.open(home / "data" / "outrider.db") as store:
        store.conversations.create("in the chat")
    assert outrider("ask", "-c", "list", "files").code == 0
    assert origins(home) == [None]


def test_nothing_of_an_unsaved_question_is_anywhere_on_the_disk(outrider: Outrider, home: Path, tmp_path: Path) -> None:
    answered = outrider("ask", "--no-save", "--json", SECRET)
    assert answered.code == 0 and json.loads(answered.out)["conversation"] is None
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"prompt": f"{SECRET} again"}))
    assert outrider("ask", "--no-save", "--prompts", str(prompts)).code == 0
    files = [path for path in home.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    assert not (home / "data" / "outrider.db").exists()


@pytest.mark.parametrize("other", [["-c"], ["--conversation", "c0ffee"], ["--queue"]])
def test_what_is_not_kept_cannot_be_added_to_what_is(outrider: Outrider, other: list[str]) -> None:
    refused = outrider("ask", "--no-save", *other, "list files")
    assert refused.code == 2 and "--no-save keeps nothing" in refused.err


def test_an_unsaved_question_never_says_that_it_waits(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MODE", "edge")
    monkeypatch.setenv("OUTRIDER_OFFLINE", "queue")
    monkeypatch.setenv("OUTRIDER_REMOTE", "http://127.0.0.1:9")
    failed = outrider("ask", "--no-save", "list files")
    assert failed.code == 3 and "waits" not in failed.err and "queue send" not in failed.err
