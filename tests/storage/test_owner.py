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

from storage import Message, Store
from tests.storage.stored import assert_sound
from tests.storage.window import WindowReport
from tests.storage.writer import ROUNDS, TOKENS_PER_ROUND, text_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY


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
    for lines, delay in ((1, 0.0), (6, 0.0005), (60, 0.002)):
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


def test_an_answer_is_left_alone_while_its_process_lives_and_is_recovered_once(path: Path) -> None:
    with Store.open(path) as store, writer(path, "patient") as living:
        with writer(path, "patient") as dying:
            for process in (dying, living):
                for _ in range(1 + ROUNDS // 2):
                    message_id, tokens, status = read(process.stdout)
                assert store.messages.recover() == []
                seen = store.messages.get(message_id)
                assert (seen.status, len(seen.tokens), seen.text) == ("streaming", tokens, text_of(tokens))
        (dead,) = store.messages.recover()
        message = store.messages.get(dead)
        assert (message.status, len(message.tokens)) == ("stopped", tokens) and message.interrupted
        assert message in [hit.message for hit in store.search.messages(text_of(tokens))]
        assert dead != message_id and store.messages.recover() == []

        assert living.stdin is not None
        living.stdin.write("go on\n")
        living.stdin.flush()
        while status != "done":
            _, tokens, status = read(living.stdout)
        assert living.wait(timeout=PATIENCE_SECONDS) == 0 and store.messages.recover() == []
        done = store.messages.get(message_id)
        assert (done.status, len(done.tokens)) == ("done", tokens)
    assert owner_files(path) == []


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


def test_two_stores_of_one_process_leave_each_other_alone(store: Store, path: Path, answer: Message) -> None:
    with Store.open(path) as neighbour:
        assert neighbour.messages.recover() == store.messages.recover() == []
        assert neighbour.messages.get(answer.id).status == "pending"
        theirs = neighbour.messages.add(answer.conversation_id, "user", "zip?", parent_id=None, status="pending")
    assert store.messages.recover() == [theirs.id]


# ---- two windows -----------------------------------------------------------------------------------------------------


STEPS = 120
"""How many steps each window takes: about 600 transactions."""


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
    expected = {shared: reports[0].shared + reports[1].shared, **reports[0].own, **reports[1].own}
    assert {one.id for one in store.conversations.all()} == expected.keys() and store.queue.all() == []
    for key, answers in expected.items():
        said = [message for message in store.messages.of(key) if message.role == "assistant"]
        assert all(message.status == "done" for message in said)
        assert sorted((message.id, message.text) for message in said) == sorted(answers)
        for message_id, text in answers[-3:]:
            assert [hit.message.id for hit in store.search.messages(text)] == [message_id]
