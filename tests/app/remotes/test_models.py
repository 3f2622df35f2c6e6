"""The lists of models come in server by server, and one that is away or refuses holds up no other."""

from __future__ import annotations

import contextlib
import time

import pytest

from app.config import Folders, Settings
from app.remotes.models import OfferedModel, list_models, servers
from app.remotes.registry import BUNDLED, Remote, Remotes
from remote.openai.schema import Price
from tests.remote.toy_verifier import http, raw_peer
from tests.support.chat_server import ChatServer, Script
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

NOBODY = "http://127.0.0.1:9"


pytestmark = pytest.mark.usefixtures("no_ring")


async def test_each_server_offers_its_models_or_says_why_not(verifier: VerifierProcess, folders: Folders) -> None:
    refused = http(b'{"error":{"message":"Wrong key."}}', status="401 Unauthorized", content_type="application/json")
    async with ChatServer([Script(["x"])]).listening() as port, raw_peer(lambda number: refused) as locked:
        remotes = Remotes(folders)
        remotes.put("mine", Remote(url=f"http://127.0.0.1:{port}"))
        remotes.put("checker", Remote(url=verifier.url))
        remotes.put("away", Remote(url=NOBODY))
        remotes.put("locked", Remote(url=f"http://127.0.0.1:{locked}/v1", kind="openai"))
        names = servers(Settings(), folders)
        lists = list_models(names, Settings(), folders, seconds=PATIENCE_SECONDS)
        found = {one.server: one async for one in lists}
    assert sorted(found) == sorted(names)
    assert [model.name for model in found["mine"].models] == ["talker", "other"]
    assert found["mine"].models[0].about == "streams only"
    (checker,) = found["checker"].models
    assert checker.checks and checker.about.startswith("checks drafts, context ")
    assert [(model.server, model.checks) for model in found[BUNDLED].models] == [(BUNDLED, True)]
    assert not found["away"].models and "nothing listens" in found["away"].trouble
    assert not found["locked"].models and "Wrong key." in found["locked"].trouble


async def test_a_silent_server_holds_up_no_other(folders: Folders) -> None:
    async with ChatServer([Script(["x"])]).listening() as port, raw_peer(lambda number: None) as away:
        remotes = Remotes(folders)
        remotes.put("silent", Remote(url=f"http://127.0.0.1:{away}"))
        remotes.put("mine", Remote(url=f"http://127.0.0.1:{port}"))
        lists = list_models(["silent", "mine"], Settings(), folders, seconds=PATIENCE_SECONDS)
        async with contextlib.aclosing(lists):
            assert (await anext(lists)).server == "mine"
        (one,) = [one async for one in list_models(["silent"], Settings(), folders, seconds=0.2)]
    assert not one.models and one.trouble


async def test_leaving_early_does_not_wait_for_the_others(folders: Folders) -> None:
    async with raw_peer(lambda number: None) as away:
        Remotes(folders).put("silent", Remote(url=f"http://127.0.0.1:{away}"))
        begun = time.monotonic()
        async with contextlib.aclosing(list_models([BUNDLED, "silent"], Settings(), folders, seconds=600)) as lists:
            assert (await anext(lists)).server == BUNDLED
        assert time.monotonic() - begun < 300


def test_a_price_is_told_in_and_out() -> None:
    dear = OfferedModel("router", "a/b", False, 128_000, True, Price(0.25, 15))
    assert dear.about == "context 128,000, reads images, $0.25/$15 per M"
    assert OfferedModel("router", "a/b:free", False, price=Price(0, 0)).about == "free"
