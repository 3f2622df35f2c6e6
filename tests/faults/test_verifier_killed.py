"""The verifier dies in the middle of an answer: no word is lost, and when it is back the answer continues."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from itertools import groupby
from pathlib import Path

import pytest

from app.config import Settings
from app.events import Drafted, ModeChanged, Verified
from drafter.runtime import Drafter
from tests.support.conversing import PATIENCE_SECONDS, Heard, ask, assistant, until_mode
from tests.support.serving import VerifierProcess

SETTINGS = Settings(max_tokens=60)


@pytest.fixture
def mortal(tiny_pair: Path) -> Iterator[VerifierProcess]:
    with VerifierProcess(tiny_pair) as process:
        yield process


async def test_what_was_written_alone_is_taken_over_or_stays_where_the_verifier_does_not_return(
    mortal: VerifierProcess, tiny_pair: Path, tmp_path: Path
) -> None:
    drafter = Drafter.load(tiny_pair / "drafter")
    async with assistant(drafter, tmp_path / "reference.db", mortal.url, settings=SETTINGS, draft=False) as opened:
        reference = await ask(opened, "list files")
    async with assistant(drafter, tmp_path / "outrider.db", mortal.url, settings=SETTINGS) as opened:
        await until_mode(opened, "edge")
        conversation = opened.store.conversations.create("back").id
        heard, alone = Heard(), 0
        async with aclosing(opened.reply(conversation, "list files")) as events:
            async for event in events:
                heard.apply(event)
                if isinstance(event, Verified) and heard.modes.count("edge") == 1 and alone == 0:
                    mortal.kill()
                elif isinstance(event, Drafted) and heard.reply.mode == "offline":
                    alone += 1
                    if alone == 12:  # The reply waits for its reader, so it is still running when the server is back.
                        mortal.start()
                        await until_mode(opened, "edge")
        assert [mode for mode, _ in groupby(heard.modes)][-3:] == ["edge", "offline", "edge"]
        assert heard.done is not None and all(heard.done.provenance)
        assert reference.done is not None and heard.done.token_ids == reference.done.token_ids
        assert (heard.reply.solid, heard.reply.ghost) == (reference.text, "")
        assert ModeChanged("edge", "checked by target") in heard.events

        conversation = opened.store.conversations.create("cut").id
        heard, killed = Heard(), False
        # The broken connection tells it, not a deadline: the assistant is more patient than that.
        async with (
            asyncio.timeout(PATIENCE_SECONDS / 2),
            aclosing(opened.reply(conversation, "list files")) as events,
        ):
            async for event in events:
                heard.apply(event)
                if isinstance(event, Verified) and not killed:
                    mortal.kill()
                    killed = True
        assert heard.modes[-2:] == ["edge", "offline"]
        assert heard.done is not None and len(heard.done.token_ids) == 60
        assert [verified for verified, _ in groupby(heard.done.provenance)] == [True, False]
        stored = opened.store.messages.get(heard.message)
        assert (stored.status, stored.tokens, stored.text) == ("done", heard.done.token_ids, heard.text)
        assert stored.provenance == heard.done.provenance

        mortal.start()
        await until_mode(opened, "edge")
        after = await ask(opened, "and hidden ones", conversation)
        assert after.done is not None and all(after.done.provenance)


async def test_a_verifier_that_hangs_is_not_waited_for(
    mortal: VerifierProcess, tiny_pair: Path, tmp_path: Path
) -> None:
    drafter = Drafter.load(tiny_pair / "drafter")
    async with assistant(drafter, tmp_path / "outrider.db", mortal.url, settings=SETTINGS, patient=False) as opened:
        await until_mode(opened, "edge")
        conversation = opened.store.conversations.create("hung").id
        heard = Heard()
        try:
            async with aclosing(opened.reply(conversation, "list files")) as events:
                async for event in events:
                    heard.apply(event)
                    if isinstance(event, Verified):
                        mortal.pause()
        finally:
            mortal.resume()
        assert heard.modes[-1] == "offline" and "did not answer" in heard.reply.why
        assert heard.done is not None and len(heard.done.token_ids) == 60
        await until_mode(opened, "edge")
        after = await ask(opened, "and hidden ones", conversation)
        assert after.done is not None and any(after.done.provenance)
