"""Outrider on another device, or in another terminal, with a gateway as its server."""

from __future__ import annotations

from pathlib import Path

from app.config import Settings
from app.remotes.peer import Endpoint
from drafter.runtime import Drafter
from tests.support.conversing import Heard, ask, assistant
from tests.support.gateways import GatewayProcess


async def test_an_answer_that_was_cut_goes_on(gateway: GatewayProcess, drafter: Drafter, database: Path) -> None:
    async with assistant(drafter, database, gateway.url, settings=Settings(max_tokens=5)) as opened:
        conversation = opened.store.conversations.create("test").id
        cut = await ask(opened, "list files", conversation)
        connection = opened.backend.routing.connection_of(conversation)
        assert connection is not None and isinstance(connection.verifier, Endpoint), "it is known without its kind"
        whole = await ask(opened, "list files", opened.store.conversations.create("whole").id)
    assert cut.done is not None and cut.done.reason == "length" and whole.text == cut.text
    async with assistant(drafter, database, gateway.url, settings=Settings(max_tokens=12)) as opened:
        longer, rest = await ask(opened, "list files", opened.store.conversations.create("longer").id), Heard()
        async for event in opened.resume(cut.message):
            rest.apply(event)
    assert rest.done is not None and rest.text == longer.text != cut.text
