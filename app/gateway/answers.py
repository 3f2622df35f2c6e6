"""The newest answers: what was sent of each, and how the check ended.

An answer that the small model wrote, in whole or in part, waits until the model has checked it. Its client learns from
here what was confirmed, and what the model says instead.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from os.path import commonprefix
from typing import Literal

import msgspec

from app.gateway.call import Call
from app.gateway.refusals import GatewayRefused
from app.gateway.sent_text import By, SentText, Span

MOST_ANSWERS = 1000
"""Answers that are remembered; the oldest are forgotten first."""
PATH = "/v1/outrider/answers/"

LOCAL = "A model on this device wrote a part of it while the server was away."

State = Literal["writing", "waiting", "checked", "replaced", "unchecked", "hosted", "failed"]
"""writing: it is being written. waiting: drafted text in it waits for the model. checked: the model wrote or confirmed
all of it. replaced: the model says something else from some character on. unchecked: text of a model on this device
in it will not be checked. hosted: a server that checks no drafts wrote it. failed: it broke off."""


class AnswerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an answer, for `GET /v1/outrider/answers/{id}`."""

    id: str
    object: str = "outrider.answer"
    created: int
    model: str
    state: State
    source: By
    """Which model vouches for the text that was sent."""
    text: str
    """The text that the client was sent."""
    spans: tuple[Span, ...]
    """Which model vouches for which characters of it, as currently known."""
    drafted: tuple[tuple[int, int], ...] = ()
    """Ranges of characters that were only drafted when sent: `start`, and `end`, which is excluded."""
    checked: int
    """Characters of it, from the first, that the model has written or confirmed."""
    checked_text: str | None = None
    """The model's own answer, as far as known; None until it is checked."""
    why: str = ""
    """Why it is not checked, or why it failed; empty otherwise."""


class Answer:
    """One answer, from the request to the model's check."""

    def __init__(self, call: Call, model: str) -> None:
        self.id = f"chatcmpl-{secrets.token_hex(12)}"
        self.created = int(time.time())
        self.call = call
        self.model = model
        self.sent = SentText(call.stops)
        self.state: State = "writing"
        self.why = ""
        self.checked_text: str | None = None
        self.message = ""
        """The stored answer that was sent."""

    @property
    def place(self) -> str:
        return PATH + self.id

    @property
    def report(self) -> AnswerReport:
        sent = self.sent
        return AnswerReport(
            id=self.id,
            created=self.created,
            model=self.model,
            state=self.state,
            source=sent.source,
            text=sent.text,
            spans=tuple(sent.spans),
            drafted=tuple(sent.drafted),
            checked=sent.checked,
            checked_text=self.checked_text,
            why=self.why,
        )

    def end(self, *, failed: str = "") -> None:
        """Record that no more of it will be sent. `failed`: why it broke off."""
        source = self.sent.source
        if source == "drafted":
            self.state = "waiting"
        elif failed:
            self.state = "failed"
        elif source == "local":
            self.state, failed = "unchecked", LOCAL
        else:
            self.state = "hosted" if source == "hosted" else "checked"
            self.checked_text = self.sent.text if source == "verified" else None
        self.why = failed
        self.call = self.call._replace(turns=(), relayed=None)  # They may be long, and are no longer needed.

    def settle(self, text: str, model: str) -> None:
        """Record what the model itself says."""
        self.checked_text = self.sent.cut(text)
        self.sent.checked = len(commonprefix((self.checked_text, self.sent.text)))
        self.state = "checked" if self.checked_text == self.sent.text else "replaced"
        self.sent.end_drafted = self.state == "replaced"
        self.model, self.why = model or self.model, ""

    def give_up(self, why: str) -> None:
        """Record that its drafted text will not be checked."""
        self.state, self.why = "unchecked", why


class Answers:
    def __init__(self) -> None:
        self._known: OrderedDict[str, Answer] = OrderedDict()

    def begin(self, call: Call, model: str) -> Answer:
        """A new answer; the oldest one may be forgotten."""
        answer = Answer(call, model)
        self._known[answer.id] = answer
        if len(self._known) > MOST_ANSWERS:
            self._known.popitem(last=False)
        return answer

    def get(self, name: str) -> Answer:
        """The answer of that id. Raises `GatewayRefused`."""
        if (answer := self._known.get(name)) is None:
            raise GatewayRefused(
                f"There is no answer {name!r}; only the last {MOST_ANSWERS} since the gateway started are kept.",
                status=404,
                code="not_found",
            )
        return answer
