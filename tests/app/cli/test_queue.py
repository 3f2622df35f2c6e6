"""`outrider ask --queue`, `outrider queue` and `outrider verify`, as scripts see them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from storage import Store
from tests.support.chat_server import ChatServer, Script
from tests.support.commands import Outrider
from tests.support.serving import REPOSITORY, VerifierProcess

NOBODY = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "12")


def own(outrider: Outrider, verifier: VerifierProcess, question: str) -> str:
    """The answer of the target alone."""
    asked = outrider("ask", question, "--remote", verifier.url, "--no-draft", "--json")
    return str(asked.json["text"])


def test_a_question_is_kept_listed_changed_and_sent(outrider: Outrider, verifier: VerifierProcess) -> None:
    kept = [outrider("ask", "--queue", question) for question in ("list files", "show\x1b[2J\nthe disk", "never")]
    assert [asked.code for asked in kept] == [0, 0, 0] and "queued" in kept[0].err
    first, second, third = (asked.out.strip() for asked in kept)
    listed = outrider("queue")
    assert [line.split("  ")[0] for line in listed.out.splitlines()] == [first, second, third]
    assert listed.out.splitlines()[1].endswith("show the disk")
    assert outrider("queue", "edit", second, "show disk usage").code == 0
    assert outrider("queue", "edit", second, " ").code == 2
    assert outrider("queue", "remove", third).code == 0
    for change in (("remove", "c0ffee"), ("edit", "c0ffee", "a")):
        unknown = outrider("queue", *change)
        assert unknown.code == 1 and "outrider queue" in unknown.err and unknown.out == ""
    sent = outrider("queue", "send", "--remote", verifier.url)
    assert sent.code == 0
    assert sent.out.splitlines() == [own(outrider, verifier, text) for text in ("list files", "show disk usage")]
    assert "never" not in sent.err
    for nothing in (outrider("queue"), outrider("queue", "send", "--remote", verifier.url)):
        assert nothing.says(0, "nothing is queued") and nothing.out == ""


def test_verify_prints_the_answer_and_tells_what_was_not_kept(outrider: Outrider, verifier: VerifierProcess) -> None:
    assert outrider("verify", "--remote", verifier.url).says(1, "no answer")
    # A high temperature, so that the answer differs from the target's.
    alone = outrider("ask", "list files", "--mode", "offline", "--temperature", "2", "--seed", "3")
    conversation = outrider("history").out.split()[0]
    answer = own(outrider, verifier, "list files")
    assert alone.out != answer and "the small model for tiny alone wrote this answer; it was not checked" in alone.err
    verified = outrider("verify", conversation, "--remote", verifier.url)
    assert verified.code == 0 and verified.out == answer + "\n"
    assert "of 12 drafted tokens" in verified.err and "not kept by the model: " in verified.err
    again = outrider("verify", conversation, "--remote", verifier.url)
    assert (again.code, again.out) == (0, verified.out) and "checked already" in again.err
    assert outrider("verify", "c0ffee", "--remote", verifier.url).says(1, "c0ffee")


def test_killed_while_it_sends_nothing_is_lost_or_sent_twice(
    outrider: Outrider, verifier: VerifierProcess, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "120")
    questions = ["list files", "show disk usage"]
    for question in questions:
        outrider("ask", "--queue", question)
    monkeypatch.setenv("OUTRIDER_REMOTE", verifier.url)
    # One or two tokens a round, so that the kill comes in the middle.
    slow = {"OUTRIDER_NODES": "1", "OUTRIDER_PACE": "fixed", "OUTRIDER_MODE": "edge"}
    command = [sys.executable, "-m", "app.cli", "queue", "send"]
    with Store.open(home / "data" / "outrider.db") as store:
        for enough in (1, 20):  # Of the first answer; then of the one that takes it up.
            process = subprocess.Popen(
                command, cwd=REPOSITORY, env={**os.environ, **slow}, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                while not unfinished(store, enough):
                    assert process.poll() is None, "it ended before it could be killed"
                    time.sleep(0.005)
            finally:
                process.kill()
                process.wait()
            store.messages.recover()
            assert len(store.queue.all()) == 2
            assert outrider("queue").out.splitlines()[0].split("  ")[2:] == ["verify", "list files"]
    sent = outrider("queue", "send", "--remote", verifier.url)
    assert sent.code == 0 and outrider("queue").out == ""
    with Store.open(home / "data" / "outrider.db") as store:
        threads = [store.branches.thread(conversation.id) for conversation in store.conversations.all()]
        every = [message for one in store.conversations.all() for message in store.messages.of(one.id)]
    assert {len(thread) for thread in threads} == {2}
    assert sorted(message.text for message in every if message.role == "user") == questions
    for asked, answer in threads:
        assert answer.status == "done" and all(answer.provenance)
        assert answer.text == own(outrider, verifier, asked.text)


def unfinished(store: Store, tokens: int) -> bool:
    """Whether an answer that is being written has that many."""
    messages = (message for one in store.conversations.all() for message in store.messages.of(one.id))
    return any(message.status == "streaming" and len(message.tokens) >= tokens for message in messages)


def test_a_server_that_is_away_keeps_no_other_waiting(
    outrider: Outrider, verifier: VerifierProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    outrider("remote", "add", "away", NOBODY)
    for question in ("list files", "show files"):
        outrider("ask", "--queue", question, "--remote", "away")
    monkeypatch.setenv("OUTRIDER_REMOTE", verifier.url)
    outrider("ask", "--queue", "show disk usage")
    sent = outrider("queue", "send")
    assert (sent.code, sent.out) == (3, own(outrider, verifier, "show disk usage") + "\n")
    assert sent.err.count("nothing listens") == 1 and "2 of 3 stay queued" in sent.err


def test_a_question_that_the_server_refuses_is_exit_3_also_from_the_queue(
    outrider: Outrider, server: ChatServer
) -> None:
    server.refuses = "no more for today"
    assert outrider("ask", "why?").says(3, "no more for today")
    outrider("ask", "--queue", "why?")
    assert outrider("queue", "send").says(3, "no more for today")


def test_an_answer_that_the_server_broke_off_is_exit_1_everywhere(
    outrider: Outrider, monkeypatch: pytest.MonkeyPatch, server: ChatServer
) -> None:
    broken, whole = Script(["Half"], reason="timeout"), Script(["Whole."])
    server.scripts = [broken, broken, whole, broken, whole, broken]
    assert outrider("ask", "why?").says(1, "broke it off (timeout)")
    prompts = ({"turns": ["why?", "and then?"]}, {"prompt": "what?"})
    ran = outrider("ask", "--prompts", "-", stdin="\n".join(json.dumps(one) for one in prompts))
    assert ran.code == 1 and [(row["text"], row["cut"]) for row in ran.rows] == [("Half", "broken"), ("Whole.", None)]
    for question in ("why?", "what?"):
        outrider("ask", "--queue", question)
    sent = outrider("queue", "send")
    assert (sent.code, sent.out) == (1, "Half\nWhole.\n") and outrider("queue").out == ""
    with monkeypatch.context() as alone:
        alone.delenv("OUTRIDER_REMOTE")
        assert outrider("ask", "list files", "--mode", "offline").code == 0
    verified = outrider("verify")
    assert (verified.code, verified.out) == (1, "Half\n") and "broke it off" in verified.err
