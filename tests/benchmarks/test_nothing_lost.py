"""What counts as lost, doubled or wrong in a reply."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.events import Done, Drafted, Event, Failed, Stats, Verified
from remote import VerifierClient
from remote.protocol import Sampling
from storage import Message
from tests.support.nothing_lost import target_alone, violations
from tests.support.serving import VerifierProcess


@pytest.fixture
def text(drafter):
    return drafter.text


@pytest.fixture
def tokens(text) -> list[int]:
    return text.encode("list all files")


@pytest.fixture
def stored(text, tokens) -> Message:
    """Two tokens are verified, and the others drafted."""
    provenance = (True,) * 2 + (False,) * (len(tokens) - 2)
    return Message("m", "c", None, "assistant", text.decode(tokens), "done", tuple(tokens), provenance, {}, "")


@pytest.fixture
def events(text, stored) -> list[Event]:
    solid = text.decode(stored.tokens[:2])
    rest = stored.text.removeprefix(solid)
    done = Done(False, "length", stored.tokens, stored.provenance, Stats())
    return [Verified(solid, 2, 0), Drafted(rest, len(stored.tokens) - 2), done]


def test_a_reply_that_agrees_with_itself_and_with_the_target_is_right(events, stored, text, tokens):
    assert violations(events, stored, tokens, text) == []
    assert violations(events, stored, [*tokens[:2], 3, 4, 5], text) == []
    assert violations(events, stored, None, text) == []
    failed = [*events[:-1], Failed("No verifier.", "unavailable")]
    assert violations(failed, replace(stored, status="failed"), tokens, text) == []


def test_each_thing_that_may_be_wrong_is_found(events, stored, text, tokens):
    def found(events: list[Event] = events, stored: Message = stored, reference: list[int] | None = tokens) -> str:
        return "; ".join(violations(events, stored, reference, text))

    assert "it ended 0 times" in found(events[:-1])
    assert "it ended 2 times" in found([*events, events[-1]])
    assert "it ended 1 times" in found([*events, events[0]])
    assert "are stored, or other ones" in found(stored=replace(stored, tokens=(*stored.tokens[:-1], 3)))
    assert "stored as stopped" in found(stored=replace(stored, status="stopped"))
    backwards = stored.provenance[::-1]
    assert "follows one that is not" in found(stored=replace(stored, provenance=backwards))
    assert "4 tokens were shown as verified, and 2 are" in found([events[0], *events])
    assert "shown" in found([events[0], events[-1]])
    assert "not that of the stored tokens" in found(stored=replace(stored, text=stored.text + "!"))
    assert "verified token 1 of 2 is not the target's own" in found(reference=[tokens[0], tokens[1] + 1, *tokens[2:]])
    assert "verified token 1 of 2 is not the target's own" in found(reference=tokens[:1])


def test_an_answer_that_is_too_short_is_found(events, stored, text, tokens):
    stored = replace(stored, provenance=(True,) * len(tokens))
    done = replace(events[-1], provenance=stored.provenance)
    whole = [Verified(stored.text, len(tokens), 0), done]
    assert violations(whole, stored, tokens, text) == []
    assert violations(whole, stored, [*tokens, 9], text) == [
        f"it ended after {len(tokens)} of the target's {len(tokens) + 1} tokens"
    ]


async def test_the_target_answers_by_itself(verifier: VerifierProcess, prompts, drafter):
    async with VerifierClient(verifier.url) as client:
        answer = await target_alone(client, prompts[0], Sampling(), 12, drafter.text.stop_tokens)
        assert len(answer) == 12 == len(await target_alone(client, prompts[0], Sampling(), 12, ()))
        assert (
            await target_alone(client, prompts[0], Sampling(), 12, answer[5:6]) == answer[: answer.index(answer[5]) + 1]
        )
        assert await target_alone(client, prompts[0] + answer[:4], Sampling(), 8, ()) == answer[4:]
