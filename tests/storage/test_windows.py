"""Two windows write to one database while a third one reads: none is locked out, and nothing is lost."""

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
from tests.storage.window import WindowReport

REPOSITORY = Path(__file__).parents[2]
STEPS = 250
"""How many steps each window takes: about 1,200 transactions."""


def test_two_windows_write_without_pause(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        shared = store.conversations.create("shared").id
        command = [sys.executable, "-m", "tests.storage.window", str(path), shared]
        with ExitStack() as stack:
            windows = []
            for seed in (1, 2):
                told = stack.enter_context((tmp_path / f"{seed}.json").open("wb"))
                process = subprocess.Popen([*command, str(seed), str(STEPS)], cwd=REPOSITORY, stdout=told)
                windows.append(stack.enter_context(process))
                stack.callback(process.kill)
            while any(window.poll() is None for window in windows):
                assert all(found.conversation.id for found in store.search.conversations("word", limit=1000))
                store.conversations.rename(shared, f"shared {time.monotonic()}")
            assert [window.returncode for window in windows] == [0, 0], "no call of theirs has failed"
        files = [tmp_path / f"{seed}.json" for seed in (1, 2)]
        reports = [msgspec.json.decode(file.read_bytes(), type=WindowReport) for file in files]
        assert_sound(store)
        assert_as_reported(store, shared, reports)
        assert store.messages.recover() == [], "nothing was left unfinished"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def assert_as_reported(store: Store, shared: str, reports: list[WindowReport]) -> None:
    own = {key: one for report in reports for key, one in report.own.items()}
    assert {one.id for one in store.conversations.all()} - {shared} == {k for k, one in own.items() if not one.deleted}
    assert {one.id for one in store.bin.conversations()} == {key for key, one in own.items() if one.deleted}
    waiting = [text for one in own.values() if not one.deleted for text in one.queued]
    assert sorted(one.text for one in store.queue.all()) == sorted(waiting)
    said = {message.id: message for message in store.messages.of(shared) if message.role == "assistant"}
    assert {key: message.text for key, message in said.items()} == dict(reports[0].shared + reports[1].shared)
    assert all(message.status == "done" and len(message.tokens) == 4 for message in said.values())
    for key, one in own.items():
        if one.deleted:
            store.bin.restore(key)
        answers = [(message.id, message.text) for message in store.messages.of(key) if message.role == "assistant"]
        assert answers == one.answers
        for message_id, text in answers[-3:]:
            assert [hit.message.id for hit in store.search.messages(text)] == [message_id]
        assert [found.conversation.id for found in store.search.conversations(one.title)] == [key]
    for key in reports[0].erased + reports[1].erased:
        with pytest.raises(NotFound):
            store.bin.restore(key)
