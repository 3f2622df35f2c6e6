"""Streams: the verifier's own drafts change no token, memory comes too, and a device can take over at any point."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pytest

from drafter.cost import Cost
from drafter.runtime import Drafter
from models.engines.engine import Engine
from models.memory import dequantise, unpack_memory
from models.tree import DraftTree
from remote import VerifierClient
from remote.protocol import Conflict, Limits, Progress, Sampling, Stream, digest_of, pack_tokens, unpack_tokens
from remote.verifier.drafting.lookups import OwnLookups
from remote.verifier.drafting.own_drafter import OwnDrafter
from remote.verifier.drafting.stream_payoff import StreamPayoff
from remote.verifier.http import create_app
from remote.verifier.refusals import Dropped, OutOfOrder, Overloaded, TooLong, UnknownPrefix
from remote.verifier.serve import card
from remote.verifier.sessions.sessions import Sessions
from remote.verifier.sessions.turns import alone
from tests.remote.verifier.test_http import PATIENT, running
from tests.remote.verifier.tiny import generated

LIMITS = Limits(max_nodes=64, max_depth=32, max_tokens=300, max_body_bytes=4096)
WARM = Sampling(temperature=0.9, top_p=0.95, seed=7)
PLAIN = {"memory_from": None, "deadline": PATIENT, "silence": PATIENT}


@pytest.fixture(scope="module")
def prompt(drafter) -> list[int]:
    return drafter.text.render([("user", "unpack a tar archive")])


@pytest.fixture(autouse=True)
def always_drafting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time of the tiny target's forwards would decide."""
    monkeypatch.setattr(StreamPayoff, "pays", True)
    monkeypatch.setattr(StreamPayoff, "reads", lambda self, tokens: True)


def table(engine: Engine, drafter: Drafter | None, stops: frozenset[int] = frozenset(), **changed) -> Sessions:
    own = changed.pop("own", None if drafter is None else OwnDrafter(drafter, engine))
    limits = {"max_sessions": 4, "max_bytes": 1 << 30, **changed}
    return Sessions(engine, LIMITS, stops, own=own, **limits)


def ask(known: list[int], append: list[int], number: int = 1, most: int = 40, **fields) -> Stream:
    base = {"session": "s", "round": number, "base": len(known), "digest": digest_of(known)}
    return Stream(**base | {"append": pack_tokens(append), "most": most} | fields)


def streaming(sessions: Sessions, *asked, **fields):
    """What the engine gives for such a stream, call by call."""
    return alone(sessions.engine, sessions.stream(ask(*asked, **fields)))


def told(frames) -> list:
    """The frames without the turns whose result stays inside the verifier."""
    return [frame for frame in frames if frame is not None]


def tokens_of(frames) -> list[int]:
    return [token for frame in frames if isinstance(frame, Progress) for token in unpack_tokens(frame.tokens)]


@pytest.mark.parametrize("sampling", [Sampling(), WARM])
def test_drafts_of_its_own_change_no_token_and_save_rounds(engine, drafter, prompt, sampling):
    frames = {}
    for name, sessions, draft in (
        ("drafts", table(engine, drafter), True),
        ("plain", table(engine, drafter), False),
        ("none", table(engine, None), True),
    ):
        frames[name] = told(streaming(sessions, [], prompt, draft=draft, sampling=sampling))
        assert sessions.counters.new_tokens == 40 and sessions.counters.streams == 1
    assert tokens_of(frames["drafts"]) == tokens_of(frames["plain"]) == tokens_of(frames["none"])
    if sampling.temperature == 0:
        assert tokens_of(frames["plain"]) == generated(engine.model, prompt, 40)
    assert len(frames["plain"]) == len(frames["none"]) == 40
    assert len(frames["drafts"]) < 40 and sum(frame.drafted for frame in frames["drafts"]) > 0
    last = frames["drafts"][-1]
    assert (last.length, last.digest) == (len(prompt) + 40, digest_of(prompt + tokens_of(frames["drafts"])))
    assert all(frame.server_seconds > 0 and not frame.finished for frame in frames["drafts"])


