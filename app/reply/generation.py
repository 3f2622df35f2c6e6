"""One answer while it is written: its input, its current state, and every way in which it changes.

Four writers share it: rounds (`app/reply/edge.py`), a stream (`app/reply/hosted.py`), the text of another server
(`app/reply/endpoint.py`) and the drafter alone (`app/reply/offline.py`). `app/reply/reply.py` chooses between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from app.concurrency import unless_set
from app.config import Settings
from app.drafting.drafting import Drafting
from app.drafting.lookahead import Lookahead
from app.drafting.readings import Conversation, Reading
from app.events import (
    Cut,
    EndReason,
    ModeChanged,
    Reasoned,
    Redrawn,
    RoundEnded,
    Stats,
    Stretch,
    SystemUnread,
    ToolCalled,
    ToolsLeftOut,
)
from app.remotes.connection import Connection
from app.remotes.mode_meter import Verifying
from app.remotes.peer import Verifier, VerifierSession
from app.reply.answer import Answer, Shown
from app.reply.call_desk import CallDesk
from app.reply.errors import NoAnswer, too_long
from app.reply.figures import Figures
from drafter.coin import Coins
from drafter.learning.distributions import MOST
from drafter.multicandidate import DraftSampling
from models.guide.names import NoMarks
from models.guide.search import Hit
from models.text.chat_text import ChatText
from models.tree import DraftTree
from remote import RoundReply
from remote.clock import CLOCK, Clock
from remote.openai.schema import Content
from remote.protocol import Progress, Sampling, unpack_tokens

T = TypeVar("T")
Step = Shown | Reasoned | SystemUnread | Redrawn | ToolCalled | ToolsLeftOut | ModeChanged | Stretch | RoundEnded

PREFILL_SECONDS = 0.01
"""Assumed time of the target for each unread token. A deadline may be too late, but not too early."""
FIRST_SERVER_SECONDS = 0.5
"""Assumed time of the target for a round, before any was measured."""
TOKEN_BYTES = 4
"""Bytes of a token on the uplink."""
MEMORY_LIMIT_SECONDS = 1.0
"""Longest wait for memory before a request, which needs the line for itself."""
SURE = 0.7
"""Drafted tokens are shown while the chance that the target keeps a token and all preceding ones is at least this.
On 60 everyday questions, before the first round, that shows 7.5 of 29 tokens, of which 7 % are withdrawn. At 0.5 it
shows 13.7, and 16 % are withdrawn; at 0 28.3 and 46 %."""


def sure_path(tree: DraftTree) -> list[int]:
    """The tokens of a draft that may be shown before they are checked: its likeliest path, as far as it is sure.

    Empty for a tree without known chances.
    """
    path: list[int] = []
    for node in tree.likeliest_path():
        if tree.acceptance is None or tree.acceptance[node] < SURE:
            break
        path.append(int(tree.tokens[node]))
    return path


@dataclass(frozen=True)
class GenerationInput:
    """The input of an answer. It is known before the first token and does not change."""

    conversation: Conversation
    """The messages before it, for models that read tokens."""
    resumed: int = field(default=0, kw_only=True)
    """Tokens of the answer that it continues, which are read too."""
    system: str = field(default="", kw_only=True)
    """The system prompt; may be empty. The recipe does not read it."""
    system_digest: str | None = field(default=None, kw_only=True)
    """See `app.reply.request.system_digest`."""
    messages: Sequence[tuple[str, Content]]
    """The conversation as (role, content), for a server that does not read our tokens."""
    spoken: Sequence[Mapping[str, Any]] = field(default=(), kw_only=True)
    """The same with the tool calls of its answers, if the conversation has tools."""
    sums_up: bool = field(default=False, kw_only=True)
    """Whether the answer is a summary of the conversation."""
    images: Sequence[str] = field(default=(), kw_only=True)
    text: ChatText
    settings: Settings
    sampling: Sampling
    most: int | None
    """Maximum tokens of the whole answer, in the drafter's vocabulary, or None to fill the context."""
    redrawn: bool = field(default=False, kw_only=True)
    """Whether it is sampled at a temperature that nobody chose, because the likeliest answer already exists."""
    draft: bool
    """Whether to draft; if not, the target writes alone, token by token."""
    prediction: str = ""
    """Text that the answer will probably contain, written offline. For a server that does not read our tokens."""
    unreadable: NoAnswer | None = None
    """Why only a server that accepts images can answer, because there is an image."""

    @property
    def left_to_server(self) -> tuple[str, ...]:
        """Fields of `sampling` that nobody chose, so that an OpenAI-compatible server's own values apply."""
        settings = self.settings
        if settings.temperature is not None:
            return ()
        return ("temperature", "seed") if settings.seed is None else ("temperature",)

    @property
    def draft_sampling(self) -> DraftSampling | None:
        """How to sample candidates, or None to take the likeliest ones, as if the target is greedy."""
        sampling = self.sampling
        if self.settings.tree == "deterministic" or sampling.temperature == 0:
            return None
        return DraftSampling(sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed)

    @property
    def coins(self) -> Coins | None:
        """The coins with which the target samples, or None if it is greedy."""
        return Coins.at(self.sampling.temperature, self.sampling.seed)


