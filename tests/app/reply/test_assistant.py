"""Replies with a real verifier process, a real database and a tiny pair."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.drafting.drafting import Drafting
from app.drafting.prompt import conversation_tokens
from app.events import RoundEnded, Started, Verified
from app.remotes.mode_meter import MODES
from app.reply import offline
from app.reply.assistant import Assistant
from app.reply.edge import UNHEARD
from app.reply.request import CONTEXT_TOKENS
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from storage import Message, Store
from storage.database import Database
from storage.summaries import Summaries
from tests.app.reply.conftest import Connect
from tests.support.conversing import Heard, ask, ask_once, hear
from tests.support.emulator import Emulator, LinkProfile
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

EDGE = Settings(mode="edge", max_tokens=40, pace="fixed")
OFFLINE = Settings(mode="offline", max_tokens=40)


def generated(tiny_pair: Path, prompt: list[int], count: int) -> list[int]:
    """What transformers itself answers."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_pair / "target", dtype=torch.float32)
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False)
    return [int(token) for token in out[0, len(prompt) :]]


async def test_drafts_do_not_change_a_greedy_answer(tiny_pair: Path, drafter: Drafter, served: Connect) -> None:
    drafted = await ask_once(served(settings=EDGE), "list files")
    plain = await ask_once(served(settings=EDGE, draft=False), "list files")
    assert drafted.done.token_ids == plain.done.token_ids
    assert list(plain.done.token_ids) == generated(tiny_pair, drafter.text.render([("user", "list files")]), 40)
    assert drafted.text == plain.text == drafter.text.decode(plain.done.token_ids)
    assert all(drafted.done.provenance) and all(plain.done.provenance)
    assert plain.done.stats.rounds == 40
    assert drafted.done.stats.rounds < 30
    assert drafted.done.stats.tau == pytest.approx(40 / drafted.done.stats.rounds)


@pytest.mark.parametrize(
    ("changed", "drafts"),
    [({"pace": "measured"}, False), ({"pace": "measured", "tree": "sampled", "temperature": 0.7, "seed": 3}, True)],
)
async def test_where_drafts_do_not_pay_none_is_made_unless_it_is_asked_for(
    drafter: Drafter, changed: dict[str, Any], drafts: bool, served: Connect
) -> None:
    """Without drafts, memory comes now and then, so that the drafter can go on alone if the line drops. Sampled drafts
    are made always: the text of a seed must not depend on what rounds took."""
    async with served(settings=EDGE.replaced(changed, "test"), met=True) as opened:
        opened.backend.routing.shown.speed.payoff._pacer.way = False
        conversation = opened.store.conversations.create("plain").id
        heard = await ask(opened, "list files", conversation)
        drafting, _ = opened.backend.routing.pool._open[conversation]
        await drafting.arrivals.hear(10.0)
        prompt = drafter.text.render([("user", "list files")])
        lacking = len(prompt) + 39 - drafting.memory_from
    assert all(heard.done.provenance)
    assert (heard.done.stats.rounds < 40) == drafts
    assert drafts or 0 < lacking < UNHEARD


@pytest.mark.parametrize("temperature", [0.0, 0.8])
async def test_a_hosted_answer_is_the_targets_own_and_leaves_the_drafter_ready(
    drafter: Drafter, database: Path, temperature: float, served: Connect
) -> None:
    chosen = {"temperature": temperature, "seed": 7}
    edge = EDGE.replaced(chosen, "test")
    reference = await ask_once(served(settings=edge, database=database.with_name("reference.db")), "list files")
    auto = Settings(max_tokens=40).replaced(chosen, "test")
    async with served(settings=auto, modes=("hosted",)) as opened:
        conversation = opened.store.conversations.create("hosted").id
        heard = await ask(opened, "list files", conversation)
        assert heard.modes[-1] == "hosted"
        assert heard.done.token_ids == reference.done.token_ids
        assert heard.text == reference.text and all(heard.done.provenance)
        stats = heard.done.stats
        assert 0 < stats.rounds <= 40 and stats.bytes_up > 0 and stats.bytes_down > 0 and stats.rtt_ms is not None
        traced = [event.report for event in heard.of(RoundEnded) if event.report is not None]
        assert sum(paced.gained for paced in traced) == 40 and {paced.mode for paced in traced} == {"hosted"}
        drafting, _ = opened.backend.routing.pool._open[conversation]
        await drafting.arrivals.hear(10.0)
        prompt = drafter.text.render([("user", "list files")])
        assert drafting.memory_from >= len(prompt) + 39, "memory of all but the last token, which has none yet"
        stored = opened.store.memory.load(conversation, drafter.memory_digest)
        assert sum(count for _, count, _ in stored) >= len(prompt) + 39
        again = await ask(opened, "and hidden ones", conversation)
        assert all(again.done.provenance)
        assert again.done.stats.bytes_down < stats.bytes_down + 8_000, "nothing that is here is sent again"


