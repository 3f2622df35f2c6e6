"""Two windows and a third one that looks on, on one database at once: nothing is locked out, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from storage import NotFound, Store
from tests.storage.test_bin import assert_sound
from tests.storage.window import Report

REPOSITORY = Path(__file__).parents[2]
STEPS = 500
"""Of each window; some 2,500 transactions."""


def test_two_windows_write_without_pause(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        shared = store.conversations.create("shared").id
        command = [sys.executable, "-m", "tests.storage.window", str(path), shared]
        with ExitStack() as stack:
            told = [stack.enter_context((tmp_path / f"{seed}.json").open("w+b")) for seed in (1, 2)]
            windows = [
                stack.enter_context(
                    subprocess.Popen([*command, str(seed), str(STEPS)], cwd=REPOSITORY, stdout=told[seed - 1])
                )
                for seed in (1, 2)
            ]
            for window in windows:
                stack.callback(window.kill)
            while any(window.poll() is None for window in windows):
                assert all(found.conversation.id for found in store.search.conversations("word", limit=1000))
                store.conversations.rename(shared, f"shared {time.monotonic()}")
            reports = [msgspec.json.decode((tmp_path / f"{seed}.json").read_bytes(), type=Report) for seed in (1, 2)]
            assert [window.returncode for window in windows] == [0, 0], "no call of theirs has failed"

        assert_sound(store)
        assert_as_reported(store, shared, reports)
        assert store.messages.recover() == [], "nothing was left unfinished"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def assert_as_reported(store: Store, shared: str, reports: list[Report]) -> None:
    own = {key: one for report in reports for key, one in report.own.items()}
    assert {one.id for one in store.conversations.all()} == {
        shared,
        *(key for key, one in own.items() if not one.deleted),
    }
    assert {one.id for one in store.bin.conversations()} == {key for key, one in own.items() if one.deleted}
    assert sorted(one.text for one in store.queue.all()) == sorted(
        text for one in own.values() if not one.deleted for text in one.queued
    )
    said = {message.id: message for message in store.messages.of(shared) if message.role == "assistant"}
    assert {key: message.text for key, message in said.items()} == {
        one.id: one.text for report in reports for one in report.shared
    }
    assert all(message.status == "done" and len(message.tokens) == 4 for message in said.values())
    for key, one in own.items():
        if one.deleted:
            store.bin.restore(key)
        conversation = store.conversations.get(key)
        assert (conversation.title, conversation.pinned) == (one.title, one.pinned)
        answers = [message for message in store.messages.of(key) if message.role == "assistant"]
        assert [message.text for message in answers] == [answer.text for answer in one.answers if not answer.deleted]
        for answer in one.answers[-3:]:
            assert [hit.message.id for hit in store.search.messages(answer.text)] == [answer.id] * (not answer.deleted)
            if answer.deleted:
                store.bin.restore_message(answer.id)
                assert store.messages.get(answer.id).text == answer.text
        assert [found.conversation.id for found in store.search.conversations(one.title)] == [key]
    for report in reports:
        for key, tokens in report.memories.items():
            assert store.memory.load(key, b"format") == [(0, tokens, bytes(tokens))]
        for key in report.erased:
            with pytest.raises(NotFound):
                store.bin.restore(key)
