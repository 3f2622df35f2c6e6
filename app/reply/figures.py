"""The counters of one answer while it is written: rounds, tokens, bytes and seconds."""

from __future__ import annotations

from app.drafting.drafting import Drafting
from app.drafting.lookahead import Lookahead
from app.events import AnsweredAgain, Stats
from app.remotes.connection import Connection
from app.reply.answer import Answer
from remote import ChatStream, HostedStream, RoundReply
from remote.clock import Clock
from remote.openai.schema import Price, Usage


class Figures:
    """Sums up the writers' reports. `verified`: tokens that were verified before the answer began."""

    def __init__(self, ahead: Lookahead, drafting: Drafting, verified: int, clock: Clock) -> None:
        self.rounds = 0
        self.unsent = 0
        """How often the question could not be sent."""
        self._ahead, self._drafting, self._clock = ahead, drafting, clock
        self._verified_before, self._guessed_before = verified, drafting.guessed
        self._drafted_nodes = 0
        self._traffic: list[RoundReply | HostedStream | ChatStream] = []
        self._texts: list[ChatStream] = []
        """The streams of OpenAI-compatible servers: of the one that was asked, and of a model that continued here."""
        self.price: Price | None = None
        """The price of the server's tokens, if known."""
        self._begun = clock.now()
        self._first_token: float | None = None

    def carried(self, exchange: RoundReply | HostedStream | ChatStream, *, nodes: int = 0, here: bool = False) -> None:
        """Count an exchange with a server, and the nodes of the draft that was sent with it.

        `here`: it was with a model on this device, so nothing was sent over a line.
        """
        if not here:
            self._traffic.append(exchange)
        self._drafted_nodes += nodes
        if isinstance(exchange, ChatStream):
            self._texts.append(exchange)

    def grew(self, answer: Answer) -> None:
        """Note the time of the first token."""
        if self._first_token is None and (answer.tokens or answer.is_text):
            self._first_token = self._clock.now() - self._begun

    @property
    def usage(self) -> Usage | None:
        """The token counts of an OpenAI-compatible server, or None if it did not write the whole answer."""
        return self._texts[0].usage if len(self._texts) == 1 else None

    @property
    def spent(self) -> dict[str, int | float]:
        """What all requests to an OpenAI-compatible server have used, as statistics; see `storage.usage.COUNTS`."""
        paid = [text for text in self._traffic if isinstance(text, ChatStream)]
        counted = [text.usage for text in paid if text.usage is not None]
        if not paid:
            return {}
        spent: dict[str, int | float] = {
            "tokens_in": sum(usage.prompt_tokens for usage in counted),
            "tokens_out": sum(usage.completion_tokens for usage in counted),
            "uncounted": len(paid) - len(counted),
        }
        if self.price is not None:
            spent |= {"price_in": self.price.prompt, "price_out": self.price.completion}
        return spent

    @property
    def streamed(self) -> int | None:
        """Tokens of OpenAI-compatible servers as far as known, or None if no such server takes part."""
        counts = [text.pieces if text.usage is None else text.usage.completion_tokens for text in self._texts]
        return sum(counts) if counts else None

    def answered_again(self, model: str) -> AnsweredAgain | None:
        """How an OpenAI-compatible server used the prediction that it was sent, or None if no such server took part."""
        stream = self._texts[-1] if self._texts else None
        return None if stream is None else AnsweredAgain(model, stream.predicted, stream.kept_of_prediction)

    def stats(self, answer: Answer, prompt: int, connection: Connection | None) -> Stats:
        """The totals so far. `prompt`: tokens of the conversation before the answer."""
        link = None if connection is None else connection.speed.link
        # Measurements of a line that is down do not describe it now.
        rtt = None if connection is None or connection.verifier is None else connection.speed.link.rtt_seconds
        read = 0 if self._texts else prompt
        return Stats(
            rounds=self.rounds,
            verified=max(0, answer.verified - self._verified_before),
            streamed=self.streamed,
            counted=self.usage is not None,
            drafted=len(answer.suffix),
            read=read if self.usage is None else self.usage.prompt_tokens,
            drafted_nodes=self._drafted_nodes,
            second_stage=self._drafting.guessed - self._guessed_before,
            ahead_tries=self._ahead.tries,
            ahead_hits=self._ahead.hits,
            ahead_adopted=self._ahead.adopted,
            seconds=self._clock.now() - self._begun,
            first_token_seconds=self._first_token,
            rtt_ms=None if rtt is None else 1000 * rtt,
            line=None if connection is None else connection.line,
            up_bytes_per_second=None if link is None else link.up_bytes_per_second,
            down_bytes_per_second=None if link is None else link.down_bytes_per_second,
            bytes_up=sum(exchange.traffic.up for exchange in self._traffic),
            bytes_down=sum(exchange.traffic.down for exchange in self._traffic),
        )
