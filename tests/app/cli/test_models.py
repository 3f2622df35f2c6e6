"""`outrider models`, and `--model` of `ask`: which model answers, now and when the conversation goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.config import Folders
from app.remotes.registry import Remote, Remotes
from tests.support.chat_server import ChatServer, Script
from tests.support.commands import Outrider
from tests.support.shells import served


@pytest.fixture
def remotes(home: Path) -> Remotes:
    return Remotes(Folders.locate({"OUTRIDER_HOME": str(home)}))


@pytest.fixture
def server(remotes: Remotes) -> Iterator[ChatServer]:
    """The server `mine` of the registry, which also has one that is away and in use."""
    server = ChatServer([Script(["Paris"])])
    with served(server) as address:
        remotes.put("mine", Remote(url=address, model="talker"))
        remotes.put("away", Remote(url="http://127.0.0.1:9"))
        remotes.use("away")
        yield server


def test_all_models_are_listed(outrider: Outrider, server: ChatServer, remotes: Remotes) -> None:
    every = outrider("models")
    assert every.says(0, "away: nothing listens") and "bundled  " in every.out and "checks drafts" in every.out
    assert "mine  talker  streams only\nmine  other  streams only\n" in every.out
    mine = outrider("models", "--remote", "mine", "--json")
    first, second = mine.rows
    unknown = dict.fromkeys(("context", "images", "dollars_per_million"))
    assert first == {"server": "mine", "model": "talker", "checks_drafts": False, **unknown}
    assert (mine.code, second["model"], mine.err) == (0, "other", "")
    assert outrider("models", "--remote", "away").code == 3
    assert outrider("models", "--remote", "nobody").says(2, "there is no server 'nobody'")
    url = remotes.get("mine").url
    assert outrider("models", "--remote", url).out.startswith(f"{url}  talker") and not server.asked


def test_a_named_model_stays_with_its_conversation(outrider: Outrider, server: ChatServer, remotes: Remotes) -> None:
    named = outrider("ask", "--remote", "mine", "--model", "other", "--json", "capital of France")
    assert named.code == 0 and named.json["model"] == "other" and server.asked[-1]["model"] == "other"
    then = outrider("ask", "-c", "and of Spain")  # The one in use is away, and is not asked.
    assert (then.code, then.out) == (0, "Paris\n") and server.asked[-1]["model"] == "other"
    remotes.remove("mine")
    gone = outrider("ask", "-c", "and of Greece")
    assert gone.says(3, "the server mine, which was chosen for this conversation") and gone.out == ""


def test_a_model_that_is_not_there_is_named(outrider: Outrider, server: ChatServer) -> None:
    server.strict = True
    third = outrider("ask", "--remote", "mine", "--model", "third", "a")
    assert third.code == 3 and "No model third" in third.err and "it lists talker, other" in third.err
    asked = len(server.asked)
    assert outrider("ask", "--remote", "bundled", "--model", "third", "a").says(2, "the bundled server has one model")
    assert outrider("ask", "--mode", "offline", "--model", "third", "a").says(2, "--model")
    assert len(server.asked) == asked
