"""One answer while it is written: what it is written from, what there is of it, and every way in which it changes.

Four writers share it: rounds (`app/reply/edge.py`), a stream (`app/reply/hosted.py`), the text of another server
(`app/reply/endpoint.py`) and the drafter alone (`app/reply/offline.py`). `app/reply/reply.py` chooses between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from app.concurrency import unless_set
from app.config import Settings
from app.drafting.drafting import Drafting
from app.drafting.lookahead import Lookahead
from app.drafting.readings import Conversation, Reading
from app.events import AnsweredAgain, Cut, EndReason, ModeChanged, Reasoned, Redrawn, RoundEnded, Stats, SystemUnread
from app.remotes.connection import Connection
from app.remotes.mode_meter import Verifying
from app.remotes.peer import Verifier
from app.remotes.substitute import name_of
from app.remotes.verifier_session import VerifierSession
from app.reply.answer import Answer, Shown
from app.reply.errors import NoAnswer, too_long
from app.sanitise import Sanitiser
from drafter.coin import Coins
from drafter.learning.distributions import MOST
from drafter.multicandidate import DraftSampling
from models.guide.names import NoMarks
from models.guide.search import Hit
from models.text.chat_text import ChatText
from models.tree import DraftTree
from remote import ChatStream, HostedStream, RoundReply
from remote.clock import CLOCK, Clock
from remote.openai.schema import Content, Usage
from remote.openai.stream import KEPT_REASONING
from remote.protocol import Progress, Sampling, unpack_tokens

T = TypeVar("T")
Step = Shown | Reasoned | SystemUnread | Redrawn | ModeChanged | RoundEnded

PREFILL_SECONDS = 0.01
"""A guess at the target's time for each token that it has not read. A deadline may be too late, but not too early."""
FIRST_SERVER_SECONDS = 0.5
"""A guess at the target's time for a round before any was measured."""
TOKEN_BYTES = 4
"""Size of a token on its way up."""
MEMORY_LIMIT_SECONDS = 1.0
"""Longest wait for memory before a request, which needs the line for itself."""
SURE = 0.7
"""Drafted tokens are shown while the chance that the target keeps a token and all before it is at least this.
On 60 everyday questions, before the first round, that shows 7.5 of 29 tokens, of which 7 % are withdrawn. At 0.5 it
shows 13.7, and 16 % are withdrawn; at 0 28.3 and 46 %."""


def sure_path(tree: DraftTree) -> list[int]:
    """The tokens of a draft that may be read before they are checked: its likeliest path, as far as that is sure.

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
    """What an answer is written from. It is known before the first token and does not change."""

    conversation: Conversation
    """The messages before it, for whoever reads them in tokens."""
    resumed: int = field(default=0, kw_only=True)
    """Tokens of the answer that it goes on with, which are read too."""
    system: str = field(default="", kw_only=True)
    """The system prompt; empty: none. The recipe does not read it."""
    system_digest: str | None = field(default=None, kw_only=True)
    """See `app.reply.request.system_digest`."""
    messages: Sequence[tuple[str, Content]]
    """That conversation as (role, content), for a server that reads no tokens of ours."""
    images: Sequence[str] = field(default=(), kw_only=True)
    """Names of the images in that conversation."""
    text: ChatText
    settings: Settings
    sampling: Sampling
    most: int | None
    """Tokens of a whole answer, in the drafter's vocabulary; None: as many as the context has room for."""
    redrawn: bool = field(default=False, kw_only=True)
    """At a temperature that nobody chose, because the likeliest answer is there already."""
    draft: bool
    """False: the target alone, token by token."""
    prediction: str = ""
    """Text that the answer will probably have: what was written offline. For a server that reads no tokens of ours."""
    unreadable: NoAnswer | None = None
    """Why only a server that takes images can answer: there is one."""

    @property
    def left_to_server(self) -> tuple[str, ...]:
        """Fields of `sampling` that nobody has chosen, so an OpenAI-compatible server's own values count."""
        settings = self.settings
        if settings.temperature is not None:
            return ()
        return ("temperature", "seed") if settings.seed is None else ("temperature",)

    @property
    def draft_sampling(self) -> DraftSampling | None:
        """How candidates are drawn. None: the likeliest ones are taken, as always if the target is greedy."""
        sampling = self.sampling
        if self.settings.tree == "deterministic" or sampling.temperature == 0:
            return None
        return DraftSampling(sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed)

    @property
    def coins(self) -> Coins | None:
        """The coins by which the target draws; None: it takes its best tokens."""
        return Coins.at(self.sampling.temperature, self.sampling.seed)