@pytest.mark.parametrize("has_one", [False, True])
@pytest.mark.parametrize("sampling", [Sampling(), WARM])
def test_what_was_said_before_is_a_draft_that_needs_no_drafter(engine, drafter, prompt, sampling, has_one, monkeypatch):
    monkeypatch.setattr(StreamPayoff, "pays", False)
    monkeypatch.setattr(StreamPayoff, "looking", lambda self, most: 0.01 + 0.001 * np.arange(most + 1))
    monkeypatch.setattr(StreamPayoff, "cost", Cost(round=0.01, level=0.02, node=0.001))
    # The prompt has what greedy decoding says, and the question again.
    asked = [*prompt, *generated(engine.model, prompt, 40), *prompt]
    plain = tokens_of(streaming(table(engine, None), [], asked, most=60, sampling=sampling))
    own = OwnDrafter(drafter, engine) if has_one else OwnLookups(engine)
    sessions = table(engine, drafter, own=own)
    frames = told(streaming(sessions, [], asked, most=60, sampling=sampling))
    assert tokens_of(frames) == plain
    if sampling.temperature == 0:
        assert sum(frame.drafted for frame in frames) > 0 and len(frames) < 60
    assert sessions.own.payoff.calls.count == 0  # The drafter was never called.


@pytest.mark.parametrize("known", [0, 5])
def test_memory_is_what_rounds_would_have_sent(engine, drafter, prompt, known):
    frames = told(streaming(table(engine, drafter), [], prompt, memory_from=known))
    text = prompt + tokens_of(frames)
    context = engine.context()
    context.assign(0, text)
    engine.verify(context, DraftTree.empty())
    seen = np.zeros(len(text), bool)
    committed = 0
    for frame in frames:
        if isinstance(frame, Progress):
            committed = frame.length
            continue
        span = slice(frame.start, frame.start + frame.count)
        assert span.stop <= committed and frame.digest == engine.encoder.config.memory_digest
        seen[span] = True
        layers = engine.encoder.config.memory_layers
        sent, right = (
            unpack_memory(data, frame.count, layers)
            for data in (frame.data, engine.memory(context, frame.start, span.stop))
        )
        for one, other in zip(sent, right, strict=True):
            for numbers, scales in ((0, 1), (2, 3)):
                values = dequantise(other[numbers], other[scales])
                away = np.abs(dequantise(one[numbers], one[scales]) - values)
                assert (away <= 0.02 * np.abs(values).max() + 1e-6).all()
    assert seen.tolist() == [False] * known + [True] * (len(text) - known - 1) + [False], "the last is not computed yet"
    without = told(streaming(table(engine, drafter), [], prompt))
    assert tokens_of(without) == tokens_of(frames) and all(isinstance(frame, Progress) for frame in without)


def test_an_answer_ends_with_its_stop_token(engine, drafter, prompt):
    text = generated(engine.model, prompt, 40)
    stop = text[17]
    frames = told(streaming(table(engine, drafter, frozenset({stop})), [], prompt))
    assert tokens_of(frames) == text[: text.index(stop) + 1]
    assert [frame.finished for frame in frames] == [False] * (len(frames) - 1) + [True]


def size(engine, drafter, tokens: int) -> int:
    """Bytes of a session with this many tokens for which the verifier drafts."""
    sessions = table(engine, drafter)
    (*_,) = streaming(sessions, [], [5, 6], most=1, session="s")
    bounds = range(1 << 17, 1 << 30, 1 << 14)
    return bounds[bisect_left(bounds, True, key=lambda most: fits(sessions, tokens, most))]


def fits(sessions: Sessions, tokens: int, most: int) -> bool:
    sessions.table.max_bytes = most
    return sessions.table.largest(sessions.table.get("s"), tokens) == tokens


def interleaved(sessions: Sessions, streams: dict) -> tuple[dict[str, list], set[str]]:
    """What streams tell that are advanced in turn, and which of them were dropped. All keep to the bound."""
    told, dropped = {name: [] for name in streams}, set()
    while streams:
        for name, stream in list(streams.items()):
            try:
                told[name].append(next(stream))
            except (StopIteration, Dropped) as end:
                dropped |= {name} if isinstance(end, Dropped) else set()
                del streams[name]
            assert sessions.table.bytes <= sessions.table.max_bytes
    return told, dropped


