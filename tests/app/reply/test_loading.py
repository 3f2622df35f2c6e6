"""A window's assistant before, while and after its backend is loaded, and what is written while the verifier starts."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from app.config import ChosenMode, Folders, Settings
from app.events import Drafted, ModeChanged, Started
from app.remotes.source import AddressSource, SourceFailed
from app.remotes.switcher import RemoteSwitcher
from app.reply.assistant import Assistant
from app.reply.bootstrap import assistant_of_window
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import VerifierClient
from storage import Store
from tests.support.conversing import Heard, ask, assistant, hear
from tests.support.serving import VerifierProcess


def starting(store: Store, drafter: Path, mode: ChosenMode = "offline", remote: str | None = None) -> Assistant:
    settings = Settings(mode=mode, drafter=str(drafter), max_tokens=5, remote=remote)
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


async def test_who_does_not_want_to_wait_finds_the_question_later(store: Store, tiny_pair: Path) -> None:
    conversation = store.conversations.create("a").id
    async with starting(store, tiny_pair / "drafter") as core:
        asking = core.reply(conversation, "list files")
        await anext(asking)
        waiting = asyncio.create_task(hear(asking))
        await asyncio.sleep(0)
        core.stop()
        assert (await waiting).done.stopped
        hasty = store.conversations.create("b").id
        asking = core.reply(hasty, "list files")
        await anext(asking)
        core.stop()  # Before anybody waits.
        assert (await hear(asking)).done.stopped and store.branches.thread(hasty)[-1].status == "stopped"
        question, answer = store.branches.thread(conversation)
        assert (question.text, answer.text, answer.status) == ("list files", "", "stopped")
        edited = core.edit(question.id, "list hidden files")
        await anext(edited)
        assert [message.text for message in store.branches.thread(conversation)] == ["list hidden files", ""]
        core.start()
        assert (await hear(edited)).done
        assert (await hear(core.regenerate(answer.id))).done


async def test_what_is_queued_early_is_sent_later(store: Store, tiny_pair: Path, verifier: VerifierProcess) -> None:
    conversation = store.conversations.create("a").id
    async with starting(store, tiny_pair / "drafter", "auto", verifier.url) as core:
        queued = core.outbox.enqueue(conversation, "list files")
        core.start()
        async with aclosing(core.due()) as due:
            assert await anext(due) == queued
            assert (await hear(core.send(queued))).done
            later = core.outbox.enqueue(conversation, "and hidden ones")
            assert await anext(due) == later
    assert [message.text for message in store.branches.thread(conversation)][0] == "list files"


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
async def test_with_unreadable_remotes_nobody_answers(store: Store, tiny_pair: Path, remote: str | None) -> None:
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


# ---- the drafter writes what it is sure of while the verifier starts -------------------------------------------------


QUESTION = "list files"


class Starts(AddressSource):
    """A source like the bundled model: its model fits the drafter, and it takes a while to start."""

    own = True

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.up = asyncio.Event()
        self.fails = False

    async def client(self) -> VerifierClient:
        await self.up.wait()
        if self.fails:
            raise SourceFailed("it did not start")
        return await super().client()


async def asked(source: Starts, opened: Assistant, *, early: bool) -> tuple[Heard, str]:
    """One answer, and the text that was there before the verifier was."""
    shown = ""

    def watch(heard: Heard) -> None:
        nonlocal shown
        if not source.up.is_set() and (isinstance(heard.last, Drafted) or not early and heard.modes):
            shown = heard.text
        if not source.up.is_set() and heard.reply.mode == "warming" and (heard.reply.stats.drafted or not early):
            source.up.set()

    return await hear(opened.reply(opened.store.conversations.create("test").id, QUESTION), watch), shown


@pytest.mark.parametrize("early", [True, False])
async def test_the_drafter_writes_before_the_verifier_is_there(
    verifier: VerifierProcess,
    drafter: Drafter,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    early: bool,
) -> None:
    monkeypatch.setattr("app.reply.generation.SURE", 0.0)  # Of random weights nothing is sure.
    settings, source = Settings(max_tokens=40), Starts(verifier.url)
    async with Assistant(store, Options(Drafters(drafter), source, settings, modes=("edge",), early=early)) as opened:
        heard, shown = await asked(source, opened, early=early)
    edge = Settings(mode="edge", max_tokens=40)
    async with assistant(drafter, tmp_path / "plain.db", verifier.url, settings=edge, draft=False) as opened:
        plain = await ask(opened, QUESTION)
    assert bool(shown) == early and heard.modes == ["warming", "edge"]
    assert heard.done.token_ids == plain.done.token_ids and all(heard.done.provenance)
    assert store.messages.get(heard.message).text == plain.text


@pytest.mark.parametrize("case", ["unsure", "edge", "sampled"])
async def test_only_auto_mode_at_temperature_0_writes_early_and_only_what_is_sure(
    verifier: VerifierProcess, drafter: Drafter, store: Store, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr("app.reply.generation.SURE", 1.1 if case == "unsure" else 0.0)
    chosen = {"unsure": {}, "sampled": {"temperature": 0.8, "seed": 1}}.get(case, {"mode": "edge"})
    settings, source = Settings(max_tokens=8).replaced(chosen, "the test"), Starts(verifier.url)
    async with Assistant(store, Options(Drafters(drafter), source, settings, early=True)) as opened:
        asyncio.get_running_loop().call_later(0.3, source.up.set)
        heard = await ask(opened, QUESTION)
    until = next(at for at, one in enumerate(heard.events) if isinstance(one, ModeChanged) and one.mode != "warming")
    assert not any(isinstance(event, Drafted) for event in heard.events[:until])
    assert all(heard.done.provenance)


async def test_where_the_verifier_does_not_start_the_drafter_goes_on_from_there(
    drafter: Drafter, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.reply.generation.SURE", 0.0)
    source = Starts("http://127.0.0.1:9")
    source.fails = True
    async with Assistant(store, Options(Drafters(drafter), source, Settings(max_tokens=40), early=True)) as opened:
        heard, shown = await asked(source, opened, early=True)
    async with Assistant(store, Options(Drafters(drafter), None, Settings(mode="offline", max_tokens=40))) as opened:
        alone = await ask(opened, QUESTION)
    assert shown and heard.modes == ["warming", "offline"]
    assert heard.done.token_ids == alone.done.token_ids
