"""A window's assistant before, while and after its backend is loaded, over the tiny drafter."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from app.config import Folders, Settings
from app.events import Started
from app.remotes.source import AddressSource
from app.remotes.switcher import RemoteSwitcher
from app.reply.assistant import Assistant
from app.reply.bootstrap import assistant_of_window
from storage import Store
from tests.support.conversing import ask, hear
from tests.support.serving import VerifierProcess


def starting(store: Store, drafter: Path) -> Assistant:
    settings = Settings(mode="offline", drafter=str(drafter), max_tokens=5)
    return assistant_of_window(store, settings, Folders.locate({"OUTRIDER_HOME": str(store.path.parent)}))


async def test_a_question_waits_for_the_assistant(store: Store, tiny_pair: Path) -> None:
    conversation = store.conversations.create("a").id
    async with starting(store, tiny_pair / "drafter") as core:
        assert (core.loaded, core.status().mode) == (False, "warming")
        asking = core.reply(conversation, "list files")
        started = await anext(asking)
        question, pending = store.branches.thread(conversation)
        assert (question.text, pending.status) == ("list files", "pending"), "stored, though nobody can answer yet"
        core.start()
        rest = await hear(asking)
        assert started == Started(conversation, pending.id) and rest.done and not rest.of(Started)
        assert core.loaded and core.status().mode == "offline"
        assert len(store.branches.thread(conversation)[-1].tokens) == 5
        assert (await ask(core, "and hidden ones", conversation)).done


async def test_the_remote_can_be_chosen_before_and_after(
    store: Store, tiny_pair: Path, verifier: VerifierProcess
) -> None:
    settings = Settings(drafter=str(tiny_pair / "drafter"), remote="http://127.0.0.1:9", max_tokens=5)
    folders = Folders.locate({"OUTRIDER_HOME": str(store.path.parent)})
    async with assistant_of_window(store, settings, folders) as core:
        core.use(AddressSource("http://127.0.0.1:8"))
        core.use(AddressSource(verifier.url))
        core.start()
        assert (await core.settled()).mode in ("edge", "hosted")
        core.use(None)
        assert core.status().why == "offline by choice"


async def test_who_does_not_want_to_wait_finds_the_question_later(store: Store, tiny_pair: Path) -> None:
    conversation = store.conversations.create("a").id
    async with starting(store, tiny_pair / "drafter") as core:
        asking = core.reply(conversation, "list files")
        await anext(asking)
        waiting = asyncio.create_task(hear(asking))
        await asyncio.sleep(0)
        core.stop()
        assert (await waiting).done.stopped
        question, answer = store.branches.thread(conversation)
        assert (question.text, answer.text, answer.status) == ("list files", "", "stopped")
        edited = core.edit(question.id, "list hidden files")
        await anext(edited)
        assert [message.text for message in store.branches.thread(conversation)] == ["list hidden files", ""]
        core.start()
        assert (await hear(edited)).done
        assert (await hear(core.regenerate(answer.id))).done


async def test_a_stop_before_anybody_waits_is_not_lost(store: Store, tiny_pair: Path) -> None:
    conversation = store.conversations.create("a").id
    async with starting(store, tiny_pair / "drafter") as core:
        asking = core.reply(conversation, "list files")
        await anext(asking)
        core.stop()
        assert (await hear(asking)).done.stopped and store.branches.thread(conversation)[-1].status == "stopped"


async def test_only_a_question_can_be_put_in_other_words_before_and_after(store: Store, tiny_pair: Path) -> None:
    answer = store.messages.ask(store.conversations.create("a").id, "list files", parent_id=None)
    async with starting(store, tiny_pair / "drafter") as core:
        for _ in range(2):
            failed = (await hear(core.edit(answer.id, "list hidden files"))).failed
            assert failed is not None and "Only a question" in failed.message
            core.start()
            await core.until_loaded()
    assert len(store.branches.thread(answer.conversation_id)) == 2, "and nothing is stored"


async def test_what_is_queued_early_is_due_as_soon_as_the_verifier_is_there(
    store: Store, tiny_pair: Path, verifier: VerifierProcess
) -> None:
    conversation = store.conversations.create("a").id
    settings = Settings(drafter=str(tiny_pair / "drafter"), remote=verifier.url, max_tokens=5)
    async with assistant_of_window(store, settings, Folders.locate({"OUTRIDER_HOME": str(store.path.parent)})) as core:
        queued = core.outbox.enqueue(conversation, "list files")
        core.start()
        async with aclosing(core.due()) as due:
            assert await anext(due) == queued
            assert (await hear(core.send(queued))).done
            later = core.outbox.enqueue(conversation, "and hidden ones")
            assert await anext(due) == later
    assert [message.text for message in store.branches.thread(conversation)][0] == "list files"


async def test_a_window_that_closes_early_has_stored_the_question(store: Store, tiny_pair: Path) -> None:
    conversation = store.conversations.create("a").id
    async with starting(store, tiny_pair / "drafter") as core:
        asking = core.reply(conversation, "list files")
        await anext(asking)
        await asking.aclose()
    thread = store.branches.thread(conversation)
    assert [(one.text, one.status) for one in thread] == [("list files", "done"), ("", "stopped")]


async def test_without_a_drafter_all_can_be_read_and_the_reason_is_told(store: Store, tmp_path: Path) -> None:
    conversation = store.conversations.create("a").id
    async with starting(store, tmp_path / "nowhere") as core:
        changes = core.changes()
        core.start()
        change = await anext(changes)
        assert change == core.status() and change.mode == "offline" and "nowhere" in change.why
        failed = (await ask(core, "list files", conversation)).failed
        assert failed is not None and "nowhere" in failed.message
        assert [one.text for one in store.branches.thread(conversation)] == ["list files", ""]
        assert [one.title for one in core.store.conversations.all()] == ["a"]
        queued = core.outbox.enqueue(conversation, "later")
        assert [one.id for one in core.outbox.queued()] == [queued.id]
        assert [one async for one in core.due()] == []
        core.outbox.unqueue(queued.id)
        assert core.outbox.queued() == []


@pytest.mark.parametrize("remote", [None, "office"])
async def test_with_remotes_that_cannot_be_read_nobody_answers_in_their_place(
    store: Store, tiny_pair: Path, remote: str | None
) -> None:
    folders = Folders.locate({"OUTRIDER_HOME": str(store.path.parent)})
    folders.config.mkdir()
    (folders.config / "remotes.toml").write_text("[remotes")
    conversation = store.conversations.create("a").id
    settings = Settings(drafter=str(tiny_pair / "drafter"), max_tokens=5, remote=remote)
    async with assistant_of_window(store, settings, folders) as core:
        assert "remotes.toml is not valid TOML" in RemoteSwitcher(settings, folders, core).trouble
        core.start()
        failed = (await ask(core, "list files", conversation)).failed
        assert failed is not None and "remotes.toml is not valid TOML" in failed.message and not failed.queued
        await core.settled()
        assert core.status().mode == "offline" and "remotes.toml is not valid TOML" in core.status().why
    assert [message.text for message in store.branches.thread(conversation)] == ["list files", ""]
