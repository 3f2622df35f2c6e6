"""`outrider ask` and `outrider verify` with servers that check no drafts, each in the dialect of a hosted service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.commands import Outrider
from tests.support.dialects import Exchange, Playback, exchange
from tests.support.shells import served


@contextmanager
def serving(told: Exchange) -> Iterator[tuple[str, Playback]]:
    """The address of a service that plays this exchange, and the service."""
    server = Playback(told)
    with served(server) as address:  # type: ignore[arg-type]
        yield address, server


@pytest.mark.parametrize(
    ("service", "name"),
    [
        ("mistral", "reasoning in parts of another type"),
        ("ollama", "reasoning, and the count at the end"),
    ],
)
def test_ask_prints_the_text_alone_and_json_has_the_rest(outrider: Outrider, service: str, name: str) -> None:
    told = exchange(service, name)
    with serving(told) as (address, _):
        asked = outrider("ask", "how?", "--remote", address, "--json")
        plain = outrider("ask", "how?", "--remote", address)
    found, expected = asked.json, told.expected
    assert asked.code == plain.code == 0 and plain.out == expected["text"] + "\n"
    assert (found["text"], found["reasoning"]) == (expected["text"], expected["reasoning"])
    assert found["tau"] is None and "verified" not in found["provenance"]
    if "usage" in expected:
        assert found["provenance"]["streamed"] == expected["usage"][1]
    assert bool(found["cut"]) is ("cut" in expected) and ("is not whole" in plain.err) is ("cut" in expected)


def test_verify_has_the_question_answered_again_and_says_which_way(outrider: Outrider) -> None:
    refuses = exchange("openai", "a model without predicted outputs")
    with serving(refuses) as (address, server):
        alone = outrider("ask", "list files", "--mode", "offline", "--max-tokens", "12")
        again = outrider("verify", "--remote", address)
        more = outrider("verify", "--remote", address)
    assert (again.code, again.out) == (0, "ls -l\n")
    assert "answered again by talker; no word is the same" in again.err
    assert "not in the new answer: " in again.err
    said = again.err.replace(address, "").replace(alone.out.strip(), "").split("not in the new answer")[0].lower()
    assert "verif" not in said and "checked" not in said and "target" not in said
    assert ["prediction" in request for request in server.asked] == [True, False], "and not a third time"
    assert (more.code, more.out) == (0, again.out)
