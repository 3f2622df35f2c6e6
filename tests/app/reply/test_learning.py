"""A drafter that learns from the answers on its device: what is kept, what goes live, what takes it back."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.drafting import learning
from app.drafting.learning import Learner
from app.events import RoundEnded
from app.remotes.mode_meter import Verifying
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.learning.comparison import rounds_of
from drafter.learning.distributions import Distributions
from drafter.learning.versions import Versions
from drafter.payoff import Payoff
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from drafter.step import Correction
from storage import Store
from storage.replays import Replay
from tests.drafter.conftest import knowing_its_first_memory, some_correction
from tests.drafter.learning.test_versions import about
from tests.support.conversing import Heard, ask, until, until_mode
from tests.support.serving import VerifierProcess

SETTINGS = Settings(max_tokens=24, ahead=False, pace="fixed")
CONVERSATIONS = 30


@pytest.fixture
def own(tiny_pair: Path) -> Drafter:
    """A drafter for one test, because it is changed."""
    return Drafter.load(tiny_pair / "drafter")


@dataclass
class Device:
    """A device whose drafter learns from the answers of a server."""

    store: Store
    url: str
    drafter: Drafter
    learnt: Path
    learner: Learner

    @asynccontextmanager
    async def asking(self, mode: Verifying = "edge", **changed: Any) -> AsyncIterator[Assistant]:
        settings = SETTINGS.replaced({"mode": mode, **changed}, "test")
        source = AddressSource(self.url)
        options = Options(Drafters(self.drafter), source, settings, modes=(mode,), learnt=self.learnt)
        async with Assistant(self.store, options) as opened:
            await until_mode(opened, mode)
            yield opened

    async def is_asked(self, count: int = CONVERSATIONS, *, rarely: bool = False) -> None:
        """Ask so many questions. `rarely`: drafts have not paid of late, so most rounds go without one."""
        async with self.asking(pace="measured" if rarely else "fixed") as opened:

            def unpaid(heard: Heard) -> None:
                if rarely and isinstance(heard.last, RoundEnded):
                    opened.backend.routing.shown.speed.payoff._pacer.way = False

            for number in range(count):
                if rarely:
                    opened.backend.routing.shown.speed.payoff = Payoff()
                await ask(opened, f"what is {number} and how do I find it", watch=unpaid)

    @property
    def replays(self) -> list[Replay]:
        """What is kept of the answers."""
        return self.store.replays.all(self.drafter.memory_digest, 20)


@pytest.fixture
def device(store: Store, verifier: VerifierProcess, own: Drafter, tiny_pair: Path, tmp_path: Path) -> Device:
    learner = Learner(store, tiny_pair / "drafter", tmp_path / "learnt")
    return Device(store, verifier.url, own, tmp_path / "learnt", learner)


async def test_answers_count_while_drafts_do_not_pay(device: Device) -> None:
    """Many questions in one run, as of `ask --prompts`: after the first answers, none is drafted any more."""
    async with device.asking(pace="measured") as opened:
        for number in range(5):
            opened.backend.routing.shown.speed.payoff._pacer.way = False
            heard = await ask(opened, f"what is {number}")
            assert heard.done.stats.drafted_nodes == 0
    assert [len(one.samples) for one in device.learner.lessons()] == [24] * 5
    assert device.learner.check_live() is None


async def test_a_drafter_that_knows_its_first_memory_learns_too(
    store: Store, verifier: VerifierProcess, tiny_pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(tiny_pair / "drafter", tmp_path / "drafter"))
    drafter, learnt = knowing_its_first_memory(tiny_pair, folder), tmp_path / "learnt"
    device = Device(store, verifier.url, drafter, learnt, Learner(store, folder, learnt))
    async with device.asking() as opened:
        for text in ("hello there", "and then"):
            await ask(opened, text)
    lessons = device.learner.lessons()
    assert len(lessons) == 2 and lessons[0].rounds[0].memory == 1
    monkeypatch.setattr(learning, "MOST_BYTES", lessons[1].samples.states.nbytes)
    assert [one.message_id for one in device.learner.lessons()] == [lessons[1].message_id], "the newest answers count"


def bad(drafter: Drafter) -> Correction:
    """One with which the drafter guesses wrong."""
    down, up = some_correction(drafter.config)
    return Correction(down, 3 * up)


async def test_an_answer_is_drafted_again_as_it_was(device: Device) -> None:
    async with device.asking() as opened:
        conversation = device.store.conversations.create("one").id
        heard = [await ask(opened, text, conversation) for text in ("hello there", "and then", "go on")]
    assert [one.message_id for one in device.replays] == [one.message for one in heard]
    lessons = device.learner.lessons()
    assert len(lessons) == 3 and any(one.rounds[-1].memory for one in lessons), "memory had arrived"
    for lesson, one in zip(lessons, heard):
        assert lesson.tokens[-24:] == one.done.token_ids
        assert len(lesson.samples) == 24
        # A chain of the same guesses in the same rounds keeps no more than the tree that was sent.
        starts = [each.length - (len(lesson.tokens) - 24) for each in lesson.rounds]
        assert starts[0] == 0 and len(starts) == one.done.stats.rounds
        for first, end in zip(starts, [*starts[1:], 24]):
            hits = lesson.samples.hits[first:end]
            assert rounds_of(hits[: end - first - 1])[1] >= (end - first > 1)


@pytest.mark.training
async def test_a_version_goes_live_in_a_window_that_is_open_and_a_bad_one_comes_back(device: Device) -> None:
    await device.is_asked()
    assert device.learner.waiting() == CONVERSATIONS
    async with device.asking() as opened:
        before = await ask(opened, "what is it")
        device.learner.versions.publish(about(messages=(before.message,)), bad(device.drafter))
        worse = await ask(opened, "what is it")
        assert worse.text == before.text, "what it learnt changes the speed, never the text"
        assert device.drafter.version == 1 and device.store.messages.get(worse.message).stats["learnt"] == 1
        assert worse.done.stats.rounds > before.done.stats.rounds

        version = device.learner.learn()
        assert version.state == "in use" and version.low > 0 and version.tau_after > version.tau_before
        better = await ask(opened, "what is it")
        assert device.drafter.version == version.number == 2 and better.text == before.text
        assert better.done.stats.rounds < worse.done.stats.rounds
        assert device.learner.waiting() == 1, "only the newest answer was not seen"

        device.learner.versions.roll_back()
        await ask(opened, "what is it")
        assert device.drafter.version == 1
        device.store.bin.delete(device.store.messages.get(before.message).conversation_id)
        await ask(opened, "what is it", device.store.conversations.create("new").id)
        assert device.drafter.version == 0, "what it learnt from is gone"


@pytest.mark.training
@pytest.mark.parametrize("rarely", [False, True])
async def test_a_poor_version_is_taken_back(device: Device, monkeypatch: pytest.MonkeyPatch, rarely: bool) -> None:
    """Answers with rounds that nothing was drafted for do not count against it."""
    monkeypatch.setattr(learning, "FEWEST_LIVE", 6)
    await device.is_asked(6)
    assert device.learner.check_live() is None
    device.learner.versions.publish(about(messages=()), bad(device.drafter))
    assert device.learner.check_live() is None, "nothing was drafted with it yet"
    await device.is_asked(6, rarely=rarely)
    assert len(device.replays) == 12
    taken = device.learner.check_live()
    if rarely:
        assert taken is None and device.learner.versions.in_use is not None
    else:
        assert taken is not None and taken.number == 1 and device.learner.versions.in_use is None


async def test_nothing_is_kept_where_nothing_may_be_learnt_and_a_damaged_version_counts_as_none(device: Device) -> None:
    async with device.asking(learn=False) as opened:
        await ask(opened, "hello")
    assert device.replays == []
    async with device.asking() as opened:
        first = await ask(opened, "hello")
        versions = Versions.of(device.learnt, device.drafter.config)
        versions.publish(about(messages=(first.message,)), bad(device.drafter))
        (versions.folder / "version-1.npz").write_bytes(b"junk")
        again = await ask(opened, "hello")
        assert device.drafter.version == 0 and again.text == first.text


@pytest.mark.parametrize("mode", ["edge", "hosted"])
async def test_what_the_target_might_have_said_is_kept_of_each_token(device: Device, mode: Verifying) -> None:
    """The last part of it comes when the answer is complete already."""
    async with device.asking(mode) as opened:
        for text in ("hello there", "what is it"):
            heard = await ask(opened, text, device.store.conversations.create("one").id)
            assert len(heard.done.token_ids) == 24
            await until(lambda: len(Distributions.unpack(device.replays[-1].distributions).text) == 24)
    lessons = device.learner.lessons()
    assert len(lessons) == 2
    for lesson in lessons:
        text = lesson.target.text
        assert text.positions.tolist() == list(range(len(lesson.tokens) - 24, len(lesson.tokens)))
        # At temperature 0, the target says its likeliest token.
        assert text.tokens[:, 0].tolist() == list(lesson.tokens[-24:])
        known = lesson.samples.chances.sum(axis=1)
        assert ((known >= 0) & (known < 1.01)).all() and known.max() > 0.1
        rejected = lesson.target.branches
        assert len(rejected) == 0 if mode == "hosted" else len(rejected) > 10
        for position, instead in zip(rejected.positions.tolist(), rejected.instead.tolist()):
            assert lesson.tokens[position - 1] != instead, "it stood in the place of what was chosen"


async def test_distributions_that_are_damaged_on_the_disk_leave_the_tokens_to_learn_from(device: Device) -> None:
    async with device.asking() as opened:
        await ask(opened, "hello there")
    (replay,) = device.replays
    for data in (b"junk", replay.distributions[:-1], b""):
        device.store.replays.save(replay.message_id, device.drafter.memory_digest, replay.prompt, replay.rounds, data)
        (lesson,) = device.learner.lessons()
        assert len(lesson.target) == 0 and len(lesson.samples) == 24 and not lesson.samples.chances.any()
