"""Limits of each token holder: what is refused, when it may come again, and that no running answer is cut."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.engines.engine import Engine
from remote.protocol import Card, Error, decode, encode
from remote.verifier.admission import RESUMED_SECONDS, RUNNING_SECONDS, Admission, RateLimited
from remote.verifier.holders import Tokens
from remote.verifier.http import create_app
from remote.verifier.observability.record import Record
from remote.verifier.options import ServeOptions
from tests.remote.verifier.test_hosted import ask
from tests.remote.verifier.test_http import PROMPT, connected, frames_of, message

ANNA, BERT = "0123456789abcdef-anna", "0123456789abcdef-bert"
TOKENS = Tokens([("anna", ANNA), ("bert", BERT)])
MOST = 300
"""Tokens of the longest session."""


def admitting(**options: int) -> tuple[Admission, SimpleNamespace]:
    """The rules, and the time that they go by, which tests move."""
    time = SimpleNamespace(now=1000.0)
    return Admission(ServeOptions(**options), lambda: time.now), time


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def played(admission: Admission, session: str, length: int, wrote: int = 0) -> None:
    """A round of a session, from its beginning to its end."""
    record = Record()
    admission.go_on(record, session.partition("/")[0], session, length, MOST)
    if wrote:
        record.wrote(wrote, 0.1, length + wrote, False)
    record.end()


# ---- the rules -------------------------------------------------------------------------------------------------------


def test_requests_of_a_minute_come_back_one_by_one() -> None:
    admission, time = admitting(requests_per_minute=2)
    for _ in range(2):
        record = Record()
        admission.begin(record, "anna")
        record.end()
    with pytest.raises(RateLimited) as refused:
        admission.begin(Record(), "anna")
    assert (refused.value.reason, refused.value.seconds) == ("requests", 30)
    admission.begin(Record(), "bert")
    time.now += 30
    admission.begin(Record(), "anna")


def test_tokens_are_counted_when_they_are_there_and_a_debt_is_waited_for() -> None:
    admission, time = admitting(tokens_per_minute=60)
    long = Record()
    admission.begin(long, "anna")
    long.read(100)
    with pytest.raises(RateLimited) as refused:
        admission.begin(Record(), "anna")  # The other one still runs.
    assert (refused.value.reason, refused.value.seconds) == ("tokens", 41)
    long.wrote(20, 0.1, 120, True)
    long.end()
    with pytest.raises(RateLimited) as refused:
        admission.begin(Record(), "anna")
    assert refused.value.seconds == 61
    time.now += 61
    admission.begin(Record(), "anna")


def test_rounds_of_a_running_answer_are_never_refused() -> None:
    admission, time = admitting(max_per_token=1, requests_per_minute=1, tokens_per_minute=1)
    length = 10
    for _ in range(20):
        played(admission, "anna/s", length, wrote=3)
        length += 3
        time.now += 1
        with pytest.raises(RateLimited):
            admission.go_on(Record(), "anna", "anna/other", 10, MOST)


def test_a_place_is_free_again_when_the_device_falls_silent_or_says_so() -> None:
    admission, time = admitting(max_per_token=1)
    for session, leave in (
        ("anna/a", lambda: admission.ended("anna/a")),
        ("anna/b", lambda: setattr(time, "now", time.now + RUNNING_SECONDS)),
        ("anna/c", lambda: None),
    ):
        played(admission, session, 10, wrote=3)
        leave()
    with pytest.raises(RateLimited) as refused:
        admission.begin(Record(), "anna")
    assert refused.value.reason == "answers"


def test_no_more_answers_are_remembered_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote.verifier.admission.MAX_ANSWERS", 20)
    admission, time = admitting()
    for number in range(30):
        played(admission, f"anna/{number}", 10)
    assert admission.running == 20
    time.now += RESUMED_SECONDS
    admission.begin(Record(), "anna")
    assert admission.running == 1


steps = st.tuples(st.sampled_from(["begin", "end", "sleep"]), st.sampled_from("ab"), st.integers(0, 3))


@given(st.integers(1, 3), st.lists(steps, max_size=40))
def test_a_holder_never_has_more_answers_than_are_allowed(most: int, steps: list[tuple[str, str, int]]) -> None:
    """Whatever order they begin and end in. Who is refused had them all, and a refusal takes no place."""
    admission, time = admitting(max_per_token=most)
    running: dict[str, list[Record]] = {"a": [], "b": []}
    for step, holder, number in steps:
        if step == "sleep":
            time.now += 10 * number
        elif step == "end" and running[holder]:
            running[holder].pop(number % len(running[holder])).end()
        elif step == "begin":
            record = Record()
            try:
                admission.begin(record, holder)
            except RateLimited:
                assert len(running[holder]) == most
            else:
                running[holder].append(record)
        assert len(running[holder]) <= most
        assert admission.running == len(running["a"]) + len(running["b"])


# ---- over HTTP -------------------------------------------------------------------------------------------------------


async def test_a_holder_over_the_limit_is_told_when_to_come_again(target: Engine, card: Card) -> None:
    app = create_app(target, card, ServeOptions(tokens=TOKENS, requests_per_minute=1))
    async with connected(app) as client:
        for token in (ANNA, BERT):
            first = await client.post("/v1/rounds", content=message(1, [], PROMPT), headers=bearer(token))
            assert first.status_code == 200
        second = message(1, [], PROMPT, session="other")
        refused = await client.post("/v1/rounds", content=second, headers=bearer(ANNA))
        error = decode(refused.content, Error)
        assert (refused.status_code, error.code, error.retry) == (429, "busy", True)
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        next_round = message(2, [*PROMPT, frames_of(first.content)[0].bonus], [])
        assert (await client.post("/v1/rounds", content=next_round, headers=bearer(ANNA))).status_code == 200
        page = (await client.get("/metrics", headers=bearer(ANNA))).text
    assert 'outrider_not_admitted_total{reason="requests"} 1' in page


async def test_other_clients_are_refused_in_openais_shape(target: Engine, card: Card) -> None:
    app = create_app(target, card, ServeOptions(tokens=TOKENS, requests_per_minute=1, tokens_per_minute=5))
    async with connected(app, **bearer(ANNA)) as client:
        await client.post("/v1/rounds", content=message(1, [], PROMPT))
        reply = await client.post("/v1/chat/completions", json={"messages": []})
    assert reply.status_code == 429 and 1 <= int(reply.headers["retry-after"]) <= 72
    assert reply.headers["content-type"] == "application/json"
    error = reply.json()["error"]
    assert (error["type"], error["code"]) == ("tokens", "rate_limit_exceeded")
    assert "its tokens for this minute (5 a minute)" in error["message"]


async def test_nobody_goes_on_with_the_session_of_another_holder(target: Engine, card: Card) -> None:
    app = create_app(target, card, ServeOptions(tokens=TOKENS))
    async with connected(app) as client:
        first = await client.post("/v1/rounds", content=message(1, [], PROMPT), headers=bearer(ANNA))
        tokens = [*PROMPT, frames_of(first.content)[0].bonus]
        for path, body in (("rounds", message(2, tokens, [])), ("streams", encode(ask(tokens, [], 2, most=2)))):
            stolen = await client.post(f"/v1/{path}", content=body, headers=bearer(BERT))
            assert stolen.status_code == 409, "to another holder it is a session that is not there"
        assert (await client.delete("/v1/sessions/s", headers=bearer(BERT))).status_code == 404
        again = await client.post("/v1/rounds", content=message(2, tokens, []), headers=bearer(ANNA))
        assert again.status_code == 200
