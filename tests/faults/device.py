"""A device that asks over a line which tests break, and the check that nothing was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from app.drafting.prompt import conversation_tokens
from app.events import Drafted, ModeChanged, Verified
from app.reply.assistant import Assistant
from models.text.chat_text import ChatText
from remote import VerifierClient
from remote.protocol import Sampling
from tests.support.clock import FastClock
from tests.support.conversing import Heard, until_connected
from tests.support.nothing_lost import target_alone, violations
from tests.support.patience import PATIENCE_SECONDS

TOKENS = 48
"""Tokens of an answer: about 12 rounds."""
ALONE = 6
"""Tokens that the device writes alone before the line is healed."""

REFERENCES: dict[tuple[int, ...], list[int]] = {}
"""The tiny target's own answers, by their prompts."""
Act = Callable[[], Awaitable[None]]


HURRY = 5.0
"""How many times as fast the clock runs while a deadline is all that can notice a fault."""


@dataclass
class Device:
    """One conversation of an open assistant with this clock. `around`: the verifier, reached past the line."""

    opened: Assistant
    clock: FastClock
    text: ChatText
    around: VerifierClient
    conversation: str

    async def ask(self, question: str, *, strike: Act | None = None, heal: Act | None = None) -> Heard:
        """Listen to an answer until its end, and look for what was lost.

        `strike` comes after its first round, `heal` once some of it was written alone. The reply waits for its reader.
        So it is still running then, and continues when the verifier is noticed. A clock that is in a hurry is not any
        more from `heal` on, or when the line is back by itself.
        """
        heard, alone = Heard(), 0
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            aclosing(self.opened.reply(self.conversation, question)) as events,
        ):
            async for event in events:
                heard.apply(event)
                if "offline" in heard.modes and heard.reply.mode != "offline":
                    self.clock.hurry(1.0)
                if strike is not None and isinstance(event, Verified):
                    await strike()
                    strike = None
                if isinstance(event, Drafted) and heard.reply.mode == "offline":
                    alone += 1
                    if heal is not None and alone == ALONE:
                        self.clock.hurry(1.0)
                        await heal()
                        await until_connected(self.opened)
        await self.nothing_lost(heard)
        return heard

    async def nothing_lost(self, heard: Heard) -> None:
        thread = self.opened.store.branches.thread(self.conversation)
        prompt = tuple(conversation_tokens(self.text, thread[:-1]))
        if prompt not in REFERENCES:
            stops = self.text.stop_tokens
            REFERENCES[prompt] = await target_alone(self.around, prompt, Sampling(), TOKENS, stops)
        found = violations(heard.events, thread[-1], REFERENCES[prompt], self.text)
        assert not found, found

    async def works_again(self) -> None:
        """Check that the next answer is verified from its first word to its last.

        If the machine itself stood still for longer than a deadline, which looks like a silent line, the one after that
        counts.
        """
        self.clock.hurry(1.0)
        for question in ("and hidden ones", "and by size"):
            await until_connected(self.opened)
            after = await self.ask(question)
            if not any("did not answer within" in why for why in whys(after)):
                break
        assert after.done is not None and all(after.done.provenance) and "offline" not in after.modes


def whys(heard: Heard) -> list[str]:
    """What the status bar said each time the device began to write alone."""
    return [event.why for event in heard.events if isinstance(event, ModeChanged) and event.mode == "offline"]
