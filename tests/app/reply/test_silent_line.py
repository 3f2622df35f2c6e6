"""A line that falls silent in the midst of a hosted answer is given up soon, however slow the server may be."""

from __future__ import annotations

import re

from app.config import Settings
from app.events import ModeChanged
from remote.link import STALL_SECONDS
from remote.verifier.http import ALIVE_SECONDS
from tests.app.reply.conftest import Connect
from tests.support.conversing import ask
from tests.support.fault_proxy import FaultProxy
from tests.support.faults import after, hushed
from tests.support.serving import VerifierProcess

QUESTION = "how do I unpack a tar archive?"
FRAMES_SECONDS = 1.8
"""How long a device waits for a frame on a fast line where it cannot tell what it is for: rounds, and their memory."""


async def test_it_is_given_up_before_a_frame_is_overdue(verifier: VerifierProcess, connect: Connect) -> None:
    settings = Settings(max_tokens=60)
    async with (
        FaultProxy([verifier.port]) as proxy,
        connect(proxy.url, settings=settings, modes=("hosted",), patient=False) as opened,
    ):
        await opened.settled()
        await ask(opened, QUESTION)  # From here on, the line's deadlines follow its measured round trips.
        proxy.at(0, after(2000, hushed))
        heard = await ask(opened, QUESTION)
    why = next(change.why for change in heard.of(ModeChanged) if change.mode == "offline")
    borne = re.search(r"did not answer within ([\d.]+) s", why)
    assert borne is not None and len(heard.done.token_ids) == 60
    assert STALL_SECONDS + ALIVE_SECONDS <= float(borne[1]) < FRAMES_SECONDS