async def test_auto_mode_takes_the_faster_mode_and_says_why(served: Connect) -> None:
    async with served(modes=MODES, met=True) as opened:
        meter = opened.backend.routing.shown.speed.modes
        for edge, hosted, mode in ((1000.0, 1.0, "hosted"), (1.0, 1000.0, "edge")):
            for _ in range(200):  # So many rounds that those of one answer change nothing, however busy the machine is.
                meter.edge(4, edge, edge)
                meter.hosted(4, hosted)
            heard = await ask(opened, "list files")
            assert heard.modes[-1] == mode and all(heard.done.provenance)
            assert ("the server drafts: " if mode == "hosted" else "this device drafts: ") in heard.why[-1]


@pytest.mark.parametrize("mode", ["edge", "hosted"])
async def test_stop_keeps_what_is_there(mode: str, served: Connect) -> None:
    async with served(settings=Settings(max_tokens=900).replaced({"mode": mode}, "test")) as opened:
        conversation = opened.store.conversations.create("stopped").id
        heard = await ask(opened, "list files", conversation, lambda heard: heard.of(Verified) and opened.stop())
        assert heard.done.stopped and heard.done.reason == "stopped"
        answer = opened.store.branches.thread(conversation)[-1]
        assert (answer.status, answer.tokens) == ("stopped", heard.done.token_ids) and 0 < len(answer.tokens) < 900
        async with aclosing(opened.reply(conversation, "go on")) as events:
            async for event in events:  # The session survives the round that was cancelled.
                if isinstance(event, Verified):
                    break
            else:
                pytest.fail("the session did not go on")


async def test_a_database_that_another_program_holds_for_long_costs_no_answer(database: Path, connect: Connect) -> None:
    async with connect(None, settings=OFFLINE) as opened:
        with opened.store.database.read() as connection:
            connection.execute("PRAGMA busy_timeout = 20")  # It gives up soon, and has to try again.
        conversation = opened.store.conversations.create("held").id
        with closing(sqlite3.connect(database, isolation_level=None)) as other:

            async def let_go() -> None:
                while opened.backend.routing.running:
                    await asyncio.sleep(0.005)
                other.execute("ROLLBACK")

            letting_go = list[asyncio.Task[None]]()

            def hold(heard: Heard) -> None:
                if isinstance(heard.last, Started):
                    other.execute("BEGIN IMMEDIATE")
                    letting_go.append(asyncio.create_task(let_go()))

            heard = await hear(opened.reply(conversation, "list files"), hold)
            await letting_go[0]
        assert heard.failed is None and heard.done
        stored = opened.store.messages.get(heard.message)
        assert (stored.status, stored.text, stored.tokens) == ("done", heard.text, heard.done.token_ids)


async def test_a_prompt_that_is_too_long_is_refused_in_a_sentence(served: Connect) -> None:
    async with served(settings=EDGE) as opened:
        for letters in (3_000, 300_000):  # Beyond the target's context, and beyond what anybody reads.
            heard = await ask(opened, "x" * letters)
            assert heard.failed is not None and heard.failed.code == "too_long"
            assert "tokens" in heard.failed.message
            assert opened.store.messages.get(heard.message).status == "failed"
        assert (await ask(opened, "list files")).done


async def test_memory_outlives_the_program(drafter: Drafter, database: Path, served: Connect) -> None:
    async with served(settings=EDGE) as opened:
        conversation = opened.store.conversations.create("kept").id
        await ask(opened, "list files", conversation)
        await ask(opened, "and hidden ones", conversation)  # Waits for the first reply's memory, and keeps it.
        stored = opened.store.memory.load(conversation, drafter.memory_digest)
        assert sum(count for _, count, _ in stored) > 50
        first = opened.store.branches.thread(conversation)[1]
    prompt = drafter.text.render([("user", "list files")])
    with Store.open(database) as store:
        here = await remembered(drafter, store, conversation, [*prompt, *first.tokens])
        assert here >= len(prompt)
        new = store.conversations.create("new").id
        there = await remembered(drafter, store, new, drafter.text.render([("user", "another")]))
        assert 0 < there < len(prompt)  # All conversations begin alike.
        edited = [*prompt[:-4], *first.tokens]
        assert await remembered(drafter, store, conversation, edited) == there


async def remembered(drafter: Drafter, store: Store, conversation: str, tokens: list[int]) -> int:
    """Tokens whose memory is there at once when a conversation is opened again."""
    with ThreadPoolExecutor(1) as thread:
        drafting = Drafting(drafter, store, conversation, thread)
        await drafting.follow(tokens)
        return drafting.memory_from