def test_streams_are_not_dropped_for_others_and_keep_to_the_bound(engine, drafter, prompt):
    each = size(engine, drafter, len(prompt) + 150 + 128)
    sessions = table(engine, drafter, max_sessions=9, max_bytes=each * 2 + each // 2)
    streams = {name: streaming(sessions, [], prompt, most=150, session=name) for name in "ab"}
    begun = {name: [next(stream)] for name, stream in streams.items()}
    for name in "cd":  # Others come. The idle one of them has to go, not a stream.
        (*_,) = streaming(sessions, [], [5, 6], most=1, session=name, draft=False)
    with pytest.raises(Overloaded):
        next(streaming(sessions, [], prompt, most=150, session="e"))
    assert {"a", "b"} <= set(sessions.table)
    told, dropped = interleaved(sessions, streams)
    text = generated(engine.model, prompt, 150)
    assert not dropped and tokens_of(begun["a"] + told["a"]) == tokens_of(begun["b"] + told["b"]) == text
    assert tokens_of(streaming(sessions, [], prompt, most=150, session="e")) == text


def test_a_stream_that_outgrows_memory_ends_itself_and_no_other(engine, drafter, prompt, monkeypatch):
    monkeypatch.setattr("remote.verifier.sessions.sessions.STREAM_ROWS", 8)
    small = size(engine, drafter, len(prompt) + 8 + 128)
    large = size(engine, drafter, len(prompt) + 250 + 129)
    sessions = table(engine, drafter, max_bytes=max(small * 2, large))
    streams = {name: streaming(sessions, [], prompt, most=250, session=name) for name in "ab"}
    told, dropped = interleaved(sessions, streams)
    text = generated(engine.model, prompt, 250)
    (lost,) = dropped
    (whole,) = {"a", "b"} - dropped
    assert tokens_of(told[whole]) == text
    given = tokens_of(told[lost])
    assert given == text[: len(given)] != []
    assert tokens_of(streaming(sessions, [], prompt + given, 2, most=5, session=lost)) == text[len(given) :][:5]


def test_a_long_prompt_is_read_in_turns_by_the_verifiers_own_drafter_too(engine, drafter, prompt, monkeypatch):
    monkeypatch.setattr("drafter.cache.CHUNK", 32)
    monkeypatch.setattr(engine, "chunk", 32)
    long = (prompt * 20)[: LIMITS.max_tokens - 60]
    frames = list(streaming(table(engine, drafter), [], long))
    first, second, *_ = (at for at, frame in enumerate(frames) if isinstance(frame, Progress))
    assert frames[:first].count(None) >= len(long) // 32 - 1
    assert frames[first:second].count(None) >= len(long) // 32 - 1, "the first word does not wait for the drafter"
    assert tokens_of(frames) == generated(engine.model, long, 40)


def test_what_cannot_be_gone_on_with_is_refused_and_changes_nothing(engine, drafter, prompt):
    sessions = table(engine, drafter)
    with pytest.raises(UnknownPrefix) as diverged:
        next(streaming(sessions, prompt, [3]))
    assert diverged.value.conflict == Conflict(have=((0, digest_of([])),))
    with pytest.raises(TooLong):
        next(streaming(sessions, [], prompt * 20))
    text = tokens_of(streaming(sessions, [], prompt, 4, most=3))
    with pytest.raises(UnknownPrefix) as diverged:
        next(streaming(sessions, [*prompt, 0, 0], [3], 5))
    lengths = [at for at, digest in diverged.value.conflict.have if digest == digest_of((prompt + text)[:at])]
    assert lengths[0] == len(prompt) + 3 and len(prompt) - 1 in lengths, "what both have, in ever longer steps"
    with pytest.raises(OutOfOrder):
        next(streaming(sessions, [], prompt, 4))
    assert tokens_of(streaming(sessions, prompt + text, [], 5, most=2)) == generated(engine.model, prompt, 5)[3:]


async def test_the_client_goes_on_from_what_it_read_with_a_stream_or_a_round(loaded, engine, drafter, prompt):
    text = generated(engine.model, prompt, 40)
    with running(create_app(engine, card(loaded, engine), own=OwnDrafter(drafter, engine))) as url:
        async with VerifierClient(url) as client:
            session, other = client.session(), client.session()
            stream = await session.stream(prompt, Sampling(), most=40, **PLAIN | {"memory_from": 0})
            session_opened, read = stream.traffic.up, []
            async for frame in stream:
                read.append(frame)
                if len(tokens_of(read)) >= 8:
                    break
            await stream.aclose()
            known = prompt + tokens_of(read)
            at = len(known) - len(prompt)
            tree = DraftTree.chain(text[at : at + 2])
            reply = await session.round(known, tree, Sampling(), memory_from=None, deadline=PATIENT)
            assert reply.verdict.accepted == (0, 1) and reply.verdict.length == len(known) + 3
            assert reply.exchanges == 1 and reply.traffic.up < session_opened
            await reply.aclose()
            known += text[at : at + 3]
            rest = await session.stream(known, Sampling(), most=5, **PLAIN)
            assert tokens_of([frame async for frame in rest]) == text[at + 3 : at + 8]
            assert stream.traffic.down > rest.traffic.down > 0 and rest.traffic.up > 0
            # The verifier does not know this session. It says so, and gets all tokens.
            await other.close(PATIENT)
            fresh = await other.stream(known, Sampling(), most=3, **PLAIN)
            assert tokens_of([frame async for frame in fresh]) == text[at + 3 : at + 6]
            await session.close(PATIENT)
            again = await session.stream(known, Sampling(), most=3, **PLAIN)
            assert tokens_of([frame async for frame in again]) == text[at + 3 : at + 6]
