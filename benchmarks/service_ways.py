"""Ways in which the clients of `benchmarks.service` ask: OpenAI's API, hosted answers, and rounds of devices.

Drafting would compete with the server for the processor. So a draft after each token of each answer is made beforehand,
by the bundled drafter with the bundled target's memory, and the one that follows a round is sent as a device would send
it: trees of 60 nodes. The memory is requested and read, as on a device.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field

from drafter.runtime import Drafter
from models.engines.engine import Engine
from models.text.chat_text import ChatText
from models.tree import DraftTree
from remote import Refused, RemoteSession, VerifierClient
from remote.protocol import Progress, Sampling, unpack_tokens
from remote.verifier.making.measure import TREE, memory_telling, rounds

WAYS = ("openai", "hosted", "edge")
PATIENCE = 300.0
TRIES = 20
PAUSE = 1.0
"""Seconds before a refused request is retried."""


@dataclass
class Asked:
    """The clients' measurements in one round."""

    first: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    pieces: int = 0
    refused: int = 0
    failed: int = 0

    def took(self, seconds: float, first: bool) -> None:
        """Record the seconds to a piece of text."""
        (self.first if first else self.gaps).append(seconds)
        self.pieces += 1


Drafts = Mapping[str, Sequence[DraftTree]]
"""The drafts of a device for each question: one for each token of the answer."""


def drafts_of(engine: Engine, drafter: Drafter, prompts: Mapping[str, list[int]], most: int) -> Drafts:
    """A device's drafts for each question, with the memory of all tokens before."""
    return {question: _drafts(engine, drafter, prompt, most) for question, prompt in prompts.items()}


def _drafts(engine: Engine, drafter: Drafter, prompt: list[int], most: int) -> list[DraftTree]:
    draft, stops = drafter.context(), frozenset(drafter.config.stop_tokens)
    draft.commit(prompt)
    trees = [DraftTree.empty()]  # The first round carries the prompt.
    with memory_telling(engine, drafter, draft) as tell:
        for one in rounds(engine, prompt, lambda _: DraftTree.empty(), stops, most):
            draft.commit(one.new)
            tell(one.context, one.tree, one.accepted)
            if one.new[-1] not in stops:
                trees.append(draft.draft(TREE))
    return trees


async def by_tokens(
    url: str,
    clients: int,
    questions: Sequence[str],
    prompts: Mapping[str, list[int]],
    text: ChatText,
    most: int,
    drafts: Drafts | None,
) -> tuple[Asked, float]:
    """Have this many clients ask in Outrider's own protocol: in rounds with these drafts, or hosted (None).

    Returns their measurements and the total seconds.
    """
    asked, waiting = Asked(), list(reversed(questions))

    async def one() -> None:
        async with VerifierClient(url) as client:
            while waiting:
                question = waiting.pop()
                for _ in range(TRIES):
                    try:
                        await answered(client, question)
                        break
                    except Refused as refused:
                        if not refused.retry:
                            asked.failed += 1
                            break
                        asked.refused += 1
                        await asyncio.sleep(PAUSE)
                else:
                    asked.failed += 1

    async def answered(client: VerifierClient, question: str) -> None:
        session, said = client.session(), list[int]()
        pieces = (
            hosted(session, prompts[question], most)
            if drafts is None
            else in_rounds(session, prompts[question], drafts[question], most)
        )
        last = time.monotonic()
        async for tokens in pieces:
            now = time.monotonic()
            asked.took(now - last, not said)
            last, said = now, said + tokens
        asked.texts[question] = text.decode(said)
        await session.close(PATIENCE)

    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(one())
    return asked, time.monotonic() - begun


async def hosted(session: RemoteSession, prompt: Sequence[int], most: int) -> AsyncGenerator[list[int], None]:
    """The tokens that each round of the server brings."""
    stream = await session.stream(prompt, Sampling(), most=most, memory_from=None, deadline=PATIENCE, silence=PATIENCE)
    async with contextlib.aclosing(stream):
        async for frame in stream:
            if isinstance(frame, Progress):
                yield unpack_tokens(frame.tokens)


async def in_rounds(
    session: RemoteSession, prompt: Sequence[int], drafts: Sequence[DraftTree], most: int
) -> AsyncGenerator[list[int], None]:
    """The tokens that each round of a device brings, up to `most` of them.

    `drafts`: its draft after each number of tokens of the answer. The memory is read, as on a device.
    """
    tokens, known = list(prompt), 0
    while (said := len(tokens) - len(prompt)) < most:
        tree = drafts[said] if said < len(drafts) else DraftTree.empty()
        reply = await session.round(tokens, tree, Sampling(), memory_from=known, deadline=PATIENCE)
        verdict = reply.verdict
        new = [int(tree.tokens[node]) for node in verdict.accepted]
        new += [] if verdict.bonus is None else [verdict.bonus]
        new = new[: len(prompt) + most - len(tokens)]
        async with contextlib.aclosing(reply):
            yield new
            async for _ in reply.memory:
                pass
        known = len(tokens)
        tokens += new
        if verdict.finished:
            break
