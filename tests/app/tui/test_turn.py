from __future__ import annotations

from dataclasses import replace

import pytest

from app.events import Done, Drafted, Failed, Judged, Stats, Verified
from app.tui.turn import Turn
from storage import Store
from tests.app.tui.scripted import finished, store_turns


def played(*events: Drafted | Verified | Judged | Done | Failed) -> Turn:
    turn = Turn("q")
    for event in events:
        turn.apply(event)
    return turn


def test_a_verified_answer_needs_no_note() -> None:
    turn = played(Drafted("ls", 1), Verified("ls -l", 2, 1), finished(2))
    assert (turn.text, turn.note, turn.outcome) == ("ls -l", "", "done")


def test_an_answer_finished_offline_says_so() -> None:
    assert played(Drafted("ls", 2), finished(2, 2)).note == "drafted offline, not checked"
    turn = played(Verified("ls", 1, 0), Drafted(" -l", 2), finished(3, 2))
    assert (turn.text, turn.note) == ("ls -l", "drafted offline, not checked: 2 of 3 tokens")
    named = played(Drafted("ls", 2), replace(finished(2, 2), drafted_by="small model for qwen"))
    assert named.note == "drafted offline by the small model for qwen, not checked"


def test_stopping_drops_guesses_that_were_not_stored() -> None:
    turn = played(Verified("ls", 1, 0), Drafted(" -l", 2), finished(1, stopped=True))
    assert (turn.text, turn.note, turn.outcome) == ("ls", "stopped", "stopped")


def test_an_answer_cut_at_the_limit_says_so_and_when_it_is_opened_again(store: Store) -> None:
    assert played(Verified("ls", 1, 0), Done(False, "length", (1,), (True,), Stats())).note == "cut at the length limit"
    conversation = store.conversations.create("t").id
    answer = store.messages.ask(conversation, "a", parent_id=None).id
    store.messages.finish(answer, (1,), (True,), "ls", "done", {"reason": "length"})
    (turn,) = Turn.of_thread(store.branches.thread(conversation))
    assert turn.note == "cut at the length limit"


def test_a_failure_keeps_the_text() -> None:
    turn = played(Verified("ls", 1, 0), Failed("No verifier; run `outrider serve`.", "unavailable"))
    assert (turn.text, turn.error, turn.note) == ("ls", "No verifier; run `outrider serve`.", "")


def test_stored_text_is_sanitised(store: Store) -> None:
    conversation = store_turns(store, "t", [("a\x1b]52;c;aGk=\x07b", "c\x1b[2Jd"), ("e", "f")])
    turns = Turn.of_thread(store.branches.thread(conversation))
    assert [(turn.question, turn.text, turn.outcome) for turn in turns] == [("ab", "cd", "done"), ("e", "f", "done")]


def test_a_question_without_an_answer_shows_as_stopped(store: Store) -> None:
    conversation = store.conversations.create("t")
    store.messages.add(conversation.id, "user", "a", parent_id=None, status="done")
    (turn,) = Turn.of_thread(store.branches.thread(conversation.id))
    assert (turn.question, turn.text, turn.note) == ("a", "", "stopped")


@pytest.mark.parametrize(
    ("dropped", "shown"),
    [
        ("and **more**", "and **more**"),
        ("so:\n\n```sh\nls\n```\n", "so:\n\n```sh\nls\n```\n"),
        ("x -l\n```\n", "```\nx -l\n```\n"),
        ("x -l\n```\n\nOr:\n\n```sh\nls -a\n```", "```\nx -l\n```\n\nOr:\n\n```sh\nls -a\n```"),
        ("x -l\n```\n\nOr:\n\n```sh\nls", "```\nx -l\n```\n\nOr:\n\n```sh\nls"),
    ],
)
def test_what_was_not_kept_is_code_where_it_was_code(dropped: str, shown: str) -> None:
    turn = played(Verified("ls", 1, 0), Judged("a", 1, 9, dropped), finished(1))
    assert [struck.text for struck in turn.dropped] == [shown]
