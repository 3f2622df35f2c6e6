"""The verifier dies in the middle of an answer: no word is lost, and when it is back the answer continues."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from app.config import Settings
from app.events import ModeChanged
from drafter.runtime import Drafter
from remote import VerifierClient
from tests.faults.device import TOKENS, Device, whys
from tests.faults.table import LATE
from tests.support.conversing import assistant, until_mode
from tests.support.serving import VerifierProcess


async def test_what_was_written_alone_is_taken_over_or_stays_where_the_verifier_does_not_return(
    verifier: VerifierProcess, tiny_pair: Path, tmp_path: Path
) -> None:
    drafter, settings = Drafter.load(tiny_pair / "drafter"), Settings(max_tokens=TOKENS)
    with VerifierProcess(tiny_pair) as mortal:

        async def kill() -> None:
            mortal.kill()

        async def start() -> None:
            mortal.start()

        async with (
            VerifierClient(verifier.url) as around,
            assistant(drafter, tmp_path / "outrider.db", mortal.url, settings=settings) as opened,
        ):
            await until_mode(opened, "edge")
            conversation = opened.store.conversations.create("killed").id
            device = Device(opened, drafter.text, around, {}, conversation)
            heard = await device.ask("list files", strike=kill, heal=start)
            assert [mode for mode, _ in groupby(heard.modes)][-3:] == ["edge", "offline", "edge"]
            assert heard.done is not None and len(heard.done.token_ids) == TOKENS and all(heard.done.provenance)
            assert ModeChanged("edge", "checked by target") in heard.events
            assert heard.reply.ghost == "" and LATE not in whys(heard)[0], "the broken connection tells it"

            heard = await device.ask("by name", strike=kill)
            assert heard.modes[-2:] == ["edge", "offline"]
            assert heard.done is not None and len(heard.done.token_ids) == TOKENS
            assert [verified for verified, _ in groupby(heard.done.provenance)] == [True, False]
            mortal.start()
            await device.works_again()
