"""Offline mode: the drafter writes alone, and its text is not verified until a verifier is available.

While a verifier starts, the drafter may write the words that the target will most likely say too. They are sent as a
draft in the first round.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable

from app.events import ModeChanged, RoundEnded
from app.remotes.connection import Connection
from app.remotes.substitute import name_of
from app.reply.generation import Generation, Step, sure_path
from drafter.search import Pace

EARLY_TOKENS = 32
"""Most tokens that the drafter writes while the verifier starts: as many as one round can judge."""
ROUND_TOKENS = 16
"""Tokens after which the drafter's text is stored, as after a round."""
MOST_ALONE = 512
"""Most tokens that the drafter writes alone, if the person has set no limit: its text is not checked, and a small model
may repeat itself endlessly."""


class Offline:
    """The drafter, writing one answer alone.

    `allowed`: it may write alone if the settings also allow it and nothing forbids it. `nobody`: why the drafter may
    not substitute for the model that is away, as a sentence, or None if it may. `early`: it may write while the
    verifier starts.
    """

    def __init__(
        self,
        generation: Generation,
        connection: Connection | None,
        *,
        allowed: bool,
        nobody: Callable[[], str | None],
        early: bool,
    ) -> None:
        self._generation, self._connection, self._nobody = generation, connection, nobody
        given = generation.given
        self.allowed = allowed and given.draft and given.settings.mode in ("auto", "offline")
        """Whether the answer and the settings let the drafter write, whatever model is away."""
        # A chain of the likeliest tokens. With sampling, the target would rarely keep it.
        self._early = early and given.sampling.temperature == 0

    @property
    def possible(self) -> bool:
        """Whether the drafter can continue this answer now. It would not know the results of tool calls."""
        if (desk := self._generation.desk) is not None and desk.calls:
            return False
        if not self.allowed or self._generation.answer.is_text or self._generation.drafting.is_model:
            return False
        return self._nobody() is None and not (self._connection is not None and self._connection.refuses)

    @property
    def why_not(self) -> str | None:
        """Why the drafter may not continue although the settings allow it, as a sentence, or None if it may."""
        return self._nobody() if self.allowed else None

    @property
    def early(self) -> bool:
        return self._early and self.possible

    async def early_steps(self) -> AsyncGenerator[Step, None]:
        """Text that the target will most likely say too, written while the verifier starts."""
        generation, drafting = self._generation, self._generation.drafting
        await drafting.quiet()
        await drafting.follow(generation.tokens)
        most = min(EARLY_TOKENS, generation.left - 1)
        if most < 1:
            return
        tree = await drafting.draft(Pace(depth=most, breadth=1, nodes=most, deepest=most))
        for token in sure_path(tree):
            if token in generation.stop_tokens:
                break
            for step in generation.draft(token, ends=False):
                yield step
        yield RoundEnded(generation.stats)

    async def steps(self) -> AsyncGenerator[Step, None]:
        """The drafter's tokens until the answer is complete or a verifier is available."""
        generation, connection, drafting = self._generation, self._connection, self._generation.drafting
        writer = generation.answer.drafter = name_of(drafting.config)
        if connection is None:
            yield ModeChanged("offline", "offline by choice", model=writer)
        else:
            yield connection.mode("offline", writer=writer)
        await drafting.quiet()
        given, alone = generation.given, 0
        sampling = given.sampling
        writing = drafting.generate(generation.tokens, sampling.temperature, sampling.seed)
        async with contextlib.aclosing(writing) as tokens:
            async for token in tokens:
                for step in generation.draft(token, ends=True):
                    yield step
                alone += 1
                if generation.reason is None and given.most is None and alone >= MOST_ALONE:
                    said = f"cut at {MOST_ALONE} tokens, the most that the small model writes alone"
                    generation.end("length", cut_by=said, kind="length")
                if len(generation.answer.tokens) % ROUND_TOKENS == 0:
                    yield RoundEnded(generation.stats)
                if generation.reason is not None or generation.stopping:
                    break
                if connection is not None and connection.verifier is not None:
                    break
        yield RoundEnded(generation.stats)
