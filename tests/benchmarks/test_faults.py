"""What the tests of faults stand on: what counts as lost, doubled or wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.events import Done, Drafted, Event, Failed, Stats, Verified
from storage import Message
from tests.support.nothing_lost import violations


@pytest.fixture
def tokens(drafter) -> list[int]:
    return drafter.text.encode("list all files")


@pytest.fixture
def stored(drafter, tokens) -> Message:
    """Two tokens are verified, and the others drafted."""
    provenance = (True,) * 2 + (False,) * (len(tokens) - 2)
    return Message("m", "c", None, "assistant", drafter.text.decode(tokens), "done", tuple(tokens), provenance, {}, "")


@pytest.fixture
def events(drafter, stored) -> list[Event]:
    solid = drafter.text.decode(stored.tokens[:2])
    done = Done(False, "length", stored.tokens, stored.provenance, Stats())
    return [Verified(solid, 2, 0), Drafted(stored.text.removeprefix(solid), len(stored.tokens) - 2), done]


def test_each_thing_that_may_be_wrong_is_found(events, stored, drafter, tokens):
    def found(events: list[Event] = events, stored: Message = stored, reference: list[int] | None = tokens) -> str:
        return "; ".join(violations(events, stored, reference, drafter.text))

    assert found() == found(reference=None) == found(reference=[*tokens[:2], 3, 4, 5]) == ""
    assert found([*events[:-1], Failed("No verifier.", "unavailable")], replace(stored, status="failed")) == ""
    assert "it ended 0 times" in found(events[:-1])
    assert "it ended 2 times" in found([*events, events[-1]])
    assert "are stored, or other ones" in found(stored=replace(stored, tokens=(*stored.tokens[:-1], 3)))
    assert "stored as stopped" in found(stored=replace(stored, status="stopped"))
    assert "follows one that is not" in found(stored=replace(stored, provenance=stored.provenance[::-1]))
    assert "4 tokens were shown as verified, and 2 are" in found([events[0], *events])
    assert "shown" in found([events[0], events[-1]])
    assert "not that of the stored tokens" in found(stored=replace(stored, text=stored.text + "!"))
    assert "verified token 1 of 2 is not the target's own" in found(reference=[tokens[0], tokens[1] + 1, *tokens[2:]])
    whole = replace(stored, provenance=(True,) * len(tokens))
    said = [Verified(stored.text, len(tokens), 0), replace(events[-1], provenance=whole.provenance)]
    assert found(said, whole) == ""
    short = f"it ended after {len(tokens)} of the target's {len(tokens) + 1} tokens"
    assert found(said, whole, [*tokens, 9]) == short
