"""One answer while it is written: what every way of writing it reads and adds to.

The ways are rounds (`app/reply/edge.py`), a stream (`app/reply/hosted.py`), text of another server
(`app/reply/endpoint.py`) and the drafter alone; `app/reply/reply.py` chooses between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from app.concurrency import unless_set
from app.config import Settings
from app.drafting.drafting import Drafting
from app.drafting.lookahead import Lookahead
from app.events import Failed, ModeChanged, Paced, Reasoned, Stats
from app.remotes.connection import Connection
from app.remotes.mode_meter import Verifying
from app.remotes.peer import Verifier
from app.reply.answer import Answer, Shown
from drafter.multicandidate import DraftSampling
from drafter.text import ChatText
from drafter.tree import DraftTree
from remote import ChatStream, HostedStream, RemoteSession, RoundReply, VerifierClient
from remote.bounds import Bounds
from remote.openai import Usage
from remote.protocol import Sampling
from remote.timing import CLOCK, Clock

T = TypeVar("T")
Step = Shown | Reasoned | ModeChanged | Stats | Paced
Reason = Literal["end", "length", "stopped"]
Code = Literal["unavailable", "incompatible", "too_long", "refused", "broken", "internal"]

PREFILL_SECONDS = 0.01
"""A guess at what the target takes for each token it has not seen; a deadline may be too late, not too early."""
FIRST_SERVER_SECONDS = 0.5
TOKEN_BYTES = 4
"""Of a token on its way up."""
MEMORY_LIMIT_SECONDS = 1.0
"""Longest wait for memory before a request, which needs the line for itself."""
SURE = 0.7
"""Chance that the target keeps a token and all before it, down to which drafted tokens are shown. On 60 everyday
questions, before the first round, these are 7.5 tokens of 29, of which 7 % are withdrawn; at 0.5 13.7 and 16 %, at 0
28.3 and 46 %."""


class NoAnswer(Exception):
    """Neither side can go on. `passing`: the server is away, so that the question may wait for it."""

    def __init__(self, message: str, code: Code, *, passing: bool = False) -> None:
        super().__init__(message)
        self.event = Failed(message, code)
        self.passing = passing


def sure_path(tree: DraftTree) -> list[int]:
    """The tokens of a draft that may be read before they are checked: the likeliest path, as far as it is sure.

    Nothing of a tree of which no chances are known.
    """
    path: list[int] = []
    for node in tree.likeliest_path():
        if tree.acceptance is None or tree.acceptance[node] < SURE:
            break
        path.append(int(tree.tokens[node]))
    return path


@dataclass
class Line:
    """What one conversation shares with its verifier, from reply to reply."""

    client: VerifierClient | None = None
    session: RemoteSession | None = None
    sent: int = 0
    """Tokens that the verifier has seen."""

    def with_verifier(self, verifier: Verifier) -> RemoteSession:
        if self.session is None or self.client is not verifier.client:
            session = verifier.client.session(Bounds.of(verifier.card))
            self.client, self.session, self.sent = verifier.client, session, 0
        return self.session


class Writing:
    """The answer to `prompt`, the tokens of a conversation up to where its answer begins.

    `messages`: the same conversation as (role, text), for a server that reads no tokens. `begun`: what there is of the
    answer; the target keeps or replaces those of its tokens that are not verified. `most`: tokens of a whole answer, in
    the drafter's vocabulary.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        *,
        messages: Sequence[tuple[str, str]],
        text: ChatText,
        settings: Settings,
        most: int,
        sampling: Sampling,
        drafting: Drafting,
        line: Line,
        draft: bool,
        begun: Answer,
        clock: Clock = CLOCK,
    ) -> None:
        self.answer = begun
        self.reason: Reason | None = None
        """Why it ended; None before."""
        self.prompt = list(prompt)
        self.messages = messages
        self.text = text
        self.settings = settings
        self.most = most
        self.cut_by = ""
        """What ended the answer before the model did; empty where that is its limit of tokens, or nothing."""
        self.full = False
        """No more of this conversation can be read."""
        self.unreadable: NoAnswer | None = None
        """Why only a server that reads text can answer: the conversation has too many tokens of ours."""
        self.unsent = 0
        """Times that a server was gone before the question left."""
        self.model = ""
        """Whom the OpenAI-compatible server was asked for."""
        self._stream: ChatStream | None = None
        self.sampling = sampling
        self.drafting = drafting
        self.line = line
        self.draft = draft
        self.stop_tokens = set(text.stop_tokens)
        self.stopping = asyncio.Event()
        self.rounds = 0
        self.drafted_nodes = 0
        self.traffic: list[RoundReply | HostedStream | ChatStream] = []
        self.ahead = Lookahead(drafting, enabled=draft and settings.ahead and self.draft_sampling is None)
        self.choosing = draft and settings.mode == "auto"
        """The faster mode is taken."""
        self._chosen = False
        self._guessed_before = drafting.guessed
        self._given = self.answer.verified
        """Tokens that were verified before it began."""
        self.clock = clock
        self._begun = clock.now()
        self._first_token: float | None = None

    # ---- what is there -----------------------------------------------------------------------------------------------

    @property
    def tokens(self) -> list[int]:
        """Of the conversation, with all that has been written."""
        return self.prompt + self.answer.tokens

    @property
    def committed(self) -> list[int]:
        """Without what was written alone."""
        return self.prompt + self.answer.tokens[: self.answer.verified]

    @property
    def left(self) -> int:
        """Tokens that the answer may still have."""
        return self.most - len(self.answer.tokens)

    @property
    def draft_sampling(self) -> DraftSampling | None:
        """None: the likeliest candidates, as always where the target is greedy."""
        sampling = self.sampling
        if self.settings.tree == "deterministic" or sampling.temperature == 0:
            return None
        return DraftSampling(sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed)

    def stats(self, connection: Connection | None) -> Stats:
        link = None if connection is None else connection.link
        # What was measured of a line that is down is not what the line is like now.
        rtt = None if connection is None or connection.verifier is None else connection.link.rtt_seconds
        return Stats(
            rounds=self.rounds,
            verified=max(0, self.answer.verified - self._given),
            streamed=self.streamed,
            counted=self.usage is not None,
            drafted=len(self.answer.suffix),
            drafted_nodes=self.drafted_nodes,
            second_stage=self.drafting.guessed - self._guessed_before,
            ahead_tries=self.ahead.tries,
            ahead_hits=self.ahead.hits,
            ahead_adopted=self.ahead.adopted,
            seconds=self.clock.now() - self._begun,
            first_token_seconds=self._first_token,
            rtt_ms=None if rtt is None else 1000 * rtt,
            line=None if link is None else link.state,
            up_bytes_per_second=None if link is None else link.up_bytes_per_second,
            down_bytes_per_second=None if link is None else link.down_bytes_per_second,
            bytes_up=sum(exchange.bytes_up for exchange in self.traffic),
            bytes_down=sum(exchange.bytes_down for exchange in self.traffic),
        )

    @property
    def usage(self) -> Usage | None:
        """What an OpenAI-compatible server has counted."""
        return None if self._stream is None else self._stream.usage

    @property
    def streamed(self) -> int | None:
        """Tokens of such a server, as far as they are known; None: there is none."""
        if self._stream is None:
            return None
        return self._stream.pieces if self.usage is None else self.usage.completion_tokens

    # ---- what is added -----------------------------------------------------------------------------------------------

    def verify(self, tokens: Sequence[int], from_draft: int) -> list[Shown]:
        """Put in tokens that the target has verified, of which the first so many had been guessed."""
        kept = self.cut(tokens, after=self.answer.verified)
        shown = self.answer.verify(kept, min(from_draft, len(kept)))
        self.rounds += 1
        self.count_first()
        self.end_at(self.answer.tokens[: self.answer.verified])
        return shown

    def cut(self, tokens: Sequence[int], after: int | None = None) -> list[int]:
        """Tokens up to the first that ends an answer, and no more than it may have after `after` others."""
        left = self.left if after is None else self.most - after
        kept: list[int] = []
        for token in tokens[: max(0, left)]:
            kept.append(token)
            if token in self.stop_tokens:
                break
        return kept

    def tells(self, stream: ChatStream, model: str) -> None:
        """An OpenAI-compatible server has begun to answer, with this model."""
        self.traffic.append(stream)
        self._stream, self.model = stream, model

    def end_at(self, tokens: Sequence[int]) -> None:
        """The answer may be complete with these."""
        if tokens and tokens[-1] in self.stop_tokens:
            self.reason = "end"
        elif len(tokens) >= self.most:
            self.reason = "length"

    def count_first(self) -> None:
        """Something has been written."""
        if self._first_token is None and (self.answer.tokens or self.answer.telling):
            self._first_token = self.clock.now() - self._begun

    # ---- with whom, and for how long ---------------------------------------------------------------------------------

    def mode(self, connection: Connection) -> Verifying:
        """Who drafts now."""
        if self.answer.suffix:
            return "edge"  # What was written alone goes up as a draft.
        if not self.choosing:
            return "hosted" if self.settings.mode == "hosted" else "edge"
        begun, self._chosen = self._chosen, True
        rtt = connection.link.rtt_seconds or 0.0
        return connection.modes.review(rtt) if begun else connection.modes.choose(rtt)

    def memory_from(self, verifier: Verifier) -> int | None:
        """The first token whose memory to ask for; None where it means nothing to the drafter."""
        means = self.draft and self.drafting.reads(verifier.card.memory)
        return self.drafting.memory_from if means else None

    def deadline(self, connection: Connection, committed: Sequence[int]) -> float:
        """Seconds for the verifier to answer to these tokens, of which it may not have seen some."""
        unseen = max(0, len(committed) - self.line.sent)
        estimate = (connection.server_seconds or FIRST_SERVER_SECONDS) + PREFILL_SECONDS * unseen
        return connection.link.deadline(estimate, TOKEN_BYTES * unseen)

    async def unless_stopped(self, work: Coroutine[Any, Any, T] | asyncio.Task[T]) -> T | None:
        """The work's result; None where `stopping` was set first, and then the work is cancelled."""
        return await unless_set(self.stopping, work)
