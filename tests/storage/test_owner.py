"""Crashes and concurrent programs, with real processes: nothing is lost, and nobody is locked out."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import msgspec
import pytest

from storage import Conversation, Message, NotFound, Store
from tests.storage.test_bin import assert_sound
from tests.storage.window import WindowReport
from tests.storage.writer import ROUNDS, TOKENS_PER_ROUND, text_of

REPOSITORY = Path(__file__).parents[2]


@contextmanager
def writer(path: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.storage.writer", str(path), mode]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read(stream: IO[str] | None) -> tuple[str, int, str]:
    assert stream is not None
    message_id, tokens, status = stream.readline().split()
    return message_id, int(tokens), status


def owner_files(path: Path) -> list[Path]:
    return list(path.parent.glob(f"{path.name}-owner-*"))


def test_a_kill_loses_at_most_the_round_after_the_last_checkpoint(path: Path) -> None:
    for lines, delay in ((1, 0.0), (3, 0.0), (6, 0.0005), (8, 0.0), (60, 0.002)):
        stored: dict[str, tuple[int, str]] = {}
        with writer(path, "endless") as process:
            for _ in range(lines):
                message_id, tokens, status = read(process.stdout)
                stored[message_id] = tokens, status
            time.sleep(delay)
            process.kill()
            # What it reported before it died must be stored, too; its last line may be cut.
            assert process.stdout is not None
            for line in process.stdout.read().splitlines(keepends=True):
                if line.endswith("\n"):
                    message_id, count, status = line.split()
                    stored[message_id] = int(count), status

        with Store.open(path) as store:
            assert_sound(store)
            with store.database.read() as database:
                assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                assert database.execute("SELECT * FROM partials").fetchall() == []
            for message_id, (tokens, status) in stored.items():
                message = store.messages.get(message_id)
                assert tokens <= len(message.tokens) <= tokens + TOKENS_PER_ROUND
                assert message.text == text_of(len(message.tokens))
                assert message.tokens == tuple(range(len(message.tokens)))
                assert all(message.provenance) and len(message.provenance) == len(message.tokens)
                assert message.status == "done" if status == "done" else message.status in ("stopped", "done")
                assert store.branches.thread(message.conversation_id)[-1] == message
            assert owner_files(path) == []


def test_what_a_dead_process_left_is_recovered_once_and_can_be_found(path: Path) -> None:
    with writer(path, "patient") as process:
        for _ in range(1 + ROUNDS // 2):
            message_id, tokens, status = read(process.stdout)
    with Store.open(path) as store:
        message = store.messages.get(message_id)
        assert (message.status, len(message.tokens)) == ("stopped", tokens) and message.interrupted
        assert [hit.message for hit in store.search.messages(text_of(tokens))] == [message]
        assert store.messages.recover() == []


def test_a_message_that_a_living_process_writes_is_left_alone(path: Path) -> None:
    with writer(path, "patient") as process:
        for _ in range(1 + ROUNDS // 2):
            message_id, tokens, status = read(process.stdout)
        with Store.open(path) as store:
            assert store.messages.recover() == []
            seen = store.messages.get(message_id)
            assert (seen.status, len(seen.tokens), seen.text) == ("streaming", tokens, text_of(tokens))

            assert process.stdin is not None
            process.stdin.write("go on\n")
            process.stdin.flush()
            while status != "done":
                message_id, tokens, status = read(process.stdout)
            assert process.wait(timeout=30) == 0
            assert store.messages.recover() == []
            done = store.messages.get(message_id)
            assert (done.status, len(done.tokens)) == ("done", tokens)
    assert owner_files(path) == []


def test_a_store_opened_before_the_other_process_died_can_recover_too(path: Path) -> None:
    with Store.open(path) as store:
        with writer(path, "patient") as process:
            message_id, _, _ = read(process.stdout)
            assert store.messages.recover() == []
        assert store.messages.recover() == [message_id]


def test_answers_left_by_a_closed_store_are_recovered(path: Path) -> None:
    with Store.open(path) as store:
        conversation = store.conversations.create().id
        begun, written = (
            store.messages.add(conversation, "assistant", "so", parent_id=None, status="pending").id for _ in range(2)
        )
        store.messages.checkpoint(written, [1, 2], [True, False], "so far", {"model": "talker"})
        store.messages.checkpoint(written, [1, 2], [True, False], "so far")
    with Store.open(path) as store:
        for key, text, tokens, provenance, model in (
            (begun, "so", (), (), None),
            (written, "so far", (1, 2), (True, False), "talker"),
        ):
            found = store.messages.get(key)
            assert (found.text, found.tokens, found.provenance) == (text, tokens, provenance)
            assert found.status == "stopped" and found.interrupted and found.stats.get("model") == model


def test_two_stores_of_one_process_leave_each_other_alone(
    store: Store, path: Path, conversation: Conversation, answer: Message
) -> None:
    with Store.open(path) as neighbour:
        assert neighbour.messages.recover() == []
        assert store.messages.recover() == []
        assert neighbour.messages.get(answer.id).status == "pending"
        theirs = neighbour.messages.add(conversation.id, "user", "and zip?", parent_id=None, status="pending")
    assert store.messages.recover() == [theirs.id]


# ---- two windows -----------------------------------------------------------------------------------------------------


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
