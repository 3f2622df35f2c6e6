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
from app.events import Done, Drafted, ModeChanged, RoundEnded, Started, Verified
from app.remotes.mode_meter import Verifying
from app.remotes.speed import FIRST_COST
from app.reply.assistant import Assistant
from app.reply.edge import UNHEARD, put_off
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from storage import Message, Store
from storage.branches import Branches
from storage.database import Database
from tests.support.conversing import Heard, ask, assistant, until_connected, until_mode
from tests.support.emulator import Emulator, LinkProfile
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


async def test_drafts_do_not_change_a_greedy_answer(
    tiny_pair: Path, verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    async with assistant(drafter, database, verifier.url, settings=EDGE) as opened:
        drafted = await ask(opened, "list files")
    async with assistant(drafter, database, verifier.url, settings=EDGE, draft=False) as opened:
        plain = await ask(opened, "list files")
    assert drafted.done is not None and plain.done is not None
    assert drafted.done.token_ids == plain.done.token_ids
    assert list(plain.done.token_ids) == generated(tiny_pair, drafter.text.render([("user", "list files")]), 40)
    assert drafted.text == plain.text == drafter.text.decode(plain.done.token_ids)
    assert all(drafted.done.provenance) and all(plain.done.provenance)
    assert plain.done.stats.rounds == 40
    assert drafted.done.stats.rounds < 30
    assert drafted.done.stats.tau == pytest.approx(40 / drafted.done.stats.rounds)


@pytest.mark.parametrize(
    ("changed", "drafts"),
    [
        ({"pace": "measured"}, False),
        ({"pace": "fixed"}, True),
        ({"pace": "measured", "tree": "sampled", "temperature": 0.7, "seed": 3}, True),
    ],
)
async def test_where_drafts_do_not_pay_none_is_made_unless_it_is_asked_for(
    verifier: VerifierProcess, drafter: Drafter, database: Path, changed: dict[str, Any], drafts: bool
) -> None:
    """Without drafts, memory comes now and then, so that the drafter can go on alone if the line drops. Sampled drafts
    are made always: the text of a seed must not depend on what rounds took."""
    settings = EDGE.replaced(changed, "test")
    async with assistant(drafter, database, verifier.url, settings=settings) as opened:
        await until_connected(opened)
        assert opened.backend.routing.shown is not None
        opened.backend.routing.shown.speed.payoff._pacer.way = False
        conversation = opened.store.conversations.create("plain").id
        heard = await ask(opened, "list files", conversation)
        drafting, _ = opened.backend.routing.pool._open[conversation]
        await drafting.hear(10.0)
        prompt = drafter.text.render([("user", "list files")])
        lacking = len(prompt) + 39 - drafting.memory_from
    assert heard.done is not None and all(heard.done.provenance)
    assert (heard.done.stats.rounds < 40) == drafts
    assert drafts or 0 < lacking < UNHEARD


@pytest.mark.parametrize(
    ("known", "committed", "asked"), [(None, 40, None), (40, 40, None), (30, 40, None), (24, 40, 24), (0, 40, 0)]
)
def test_memory_that_no_draft_needs_is_asked_for_when_it_has_become_some(
    known: int | None, committed: int, asked: int | None
) -> None:
    assert put_off(known, committed) == asked


async def test_drafts_do_not_change_a_sampled_answer(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    settings = Settings(mode="edge", max_tokens=24, temperature=0.7, top_p=0.9, seed=11)
    answers = []
    for draft in (True, False):
        async with assistant(drafter, database, verifier.url, settings=settings, draft=draft) as opened:
            heard = await ask(opened, "show disk usage")
            assert heard.done is not None
            answers.append(heard.done.token_ids)
    assert answers[0] == answers[1]


async def test_by_measure_more_is_drafted_over_a_far_line_than_for_a_slow_verifier(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    settings, answers, nodes = Settings(mode="edge", max_tokens=24), [], {}
    for case in ("as it is", "slow", "far"):
        async with assistant(drafter, database, verifier.url, settings=settings) as opened:
            assert opened.backend.routing.shown is not None
            costs = opened.backend.routing.shown.speed.costs
            for _ in range(40 if case != "as it is" else 0):
                costs.drafted(1, 1e-3)
                costs.judged(0, 0.01)
                costs.judged(20, 100.0 if case == "slow" else 0.01)
                costs.waited(1e6 if case == "far" else 0.0)
            heard = await ask(opened, "list files")
            assert heard.done is not None
            answers.append(heard.done.token_ids)
            nodes[case] = heard.done.stats.drafted_nodes / heard.done.stats.rounds
            if case == "as it is":
                assert costs.cost not in (FIRST_COST, costs.first)
    assert answers[0] == answers[1] == answers[2]
    assert nodes["slow"] == 0 < min(nodes["far"], nodes["as it is"])


async def test_sampled_trees_answer_with_whole_drafts(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    settings = Settings(mode="edge", max_tokens=40, temperature=0.5, seed=11, tree="sampled")
    async with assistant(drafter, database, verifier.url, settings=settings) as opened:
        heard = await ask(opened, "show disk usage")
    assert heard.done is not None and all(heard.done.provenance)
    assert heard.text == drafter.text.decode(heard.done.token_ids)
    assert heard.done.stats.tau > 1.0 and heard.done.stats.drafted_nodes > 0


async def test_sampled_trees_do_not_change_a_greedy_answer(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    answers = []
    for tree in ("sampled", "deterministic"):
        settings = Settings(mode="edge", max_tokens=24).replaced({"tree": tree}, "test")
        async with assistant(drafter, database, verifier.url, settings=settings) as opened:
            heard = await ask(opened, "show disk usage")
            assert heard.done is not None
            answers.append(heard.done.token_ids)
    assert answers[0] == answers[1]


async def test_what_is_shown_is_what_is_stored(verifier: VerifierProcess, drafter: Drafter, database: Path) -> None:
    async with assistant(drafter, database, verifier.url, settings=EDGE) as opened:
        conversation = opened.store.conversations.create("two turns").id
        first = await ask(opened, "list files", conversation)
        second = await ask(opened, "and hidden ones", conversation)
        thread = opened.store.branches.thread(conversation)
        assert [(message.role, message.status) for message in thread] == [("user", "done"), ("assistant", "done")] * 2
        assert [message.text for message in thread] == ["list files", first.text, "and hidden ones", second.text]
        assert first.done is not None and second.done is not None
        assert (thread[1].tokens, thread[1].provenance) == (first.done.token_ids, first.done.provenance)
        assert thread[1].stats["rounds"] == first.done.stats.rounds
        assert any(isinstance(event, Drafted) for event in first.events)
        assert sum(event.tokens for event in first.events if isinstance(event, Verified)) == 40
        first_prompt = conversation_tokens(drafter.text, thread[:1])
        second_prompt = conversation_tokens(drafter.text, thread[:3])
        assert second_prompt[: len(first_prompt) + 40] == [*first_prompt, *first.done.token_ids]


HOSTED = Settings(mode="hosted", max_tokens=40)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
async def test_a_hosted_answer_is_the_target_s_own_and_leaves_the_drafter_ready(
    verifier: VerifierProcess, drafter: Drafter, database: Path, temperature: float
) -> None:
    chosen = {"temperature": temperature, "seed": 7}
    edge = EDGE.replaced(chosen, "test")
    async with assistant(drafter, database.with_name("reference.db"), verifier.url, settings=edge) as opened:
        reference = await ask(opened, "list files")
    auto = Settings(max_tokens=40).replaced(chosen, "test")
    async with assistant(drafter, database, verifier.url, settings=auto, modes=("hosted",)) as opened:
        conversation = opened.store.conversations.create("hosted").id
        heard = await ask(opened, "list files", conversation)
        assert heard.modes[-1] == "hosted"
        assert reference.done is not None and heard.done is not None
        assert heard.done.token_ids == reference.done.token_ids
        assert heard.text == reference.text and all(heard.done.provenance)
        stats = heard.done.stats
        assert 0 < stats.rounds <= 40 and stats.bytes_up > 0 and stats.bytes_down > 0 and stats.rtt_ms is not None
        traced = [event.report for event in heard.events if isinstance(event, RoundEnded) and event.report is not None]
        assert sum(paced.gained for paced in traced) == 40 and {paced.mode for paced in traced} == {"hosted"}
        drafting, _ = opened.backend.routing.pool._open[conversation]
        await drafting.hear(10.0)
        prompt = drafter.text.render([("user", "list files")])
        assert drafting.memory_from >= len(prompt) + 39, "memory of all but the last token, which has none yet"
        stored = opened.store.memory.load(conversation, drafter.memory_digest)
        assert sum(count for _, count, _ in stored) >= len(prompt) + 39
        again = await ask(opened, "and hidden ones", conversation)
        assert again.done is not None and all(again.done.provenance)
        assert again.done.stats.bytes_down < stats.bytes_down + 8_000, "nothing that is here is sent again"


async def test_memory_that_nobody_will_need_is_not_asked_for(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    """Memory costs the server time, and here the drafter neither drafts nor goes on alone."""
    async with assistant(drafter, database, verifier.url, settings=HOSTED) as opened:
        conversation = opened.store.conversations.create("hosted").id
        assert (await ask(opened, "list files", conversation)).done is not None
        assert opened.store.memory.load(conversation, drafter.memory_digest) == []


async def test_without_drafts_a_hosted_answer_comes_token_by_token(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    async with assistant(drafter, database, verifier.url, settings=HOSTED, draft=False) as opened:
        heard = await ask(opened, "list files")
    assert heard.done is not None and heard.done.stats.rounds == 40 and heard.modes[-1] == "hosted"


async def test_a_hosted_answer_can_be_stopped(verifier: VerifierProcess, drafter: Drafter, database: Path) -> None:
    settings = Settings(mode="hosted", max_tokens=900)
    async with assistant(drafter, database, verifier.url, settings=settings) as opened:
        conversation = opened.store.conversations.create("stopped").id
        heard = Heard()
        async with aclosing(opened.reply(conversation, "list files")) as events:
            async for event in events:
                heard.apply(event)
                if isinstance(event, Verified):
                    opened.stop()
        assert heard.done is not None and heard.done.reason == "stopped"
        answer = opened.store.branches.thread(conversation)[-1]
        assert (answer.status, answer.tokens) == ("stopped", heard.done.token_ids) and 0 < len(answer.tokens) < 900
        assert (await ask(opened, "go on", conversation)).done is not None


async def test_auto_mode_takes_the_faster_mode_and_says_why(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    far = LinkProfile(name="far", rtt_ms=120, up_mbps=100, down_mbps=100)
    both: tuple[Verifying, ...] = ("edge", "hosted")
    async with (
        Emulator(far, "127.0.0.1", verifier.port) as line,
        assistant(drafter, database, line.url, modes=both) as opened,
    ):
        await until_connected(opened)
        assert opened.backend.routing.shown is not None
        meter = opened.backend.routing.shown.speed.modes

        def measured(edge: float, hosted: float) -> None:
            """Both modes get so many rounds that those of one answer change nothing, however busy the machine is."""
            for _ in range(200):
                meter.edge(4, edge, edge)
                meter.hosted(4, hosted)

        measured(edge=1000.0, hosted=1.0)
        heard = await ask(opened, "list files")
        chosen = [event for event in heard.events if isinstance(event, ModeChanged)][-1]
        assert chosen.mode == "hosted" and "the server drafts: " in chosen.why
        # A verifier whose streams turn out slow is asked for rounds instead.
        measured(edge=1.0, hosted=1000.0)
        again = await ask(opened, "and hidden ones")
        assert again.modes[-1] == "edge"
        assert again.done is not None and all(again.done.provenance)


async def test_alone_it_answers_and_says_so(drafter: Drafter, database: Path) -> None:
    async with assistant(drafter, database, None, settings=OFFLINE) as opened:
        heard = await ask(opened, "list files")
        assert heard.modes == ["offline"]
        assert heard.done is not None and not any(heard.done.provenance)
        assert (heard.reply.solid, heard.reply.ghost) == ("", drafter.text.decode(heard.done.token_ids))
        message = opened.store.messages.get(heard.message)
        assert (message.status, message.provenance) == ("done", (False,) * 40)


async def test_an_answer_ends_at_its_stop_token(verifier: VerifierProcess, drafter: Drafter, database: Path) -> None:
    # Hot enough that every token is about as likely, the end among them.
    for seed in range(9):
        settings = Settings(mode="edge", max_tokens=200, temperature=10.0, seed=seed)
        async with assistant(drafter, database, verifier.url, settings=settings) as opened:
            heard = await ask(opened, "list files")
        if heard.done is not None and heard.done.reason == "end":
            break
    assert heard.done is not None and heard.done.reason == "end"
    assert heard.done.token_ids[-1] in drafter.text.stop_tokens
    assert not set(heard.done.token_ids[:-1]) & drafter.text.stop_tokens


async def test_stop_keeps_what_is_there(verifier: VerifierProcess, drafter: Drafter, database: Path) -> None:
    settings = Settings(mode="edge", max_tokens=900)
    async with assistant(drafter, database, verifier.url, settings=settings) as opened:
        conversation = opened.store.conversations.create("stopped").id
        ending: Done | None = None
        async with aclosing(opened.reply(conversation, "list files")) as events:
            async for event in events:
                if isinstance(event, Verified):
                    opened.stop()
                ending = event if isinstance(event, Done) else ending
        assert ending is not None and ending.stopped and ending.reason == "stopped"
        answer = opened.store.branches.thread(conversation)[-1]
        assert (answer.status, answer.tokens) == ("stopped", ending.token_ids)
        assert 0 < len(answer.tokens) < 900
        async with aclosing(opened.reply(conversation, "go on")) as events:
            async for event in events:  # The session survives the round that was cancelled.
                if isinstance(event, Verified):
                    break


async def test_leaving_early_stores_the_answer_as_stopped(drafter: Drafter, database: Path) -> None:
    async with assistant(drafter, database, None, settings=OFFLINE) as opened:
        conversation = opened.store.conversations.create("left").id
        async with aclosing(opened.reply(conversation, "list files")) as events:
            async for event in events:
                if isinstance(event, Drafted):
                    break
        answer = opened.store.branches.thread(conversation)[-1]
        assert (answer.status, len(answer.tokens)) == ("stopped", 1)
        assert (await ask(opened, "again", conversation)).done is not None


async def test_a_database_that_another_program_holds_for_long_costs_no_answer(drafter: Drafter, database: Path) -> None:
    async with assistant(drafter, database, None, settings=OFFLINE) as opened:
        with opened.store.database.read() as connection:
            connection.execute("PRAGMA busy_timeout = 20")  # It gives up soon, and has to try again.
        conversation = opened.store.conversations.create("held").id
        heard = Heard()
        with closing(sqlite3.connect(database, isolation_level=None)) as other:

            async def let_go() -> None:
                while opened.replying:
                    await asyncio.sleep(0.005)
                other.execute("ROLLBACK")

            async with aclosing(opened.reply(conversation, "list files")) as events:
                async for event in events:
                    heard.apply(event)
                    if isinstance(event, Started):
                        other.execute("BEGIN IMMEDIATE")
                        letting_go = asyncio.create_task(let_go())
            await letting_go
        assert heard.failed is None and heard.done is not None
        stored = opened.store.messages.get(heard.message)
        assert (stored.status, stored.text, stored.tokens) == ("done", heard.text, heard.done.token_ids)


async def test_a_prompt_that_is_too_long_is_refused_in_a_sentence(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    async with assistant(drafter, database, verifier.url, settings=EDGE) as opened:
        for letters in (3_000, 300_000):  # Beyond the target's context, and beyond what anybody reads.
            heard = await ask(opened, "x" * letters)
            assert heard.failed is not None and heard.failed.code == "too_long"
            assert "tokens" in heard.failed.message
            assert opened.store.messages.get(heard.message).status == "failed"
        assert (await ask(opened, "list files")).done is not None


async def test_edge_mode_needs_a_verifier(drafter: Drafter, database: Path) -> None:
    async with assistant(drafter, database, "http://127.0.0.1:9", settings=EDGE) as opened:
        heard = await ask(opened, "list files")
        assert heard.failed is not None and heard.failed.code == "unavailable"
        assert not {*heard.modes} - {"warming"}, "which may be over before the answer begins"
        assert opened.store.messages.get(heard.message).status == "failed"


async def test_auto_mode_goes_on_without_one(drafter: Drafter, database: Path) -> None:
    settings = Settings(offline="drafter", max_tokens=40)
    async with assistant(drafter, database, "http://127.0.0.1:9", settings=settings) as opened:
        heard = await ask(opened, "list files")
        assert [mode for mode in heard.modes if mode != "warming"] == ["offline"]
        assert heard.done is not None and not any(heard.done.provenance)


async def test_memory_outlives_the_program(verifier: VerifierProcess, drafter: Drafter, database: Path) -> None:
    async with assistant(drafter, database, verifier.url, settings=EDGE) as opened:
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


async def test_the_mode_is_known_before_anything_is_asked(
    verifier: VerifierProcess, drafter: Drafter, database: Path
) -> None:
    async with assistant(drafter, database, verifier.url) as opened:
        assert opened.status().mode == "warming"
        await until_mode(opened, "edge")
        assert "target" in opened.status().why


class SlowBranches(Branches):
    """Reads a branch when it is told to."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.asked, self.answers = threading.Event(), threading.Event()

    def path(self, message_id: str) -> list[Message]:
        self.asked.set()
        self.answers.wait(30)
        return super().path(message_id)


async def test_a_conversation_is_read_beside_everything_else_and_can_be_stopped(
    drafter: Drafter, database: Path
) -> None:
    store = Store(database)
    slow = store.branches = SlowBranches(store.database)
    async with Assistant(store, Options(Drafters(drafter), None, OFFLINE)) as opened:
        asking = asyncio.create_task(ask(opened, "list files"))
        while not slow.asked.is_set():
            await asyncio.sleep(0.01)
        assert opened.replying
        with pytest.raises(RuntimeError, match="one reply at a time"):
            await ask(opened, "another")
        opened.stop()
        slow.answers.set()
        heard = await asking
        assert heard.done is not None and heard.done.stopped and heard.text == ""
        again = await ask(opened, "list files")
        assert again.done is not None and not again.done.stopped and len(again.text) > 0
    store.close()
