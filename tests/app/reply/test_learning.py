"""A drafter that learns from the answers on its device: what is kept, what goes live, what takes it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from app.config import Settings
from app.drafting import learning
from app.drafting.learning import Learner, NothingLearnt
from app.events import RoundEnded
from app.remotes.mode_meter import Verifying
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.learning.comparison import rounds_of
from drafter.learning.distributions import Distributions
from drafter.learning.samples import Replayer, Round
from drafter.learning.versions import Version, Versions
from drafter.model import MemoryEncoder
from drafter.payoff import Payoff
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from drafter.step import Correction
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from remote.verifier.drafting.own_drafter import OwnDrafter, OwnDrafts
from remote.verifier.drafting.stream_payoff import StreamPayoff
from remote.verifier.http import create_app
from remote.verifier.serve import card
from storage import Store
from tests.remote.verifier.test_http import running
from tests.support.conversing import ask, until_connected, until_mode
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

SETTINGS = Settings(max_tokens=24, ahead=False, pace="fixed")
CONVERSATIONS = 30


@pytest.fixture
def own(tiny_pair: Path) -> Drafter:
    """A drafter for one test, because it is changed."""
    return Drafter.load(tiny_pair / "drafter")


@pytest.fixture
def learnt(tmp_path: Path) -> Path:
    return tmp_path / "learnt"


@pytest.fixture
def learner(store: Store, tiny_pair: Path, learnt: Path) -> Learner:
    return Learner(store, tiny_pair / "drafter", learnt)


@asynccontextmanager
async def on(
    store: Store, url: str, drafter: Drafter, learnt: Path, settings: Settings, mode: Verifying = "edge"
) -> AsyncIterator[Assistant]:
    options = Options(Drafters(drafter), AddressSource(url), settings, modes=(mode,), learnt=learnt)
    async with Assistant(store, options) as opened:
        await until_mode(opened, mode)
        yield opened


async def filled(
    store: Store, url: str, drafter: Drafter, learnt: Path, count: int = CONVERSATIONS, *, rarely: bool = False
) -> None:
    """Ask so many questions. `rarely`: drafts have not paid of late, so most rounds go without one."""
    settings = SETTINGS.replaced({"pace": "measured"}, "test") if rarely else SETTINGS
    async with on(store, url, drafter, learnt, settings) as opened:
        for number in range(count):
            if rarely:
                opened.backend.routing.shown.speed.payoff = Payoff()
            asking = opened.reply(store.conversations.create("one").id, f"what is {number} and how do I find it")
            async with aclosing(asking) as events:
                async for event in events:
                    if rarely and isinstance(event, RoundEnded):
                        opened.backend.routing.shown.speed.payoff._pacer.way = False


async def test_answers_count_while_drafts_do_not_pay(
    verifier: VerifierProcess, own: Drafter, store: Store, learnt: Path, learner: Learner
) -> None:
    """Many questions in one run, as of `ask --prompts`: after the first answers, none is drafted any more."""
    settings = SETTINGS.replaced({"pace": "measured"}, "test")
    async with on(store, verifier.url, own, learnt, settings) as opened:
        for number in range(5):
            opened.backend.routing.shown.speed.payoff._pacer.way = False
            heard = await ask(opened, f"what is {number}")
            assert heard.done.stats.drafted_nodes == 0
    assert [len(one.samples) for one in learner.lessons()] == [24] * 5
    assert learner.check_live() is None


def bad(drafter: Drafter) -> Correction:
    """One with which the drafter guesses wrong."""
    config, random = drafter.config, np.random.default_rng(0)
    kept = len(config.draft_vocabulary) or config.vocabulary
    down = random.normal(size=(config.hidden, 4)).astype(np.float32)
    return Correction(down, random.normal(size=(4, kept)).astype(np.float32) * 3)


def about(*messages: str) -> Version:
    return Version(
        number=0, created="2030-01-01T00:00:00+00:00", state="not better", answers=1, tokens=1, tau_before=1.0,
        tau_after=1.0, low=0.0, high=0.0, fixed=0.0, seconds=0.0, messages=messages,
    )  # fmt: skip


async def test_an_answer_is_drafted_again_as_it_was(
    verifier: VerifierProcess, own: Drafter, store: Store, learnt: Path, learner: Learner
) -> None:
    async with on(store, verifier.url, own, learnt, SETTINGS) as opened:
        conversation = store.conversations.create("one").id
        heard = [await ask(opened, text, conversation) for text in ("hello there", "and then", "go on")]
    replays = store.replays.all(own.memory_digest, 10)
    assert [one.message_id for one in replays] == [one.message for one in heard]
    lessons = learner.lessons()
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


async def test_rounds_that_do_not_fit_are_refused(own: Drafter, tiny_pair: Path) -> None:
    from drafter.step import StepGraph

    graph = StepGraph(tiny_pair / "drafter/drafter.onnx", own.config, states=True)
    replayer = Replayer(graph, own.config)
    tokens = list(range(10, 30))
    assert len(replayer.samples(tokens, [Round(8, 0), Round(11, 0)], [])) == 12
    for rounds in ([], [Round(0, 0)], [Round(11, 0), Round(8, 0)], [Round(20, 0)]):
        with pytest.raises(ValueError, match="do not fit"):
            replayer.samples(tokens, rounds, [])
    with pytest.raises(ValueError, match="is gone"):
        replayer.samples(tokens, [Round(8, 4)], [])


async def test_a_version_goes_live_in_a_window_that_is_open_and_a_bad_one_comes_back(
    verifier: VerifierProcess, own: Drafter, store: Store, learnt: Path, learner: Learner
) -> None:
    await filled(store, verifier.url, own, learnt)
    assert learner.waiting() == CONVERSATIONS
    async with on(store, verifier.url, own, learnt, SETTINGS) as opened:
        before = await ask(opened, "what is it")
        learner.versions.publish(about(before.message), bad(own))
        worse = await ask(opened, "what is it")
        assert worse.text == before.text, "what it learnt changes the speed, never the text"
        assert own.version == 1 and store.messages.get(worse.message).stats["learnt"] == 1
        assert worse.done.stats.rounds > before.done.stats.rounds

        version = learner.learn()
        assert version.state == "in use" and version.low > 0 and version.tau_after > version.tau_before
        better = await ask(opened, "what is it")
        assert own.version == version.number == 2 and better.text == before.text
        assert better.done.stats.rounds < worse.done.stats.rounds
        assert learner.waiting() == 1, "only the newest answer was not seen"

        learner.versions.roll_back()
        await ask(opened, "what is it")
        assert own.version == 1
        store.bin.delete(store.messages.get(before.message).conversation_id)
        await ask(opened, "what is it", store.conversations.create("new").id)
        assert own.version == 0, "what it learnt from is gone"


@pytest.mark.parametrize("rarely", [False, True])
async def test_a_version_that_keeps_no_promise_is_taken_back(
    verifier: VerifierProcess,
    own: Drafter,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    rarely: bool,
    learnt: Path,
    learner: Learner,
) -> None:
    """Answers with rounds that nothing was drafted for do not count against it."""
    monkeypatch.setattr(learning, "FEWEST_LIVE", 6)
    await filled(store, verifier.url, own, learnt, 6)
    assert learner.check_live() is None
    learner.versions.publish(about(), bad(own))
    assert learner.check_live() is None, "nothing was drafted with it yet"
    await filled(store, verifier.url, own, learnt, 6, rarely=rarely)
    assert len(store.replays.all(own.memory_digest, 12)) == 12
    taken = learner.check_live()
    if rarely:
        assert taken is None and learner.versions.in_use is not None
    else:
        assert taken is not None and taken.number == 1 and learner.versions.in_use is None


async def test_too_few_answers_teach_nothing_and_it_says_so(
    verifier: VerifierProcess, own: Drafter, store: Store, learnt: Path, learner: Learner
) -> None:
    await filled(store, verifier.url, own, learnt, 3)
    with pytest.raises(NothingLearnt, match="3 checked answers to learn from; 30 are enough"):
        learner.learn()
    with pytest.raises(NothingLearnt, match="interrupted"):
        learner.learn(halted=lambda: True)
    assert not Versions.of(learnt, own.config).folder.exists()


@pytest.mark.parametrize("settings", [Settings(learn=False, max_tokens=12), Settings(mode="offline", max_tokens=12)])
async def test_nothing_is_kept_where_nothing_may_or_can_be_learnt(
    settings: Settings, verifier: VerifierProcess, own: Drafter, store: Store, learnt: Path
) -> None:
    source = AddressSource(verifier.url)
    async with Assistant(store, Options(Drafters(own), source, settings, modes=("edge",), learnt=learnt)) as opened:
        if settings.mode != "offline":
            await until_connected(opened)
        await ask(opened, "hello")
    assert store.replays.all(own.memory_digest, 10) == []


async def test_a_damaged_version_counts_as_none(
    verifier: VerifierProcess, own: Drafter, store: Store, learnt: Path
) -> None:
    async with on(store, verifier.url, own, learnt, SETTINGS) as opened:
        first = await ask(opened, "hello")
        versions = Versions.of(learnt, own.config)
        versions.publish(about(first.message), bad(own))
        (versions.folder / "version-1.npz").write_bytes(b"junk")
        again = await ask(opened, "hello")
        assert own.version == 0 and again.text == first.text


async def test_what_the_server_drafted_is_learnt_from_too(
    own: Drafter, store: Store, monkeypatch: pytest.MonkeyPatch, learnt: Path, learner: Learner, tiny_pair: Path
) -> None:
    monkeypatch.setattr(OwnDrafts, "pays", lambda self, length: True)  # Else the time of a forward decides.
    monkeypatch.setattr(StreamPayoff, "looking", lambda self, most: None)
    settings = Settings(mode="hosted", max_tokens=24)
    target = load_target(str(tiny_pair / "target"), device="cpu")
    engine = TorchEngine(target.model, MemoryEncoder.load(tiny_pair / "drafter"))
    drafts = OwnDrafter(Drafter.load(tiny_pair / "drafter"), engine)
    with running(create_app(engine, card(target, engine), own=drafts)) as url:
        async with on(store, url, own, learnt, settings, "hosted") as opened:
            for text in ("hello there", "what is it"):
                heard = await ask(opened, text, store.conversations.create("one").id)
                assert len(heard.done.token_ids) == 24
        lessons = learner.lessons()
    assert len(lessons) == 2 and all(len(one.samples) > 8 for one in lessons)


@pytest.mark.parametrize("mode", ["edge", "hosted"])
async def test_what_the_target_might_have_said_is_kept_of_each_token(
    mode: Verifying, verifier: VerifierProcess, own: Drafter, store: Store, learnt: Path, learner: Learner
) -> None:
    """The last part of it comes when the answer is complete already."""
    settings = SETTINGS.replaced({"mode": mode}, "the test")
    async with on(store, verifier.url, own, learnt, settings, mode) as opened:
        for text in ("hello there", "what is it"):
            heard = await ask(opened, text, store.conversations.create("one").id)
            assert len(heard.done.token_ids) == 24
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(told(store, own)[-1].text) < 24:
                    await asyncio.sleep(0.01)
    lessons = learner.lessons()
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


def told(store: Store, drafter: Drafter) -> list[Distributions]:
    """What is kept of each answer."""
    return [Distributions.unpack(one.distributions) for one in store.replays.all(drafter.memory_digest, 9)]


async def test_nobody_is_asked_for_it_where_nothing_is_learnt(
    verifier: VerifierProcess, own: Drafter, tmp_path: Path, learnt: Path
) -> None:
    sizes = []
    for learn in (True, False):
        settings = Settings(max_tokens=24, ahead=False, learn=learn)
        with Store.open(tmp_path / f"{learn}.db") as store:
            async with on(store, verifier.url, own, learnt, settings) as opened:
                heard = await ask(opened, "hello there")
                await opened.backend.routing.pool.quiet()
                sizes.append(heard.done.stats.bytes_down)
    assert sizes[1] < sizes[0]


async def test_distributions_that_are_damaged_on_the_disk_leave_the_tokens_to_learn_from(
    verifier: VerifierProcess, own: Drafter, store: Store, learnt: Path, learner: Learner
) -> None:
    async with on(store, verifier.url, own, learnt, SETTINGS) as opened:
        await ask(opened, "hello there")
    (replay,) = store.replays.all(own.memory_digest, 9)
    for data in (b"junk", replay.distributions[:-1], b""):
        store.replays.save(replay.message_id, own.memory_digest, replay.prompt, replay.rounds, data)
        (lesson,) = learner.lessons()
        assert len(lesson.target) == 0 and len(lesson.samples) == 24 and not lesson.samples.chances.any()