class SlowSummaries(Summaries):
    """Reads the messages of a prompt when it is told to."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.asked, self.answers = threading.Event(), threading.Event()

    def read(self, message_id: str) -> list[Message]:
        self.asked.set()
        self.answers.wait(PATIENCE_SECONDS)
        return super().read(message_id)


async def test_a_conversation_is_read_beside_all_else_and_can_be_stopped(drafter: Drafter, database: Path) -> None:
    store = Store(database)
    slow = store.summaries = SlowSummaries(store.database)
    async with Assistant(store, Options(Drafters(drafter), None, OFFLINE)) as opened:
        asking = asyncio.create_task(ask(opened, "list files"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not slow.asked.is_set():
                await asyncio.sleep(0.01)
        assert opened.replying
        with pytest.raises(RuntimeError, match="one reply at a time"):
            await ask(opened, "another", opened.store.conversations.all()[0].id)
        opened.stop()
        slow.answers.set()
        heard = await asking
        assert heard.done.stopped and heard.text == ""
        again = await ask(opened, "list files")
        assert not again.done.stopped and len(again.text) > 0
    store.close()


# ---- drafting ahead --------------------------------------------------------------------------------------------------


AHEAD = Settings(mode="edge", max_tokens=48, pace="fixed", depth=4, nodes=24)
TRIPS = (60.0, 400.0, 2000.0)
"""Round trips in milliseconds. A busy machine prepares less in one of them: 3 of 14 drafts are right on a quiet one."""


@pytest.mark.parametrize("temperature", [0.0, 0.4])
async def test_drafting_ahead_does_not_change_an_answer(
    verifier: VerifierProcess, connect: Connect, tmp_path: Path, temperature: float
) -> None:
    """Over a line with a delay, where it has paid so far."""
    answers = []
    for ahead in (True, False):
        settings = AHEAD.replaced({"ahead": ahead, "temperature": temperature, "seed": 5}, "test")
        for trip in TRIPS if ahead else (1.0,):
            profile = LinkProfile(name="far", rtt_ms=trip, up_mbps=100.0, down_mbps=100.0)
            async with (
                Emulator(profile, "127.0.0.1", verifier.port) as line,
                connect(line.url, settings=settings, database=tmp_path / f"{ahead}-{trip}.db") as opened,
            ):
                adoption = opened.backend.routing.shown.speed.adoption
                for _ in range(20):
                    adoption.sent(10.0, adopted=False)
                    adoption.sent(0.001, adopted=True)
                    # So long a flight that a drafter call never seems slow beside it, however busy the machine is.
                    adoption.returned(10.0, 10.0, ahead=False)
                heard = await ask(opened, "list files")
                drafting, _ = opened.backend.routing.pool._open[heard.started.conversation]
                assert await drafting.arrivals.hear(PATIENCE_SECONDS)
                assert drafting.memory_from >= len(drafting._context.tokens) - 2, "nothing is missing"
            if heard.done.stats.ahead_adopted:
                break
        assert all(heard.done.provenance)
        answers.append(heard.done.token_ids)
        stats, rounds = heard.done.stats, heard.of(RoundEnded)
        trace = [event.report for event in rounds if event.report is not None]
        assert sum(report.ahead for report in trace) == stats.ahead_adopted <= stats.ahead_hits <= stats.ahead_tries
        assert (stats.ahead_adopted > 0) == ahead == (stats.ahead_tries > 0)
        assert stats.ahead_tries < stats.rounds
    assert answers[0] == answers[1]


# ---- limits ----------------------------------------------------------------------------------------------------------


ROOM = 24
"""Tokens that the context has left for the answer."""


def nearly_full(drafter: Drafter, most: int) -> str:
    """A question that leaves `ROOM` tokens of `most` for its answer."""

    def length(words: int) -> int:
        question = Message("m", "c", None, "user", "a " * words, "done", (), (), {}, "")
        return len(conversation_tokens(drafter.text, [question]))

    each = (length(200) - length(100)) / 100
    return "a " * int((most - ROOM - length(0)) / each)


@pytest.mark.parametrize("mode", ["edge", "hosted"])
async def test_a_full_context_ends_an_answer_and_is_named(drafter: Drafter, mode: str, served: Connect) -> None:
    async with served(settings=Settings().replaced({"mode": mode}, "the test")) as opened:
        await opened.settled()
        card = opened.backend.routing.shown.verifier.card  # type: ignore[union-attr]
        heard = await ask(opened, nearly_full(drafter, min(CONTEXT_TOKENS, card.limits.max_tokens)))
    assert 0 < len(heard.done.token_ids) <= 2 * ROOM
    assert (heard.done.reason, heard.done.cut_by, heard.done.full) == ("length", "context", True)
    assert heard.done.cut == "the conversation has reached the length that the model can read"
    assert heard.done.model == card.target


async def test_the_drafter_alone_has_a_guard(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "MOST_ALONE", most := 40)
    async with connect(None, settings=Settings(mode="offline", temperature=2.0, seed=3)) as opened:
        heard = await ask(opened, "list files")
        assert len(heard.done.token_ids) == most
        assert (heard.done.cut_by, heard.done.full, heard.done.model) == ("length", False, "")
        assert "the most that the small model writes alone" in heard.done.cut
        stored = opened.store.messages.get(heard.message)
        assert stored.stats["cut_by"] == "length" and "model" not in stored.stats
        more = [event async for event in opened.resume(heard.message)]
        assert len(more[-1].token_ids) > most  # type: ignore[union-attr]