class Generation:
    """An answer that is being written. Others read its attributes; only its methods change them."""

    def __init__(
        self,
        given: GenerationInput,
        *,
        drafting: Drafting,
        session: VerifierSession,
        connection: Connection | None,
        begun: Answer,
        stopping: asyncio.Event,
        clock: Clock = CLOCK,
        desk: CallDesk | None = None,
    ) -> None:
        """`connection`: to the server, if any. `desk`: makes its tool calls, if it may have some. `begun`: the
        answer so far, of which the target may replace unverified tokens. `stopping`: set when the answer is to end as
        soon as possible; its writer then calls `end`.
        """
        self.given, self.drafting, self.clock = given, drafting, clock
        self.connection, self.session = connection, session
        self.answer = begun
        self.desk = desk
        self.ahead = Lookahead(drafting, enabled=given.draft and given.settings.ahead and given.draft_sampling is None)
        self.figures = Figures(self.ahead, drafting, begun.verified, clock)
        self.guided = False
        """Whether the conversation is read by the drafter's prompt recipe."""
        self._reading = Reading((), NoMarks())
        """The text that the current writer reads; None while only servers were asked that do not read our tokens."""
        self.reason: EndReason | None = None
        """Why the answer ended; None while it is being written."""
        self.cut_by = ""
        """What ended the answer before the model did; empty if that is its limit of tokens, or nothing."""
        self.cut_kind: Cut | None = None
        """One word for `cut_by`; None if that is the limit of tokens, or nothing."""
        self.stop_tokens = set(given.text.stop_tokens)
        self.own_target = False
        """Whether a verifier took part whose target the drafter was made for."""
        self._stopping = stopping
        self._mode_chosen = False

    # ---- what is there -----------------------------------------------------------------------------------------------

    @property
    def called(self) -> bool:
        """Whether the model has called tools, so that only a server with their results can continue."""
        return self.desk is not None and bool(self.desk.calls)

    @property
    def prompt(self) -> Sequence[int]:
        """Tokens of the conversation up to the beginning of the answer, for the current writer."""
        return self._reading.tokens

    @property
    def hits(self) -> Sequence[Hit]:
        return self._reading.hits

    @property
    def most(self) -> int:
        """Tokens of a whole answer: its limit, or all that the context has room for."""
        given = self.given
        return max(1, given.conversation.most - len(self.prompt)) if given.most is None else given.most

    @property
    def unreadable(self) -> NoAnswer | None:
        """Why the current writer cannot read the conversation, or None if it can."""
        given = self.given
        if given.unreadable is not None:
            return given.unreadable
        if self.prompt and len(self.prompt) + given.resumed <= given.conversation.most:
            return None
        return too_long(given.conversation.most)

    @property
    def tokens(self) -> list[int]:
        """Tokens of the conversation, including all of the answer so far."""
        return [*self.prompt, *self.answer.tokens]

    @property
    def committed(self) -> list[int]:
        """Tokens of the conversation, including the verified ones of the answer."""
        return [*self.prompt, *self.answer.tokens[: self.answer.verified]]

    @property
    def left(self) -> int:
        """Tokens that the answer may still get."""
        return self.most - len(self.answer.tokens)

    @property
    def can_draft(self) -> bool:
        """Whether the drafter runs, and reads the conversation so far."""
        return self.drafting.can_draft(len(self.prompt) + len(self.answer.tokens))

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def stats(self) -> Stats:
        return self.figures.stats(self.answer, len(self.prompt), self.connection)

    # ---- what changes it ---------------------------------------------------------------------------------------------

    async def address(self, *, own_target: bool, most_read: int) -> None:
        """Prepare the conversation for the next writer: the drafter, the target it was made for, or another model.

        Only the first two use the drafter's prompt recipe. `most_read`: tokens of a conversation that are read.
        Examples that were left out once stay out of this answer, so that its next writer reads the same. Raises
        `TemplateFailed`, `DrafterCorrupt`.
        """
        given, brief = self.given, self._reading.brief
        if given.unreadable is not None:
            return
        self.guided = own_target and given.conversation.recipe is not None
        # In a thread, because tokenizing takes a while, which would block typing.
        reading = await asyncio.to_thread(
            given.conversation.read, own_target=own_target, most_read=most_read, brief=brief
        )
        self._reading = replace(reading, brief=brief or reading.brief)
        if self.guided:
            self.answer.name(reading.marks)

    def take_verdict(self, tree: DraftTree, reply: RoundReply, *, full: bool) -> list[Shown]:
        """Append the result of a round's verdict. `full`: the verifier can read no more tokens."""
        verdict = reply.verdict
        accepted = [int(tree.tokens[node]) for node in verdict.accepted]
        shown = self.verify(accepted + ([] if verdict.bonus is None else [verdict.bonus]), len(accepted))
        self.session.record(self.committed[: verdict.length])
        self.figures.carried(reply, nodes=len(tree))
        if full and self.reason is None:
            self.end("length")
        return shown

    def take_progress(self, progress: Progress) -> list[Shown]:
        """Append the result of a round of a hosted stream."""
        shown = self.verify(unpack_tokens(progress.tokens), progress.drafted)
        self.session.record(self.committed[: progress.length])
        if progress.finished and self.reason is None:
            self.end("length")
        return shown

    def verify(self, tokens: Sequence[int], from_draft: int) -> list[Shown]:
        """Append verified tokens of one round. The first `from_draft` of them had been guessed."""
        kept = self.cut(tokens, after=self.answer.verified)
        known = [*self.answer.tokens[: self.answer.verified], *kept]
        self._end_after(known)
        shown = self.answer.verify(kept, min(from_draft, len(kept)), ends=self.reason in ("end", "length"))
        self.figures.rounds += 1
        self.figures.grew(self.answer)
        return shown

    def draft(self, token: int, *, ends: bool) -> list[Shown]:
        """Append a token that the drafter wrote alone. `ends`: whether it may complete the answer."""
        shown = self.answer.draft(token)
        self.figures.grew(self.answer)
        if ends:
            self._end_after(self.answer.tokens)
        return shown

    def draft_text(self, piece: str) -> list[Shown | Stretch]:
        """Append text that a whole model on this device wrote alone."""
        shown = self.answer.draft_text(piece, self.most)
        self.figures.grew(self.answer)
        if self.left <= 0:
            self.end("length")
        return shown

    def draft_end(self) -> list[Shown]:
        """Append the end of an answer that a whole model on this device said alone, for the target to check.

        Nothing is appended to text that no target checks.
        """
        text, answer = self.given.text, self.answer
        unseen = [] if answer.is_text or answer.sent else [stop for stop in text.stop_tokens if not text.decode([stop])]
        return self.answer.draft(min(unseen)) if unseen else []

    def cut(self, tokens: Sequence[int], after: int | None = None) -> list[int]:
        """The tokens up to the first one that ends an answer, as many as fit after `after` tokens of the answer.

        `after` is all of its tokens by default.
        """
        left = self.left if after is None else self.most - after
        kept: list[int] = []
        for token in tokens[: max(0, left)]:
            kept.append(token)
            if token in self.stop_tokens:
                break
        return kept

    def end(self, reason: EndReason, *, cut_by: str = "", kind: Cut | None = None) -> None:
        """Record why the answer ended and what cut it off, in words and as one word."""
        self.reason, self.cut_by, self.cut_kind = reason, cut_by, kind

    def _end_after(self, tokens: Sequence[int]) -> None:
        """End the answer if it is complete with these tokens."""
        if tokens and tokens[-1] in self.stop_tokens:
            self.end("end")
        elif len(tokens) >= self.most:
            self.end("length")

    # ---- with whom, and for how long ---------------------------------------------------------------------------------

    @property
    def chooses_mode(self) -> bool:
        """Whether the faster mode is chosen, because the settings name none and both are possible."""
        return self.given.draft and self.given.settings.mode == "auto" and self.drafting.drafts

    def mode(self, connection: Connection) -> Verifying:
        """Who drafts now. The first call chooses; later calls return the mode in which the answer should continue."""
        if self.answer.suffix:
            return "edge"  # Text written offline is sent as a draft.
        if not self.chooses_mode:
            return "hosted" if self.given.settings.mode == "hosted" or not self.drafting.drafts else "edge"
        if not self.can_draft:
            return "hosted"
        chosen, self._mode_chosen = self._mode_chosen, True
        rtt = connection.speed.link.rtt_seconds or 0.0
        return connection.speed.modes.review(rtt) if chosen else connection.speed.modes.choose(rtt)

    def memory_from(self, verifier: Verifier) -> int | None:
        """The first token whose memory to request, or None if the drafter cannot read this verifier's memory."""
        readable = self.given.draft and self.drafting.reads(verifier.card.memory)
        self.own_target = self.own_target or readable
        return self.drafting.memory_from if readable else None

    def likeliest(self, verifier: Verifier) -> int:
        """How many of the target's likeliest tokens to request per position; 0 if no drafter learns from them."""
        return MOST if self.drafting.learns and self.memory_from(verifier) is not None else 0

    def deadline(self, connection: Connection, committed: Sequence[int]) -> float:
        """Seconds for the verifier to answer after these tokens, some of which it may have to read first."""
        unread = self.session.unread(committed)
        estimate = (connection.speed.server_seconds or FIRST_SERVER_SECONDS) + PREFILL_SECONDS * unread
        return connection.speed.link.deadline(estimate, TOKEN_BYTES * unread)

    async def unless_stopped(self, work: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T | None:
        """The result of `work`, or None if the person stops the answer first, which cancels the work."""
        return await unless_set(self._stopping, work)