class Generation:
    """An answer that is being written. Others read its attributes; only its methods change them."""

    def __init__(
        self,
        given: GenerationInput,
        *,
        drafting: Drafting,
        session: VerifierSession,
        begun: Answer,
        stopping: asyncio.Event,
        clock: Clock = CLOCK,
    ) -> None:
        """`begun`: the answer so far. The target keeps or replaces its tokens that are not verified.

        `stopping`: set once the answer is to end as soon as possible; whoever writes it then calls `end`.
        """
        self.given = given
        self.drafting = drafting
        self.session = session
        self.clock = clock
        self.ahead = Lookahead(drafting, enabled=given.draft and given.settings.ahead and given.draft_sampling is None)
        self.answer = begun
        self._reading = Reading((), NoMarks())
        """What whoever writes now reads. Nothing while only servers have been asked that read no tokens of ours."""
        self._readings: dict[tuple[bool, bool, int], Reading] = {}
        self._guided = self._brief = False
        self.reason: EndReason | None = None
        """Why the answer is over; None while it is written."""
        self.cut_by = ""
        """What ended the answer before the model did; empty if that is its limit of tokens, or nothing."""
        self.cut_kind: Cut | None = None
        """One word for `cut_by`; None if that is the limit of tokens, or nothing."""
        self.stop_tokens = set(given.text.stop_tokens)
        self.rounds = 0
        self.reasoning = ""
        """What the model of an OpenAI-compatible server thought before its answer, as far as it is kept."""
        self.reasoning_seconds = 0.0
        self._clean = Sanitiser()
        self.model = ""
        """The model that wrote, or checked, last; empty while only the drafter has."""
        self.own_target = False
        """A verifier took part whose target the drafter was made for."""
        self._drafter = ""
        """Who wrote alone; empty: nobody did."""
        self._unsent = 0
        self._drafted_nodes = 0
        self._traffic: list[RoundReply | HostedStream | ChatStream] = []
        self._text_stream: ChatStream | None = None
        self._stopping = stopping
        self._mode_chosen = False
        self._begun = clock.now()
        self._first_token: float | None = None
        self._guessed_before = drafting.guessed
        self._verified_before = begun.verified

    # ---- what is there -----------------------------------------------------------------------------------------------

    @property
    def guided(self) -> bool:
        """The conversation is read by the drafter's prompt recipe."""
        return self._guided

    @property
    def prompt(self) -> Sequence[int]:
        """Tokens of the conversation, up to where the answer begins, for whoever writes now."""
        return self._reading.tokens

    @property
    def hits(self) -> Sequence[Hit]:
        """What the recipe found for the question."""
        return self._reading.hits

    @property
    def most(self) -> int:
        """Tokens of a whole answer: its limit, or all that the context has room for."""
        given = self.given
        return max(1, given.conversation.most - len(self.prompt)) if given.most is None else given.most

    @property
    def unreadable(self) -> NoAnswer | None:
        """Why whoever writes now cannot read the conversation; None: it can."""
        given = self.given
        if given.unreadable is not None:
            return given.unreadable
        if self.prompt and len(self.prompt) + given.resumed <= given.conversation.most:
            return None
        return too_long(given.conversation.most)

    @property
    def tokens(self) -> list[int]:
        """Tokens of the conversation, with all that has been written of the answer."""
        return [*self.prompt, *self.answer.tokens]

    @property
    def committed(self) -> list[int]:
        """Tokens of the conversation, with the verified ones of the answer."""
        return [*self.prompt, *self.answer.tokens[: self.answer.verified]]

    @property
    def left(self) -> int:
        """Tokens that the answer may still get."""
        return self.most - len(self.answer.tokens)

    @property
    def stopping(self) -> bool:
        """The person has stopped the answer."""
        return self._stopping.is_set()

    @property
    def drafted_by(self) -> str:
        """Who wrote the tokens that nobody has checked; empty: all are checked."""
        return self._drafter if self.answer.suffix else ""

    @property
    def usage(self) -> Usage | None:
        """What an OpenAI-compatible server has counted; None: nothing."""
        return None if self._text_stream is None else self._text_stream.usage

    @property
    def streamed(self) -> int | None:
        """Tokens of an OpenAI-compatible server, as far as known; None: no such server takes part."""
        if self._text_stream is None:
            return None
        return self._text_stream.pieces if self.usage is None else self.usage.completion_tokens

    @property
    def answered_again(self) -> AnsweredAgain | None:
        """How an OpenAI-compatible server answered, if this is not the first answer; None: no such server did."""
        stream = self._text_stream
        return None if stream is None else AnsweredAgain(self.model, stream.predicted, stream.kept_of_prediction)

    def stats(self, connection: Connection | None) -> Stats:
        """The totals so far."""
        link = None if connection is None else connection.link
        # What was measured of a line that is down is not what the line is like now.
        rtt = None if connection is None or connection.verifier is None else connection.link.rtt_seconds
        return Stats(
            rounds=self.rounds,
            verified=max(0, self.answer.verified - self._verified_before),
            streamed=self.streamed,
            counted=self.usage is not None,
            drafted=len(self.answer.suffix),
            read=self._read,
            drafted_nodes=self._drafted_nodes,
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
            bytes_up=sum(exchange.bytes_up for exchange in self._traffic),
            bytes_down=sum(exchange.bytes_down for exchange in self._traffic),
        )

    @property
    def _read(self) -> int:
        if self.usage is not None:
            return self.usage.prompt_tokens
        return 0 if self._text_stream is not None else len(self.prompt)

    # ---- how tokens come in ------------------------------------------------------------------------------------------

    def guess(self, tokens: Sequence[int]) -> list[Shown]:
        """Show tokens that the target may say next."""
        return self.answer.guess(self.cut(tokens))

    def take_verdict(self, tree: DraftTree, reply: RoundReply, *, full: bool) -> list[Shown]:
        """Append what a round's verdict brought. `full`: the verifier can read no more tokens."""
        verdict = reply.verdict
        accepted = [int(tree.tokens[node]) for node in verdict.accepted]
        shown = self.verify(accepted + ([] if verdict.bonus is None else [verdict.bonus]), len(accepted))
        self.session.record(self.committed[: verdict.length])
        self._traffic.append(reply)
        self._drafted_nodes += len(tree)
        if full and self.reason is None:
            self.end("length")
        return shown

    def begin_stream(self, stream: HostedStream) -> None:
        """Count the bytes of a hosted stream that has begun."""
        self._traffic.append(stream)

    def take_progress(self, progress: Progress) -> list[Shown]:
        """Append what a round of a hosted stream brought."""
        shown = self.verify(unpack_tokens(progress.tokens), progress.drafted)
        self.session.record(self.committed[: progress.length])
        if progress.finished and self.reason is None:
            self.end("length")
        return shown

    def verify(self, tokens: Sequence[int], from_draft: int) -> list[Shown]:
        """Append verified tokens of one round. The first `from_draft` of them had been guessed."""
        kept = self.cut(tokens, after=self.answer.verified)
        shown = self.answer.verify(kept, min(from_draft, len(kept)))
        self.rounds += 1
        self._note_first_token()
        self._end_after(self.answer.tokens[: self.answer.verified])
        return shown

    def draft(self, token: int, *, ends: bool) -> list[Shown]:
        """Append a token that the drafter wrote alone. `ends`: the answer may be complete with it."""
        shown = self.answer.draft(token)
        self._note_first_token()
        if ends:
            self._end_after(self.answer.tokens)
        return shown

    def cut(self, tokens: Sequence[int], after: int | None = None) -> list[int]:
        """The tokens up to the first that ends an answer, and no more than fit after `after` tokens of the answer.

        `after` None: after all of them.
        """
        left = self.left if after is None else self.most - after
        kept: list[int] = []
        for token in tokens[: max(0, left)]:
            kept.append(token)
            if token in self.stop_tokens:
                break
        return kept

    async def address(self, *, own_target: bool, most_read: int) -> None:
        """Have the conversation read by who writes next: the drafter or the target that it was made for, or another.

        Only the first two are asked by the drafter's prompt recipe. `most_read`: tokens of a conversation that are
        read. Examples that were left out once stay out of this answer, so that whoever goes on reads the same. Raises
        `TemplateFailed`, `DrafterCorrupt`.
        """
        given = self.given
        if given.unreadable is not None:
            return
        self._guided = own_target and given.conversation.recipe is not None
        key = self._guided, self._brief, most_read
        if key not in self._readings:
            # In a thread: a tokenizer takes a while, in which nobody could type.
            self._readings[key] = await asyncio.to_thread(
                given.conversation.read, own_target=own_target, most_read=most_read, brief=self._brief
            )
        self._reading = self._readings[key]
        self._brief = self._brief or self._reading.brief
        if self._guided:
            self.answer.name(self._reading.marks)

    def written_by(self, model: str) -> None:
        """Say which model writes, or checks, from here on."""
        self.model = model

    def begin_alone(self) -> str:
        """Say that the drafter writes alone from here on; returns its name for people."""
        self._drafter = name_of(self.drafting.config)
        return self._drafter

    def add_stop_tokens(self, tokens: Collection[int]) -> None:
        """Let these tokens end the answer too: the ones that the verifier's card names."""
        self.stop_tokens.update(tokens)

    # ---- how text comes in -------------------------------------------------------------------------------------------

    def begin_text(self, stream: ChatStream) -> None:
        """Note that an OpenAI-compatible server has begun to answer."""
        self._traffic.append(stream)
        self._text_stream = stream

    def replace_tokens(self, known: str) -> list[Shown]:
        """Let the answer be text from here on, which begins with `known`."""
        return self.answer.begin_text(known)

    def add_text(self, piece: str) -> list[Shown]:
        """Append text of an OpenAI-compatible server."""
        shown = self.answer.add_text(piece)
        self._note_first_token()
        return shown

    def add_reasoning(self, piece: str, seconds: float) -> Reasoned:
        """Note what the model thinks before its answer, `seconds` after it began to."""
        self.reasoning_seconds = seconds
        shown = self._clean.feed(piece)
        self.reasoning += shown[: KEPT_REASONING - len(self.reasoning)]
        return Reasoned(shown, seconds)

    def count_unsent(self) -> int:
        """Count that the question did not leave; returns how often that has happened."""
        self._unsent += 1
        return self._unsent

    # ---- how it begins and ends --------------------------------------------------------------------------------------

    def begin(self) -> list[Shown]:
        """Show the answer so far. Call it first."""
        return self.answer.begin()

    def end(self, reason: EndReason, *, cut_by: str = "", kind: Cut | None = None) -> None:
        """Say why the answer is over, and what cut it, in words and as one word."""
        self.reason, self.cut_by, self.cut_kind = reason, cut_by, kind

    def finish(self) -> list[Shown]:
        """Show what was held back. Call it last."""
        return self.answer.finish()

    def _end_after(self, tokens: Sequence[int]) -> None:
        """End the answer if it is complete with these tokens."""
        if tokens and tokens[-1] in self.stop_tokens:
            self.end("end")
        elif len(tokens) >= self.most:
            self.end("length")

    def _note_first_token(self) -> None:
        if self._first_token is None and (self.answer.tokens or self.answer.is_text):
            self._first_token = self.clock.now() - self._begun

    # ---- with whom, and for how long ---------------------------------------------------------------------------------

    @property
    def chooses_mode(self) -> bool:
        """The faster mode is taken; False: the settings name the mode."""
        return self.given.draft and self.given.settings.mode == "auto"

    def mode(self, connection: Connection) -> Verifying:
        """Who drafts now. The first call chooses; later ones say what the answer had better go on in."""
        if self.answer.suffix:
            return "edge"  # What was written offline goes up as a draft.
        if not self.chooses_mode:
            return "hosted" if self.given.settings.mode == "hosted" else "edge"
        chosen, self._mode_chosen = self._mode_chosen, True
        rtt = connection.link.rtt_seconds or 0.0
        return connection.modes.review(rtt) if chosen else connection.modes.choose(rtt)

    def memory_from(self, verifier: Verifier) -> int | None:
        """The first token whose memory to ask for; None: this verifier's memory means nothing to the drafter."""
        readable = self.given.draft and self.drafting.reads(verifier.card.memory)
        self.own_target = self.own_target or readable
        return self.drafting.memory_from if readable else None

    def likeliest(self, verifier: Verifier) -> int:
        """How many of the target's likeliest tokens to ask for at each place; 0: nobody learns from them here."""
        return MOST if self.drafting.learns and self.memory_from(verifier) is not None else 0

    def deadline(self, connection: Connection, committed: Sequence[int]) -> float:
        """Seconds for the verifier to answer to these tokens, of which it may have to read some first."""
        unread = self.session.unread(committed)
        estimate = (connection.server_seconds or FIRST_SERVER_SECONDS) + PREFILL_SECONDS * unread
        return connection.link.deadline(estimate, TOKEN_BYTES * unread)

    async def unless_stopped(self, work: Coroutine[Any, Any, T] | asyncio.Task[T]) -> T | None:
        """The result of `work`. None if the person stops the answer first; then the work is cancelled."""
        return await unless_set(self._stopping, work)
