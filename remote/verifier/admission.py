"""Which answers may begin: limits for each token holder, and no new answers while the server drains.

An answer is one chat completion, one stream, or all rounds of an answer that a device drafts. It is refused only before
it begins. The server is not notified when a device's answer ends, so the answer counts as running while its rounds
follow each other closely.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from remote.openai.schema import JSON, error_body, speaks_openai
from remote.protocol import CONTENT_TYPE, Error, encode
from remote.verifier.holders import EVERYONE
from remote.verifier.holders import SCOPE as HOLDER
from remote.verifier.observability.metrics import Metrics
from remote.verifier.observability.record import Record, record_of
from remote.verifier.options import ServeOptions
from remote.verifier.refusals import Overloaded

MINUTE = 60.0
Kind = Literal["answers", "requests", "tokens"]

RUNNING_SECONDS = 5.0
"""How long a device's answer counts as running after its last round."""
RESUMED_SECONDS = 60.0
"""A round that arrives later than this after the previous one begins a new answer."""
MAX_ANSWERS = 4096
"""How many answers are remembered. Beyond that, the one that was silent longest is forgotten."""
MAX_SPENT = 4
"""Tokens that one answer of a device may take, as a multiple of the longest session, before it counts as a new one. The
multiple is above one, because a conversation that was forgotten is read again in the middle of an answer."""
ASKED_THEMSELVES = ("/v1/rounds", "/v1/streams", "/v1/proposals")
"""Paths that ask for admission themselves, once they know which answer continues."""
ALWAYS = ("/healthz", "/readyz", "/metrics")


class NotAdmitted(Overloaded):
    """An answer that may not begin now. `reason`: one word for the limit that was hit."""

    def __init__(self, reason: str, message: str, seconds: int) -> None:
        super().__init__(message, seconds)
        self.reason = reason


class Draining(NotAdmitted):
    """The server is shutting down and begins no more answers."""

    code = "unavailable"

    def __init__(self) -> None:
        said = "This server is shutting down and starts no more answers. Try again in a moment."
        super().__init__("draining", said, 1)


class RateLimited(NotAdmitted):
    """A holder has reached a limit for now."""


class Bucket:
    """A token bucket: a minute's worth of something, refilled steadily. It may be overdrawn."""

    def __init__(self, a_minute: int, now: float) -> None:
        self.a_minute, self._left, self._seen = a_minute, float(a_minute), now

    def spend(self, count: float, now: float) -> None:
        """Take this amount out of it, even if it holds less."""
        self._fill(now)
        self._left -= count

    def wait(self, wanted: float, now: float) -> float:
        """Seconds until it holds `wanted`; 0 if it does already."""
        self._fill(now)
        return max(0.0, (wanted - self._left) * MINUTE / self.a_minute)

    def _fill(self, now: float) -> None:
        self._left = min(float(self.a_minute), self._left + (now - self._seen) * self.a_minute / MINUTE)
        self._seen = now


class Account:
    """What one holder has used recently."""

    def __init__(self, options: ServeOptions, now: float) -> None:
        requests, tokens = options.requests_per_minute, options.tokens_per_minute
        self._answers = options.max_per_token
        self._requests = None if requests is None else Bucket(requests, now)
        self._tokens = None if tokens is None else Bucket(tokens, now)

    def begin(self, running: int, now: float) -> None:
        """Count one more answer in addition to those `running`. Raises `RateLimited`."""
        if self._answers is not None and running >= self._answers:
            raise RateLimited(
                "answers",
                f"This token has reached its limit of concurrent answers ({self._answers}). "
                "Wait until one of them has ended.",
                1,
            )
        if self._tokens is not None and (seconds := self._tokens.wait(1, now)):
            raise _spent("tokens", self._tokens.a_minute, seconds)
        if self._requests is not None:
            if seconds := self._requests.wait(1, now):
                raise _spent("requests", self._requests.a_minute, seconds)
            self._requests.spend(1, now)

    def took(self, tokens: int, now: float) -> None:
        """Count tokens of an answer."""
        if self._tokens is not None:
            self._tokens.spend(tokens, now)


def _spent(kind: Kind, most: int, seconds: float) -> RateLimited:
    whole = max(1, math.ceil(seconds))
    said = f"This token has used up its {kind} for this minute ({most} a minute). Try again in {whole} s."
    return RateLimited(kind, said, whole)


class RunningAnswer:
    def __init__(self, holder: str, length: int, now: float) -> None:
        self.holder, self.length, self.seen = holder, length, now
        self.records: dict[Record, int] = {}
        """Its requests that are being answered, each with the tokens already charged."""
        self.finished = False
        self.spent = 0
        """All of its tokens that were charged."""

    def runs(self, now: float) -> bool:
        """Whether it counts against its holder's limit of running answers."""
        return bool(self.records) or (not self.finished and now - self.seen < RUNNING_SECONDS)

    def goes_on(self, length: int, most: int, now: float) -> bool:
        """Whether a request that brings its session to `length` tokens belongs to it."""
        begun = not self.finished and now - self.seen < RESUMED_SECONDS and self.spent < MAX_SPENT * most
        return begun and length <= self.length


class Admission:
    """Keeps track of the running answers and of what each holder has used. Belongs to the event loop."""

    def __init__(self, options: ServeOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options, self._clock = options, clock
        self._accounts: dict[str, Account] = {}
        self._answers: OrderedDict[object, RunningAnswer] = OrderedDict()
        self.draining = False

    @property
    def running(self) -> int:
        """How many answers are running."""
        now = self._clock()
        return sum(answer.runs(now) for answer in self._answers.values())

    def drain(self) -> None:
        """Begin no more answers."""
        self.draining = True

    def begin(self, record: Record, holder: str) -> None:
        """Begin an answer that is one request. Raises `RateLimited`, `Draining`."""
        self._begin(record, holder, record, 0)

    def go_on(self, record: Record, holder: str, session: str, length: int, most: int) -> None:
        """Begin or continue the answer in a session. Raises `RateLimited`, `Draining`.

        `length`: tokens of the session, including this request's. `most`: the most that it may have.
        """
        known = self._answers.get(session)
        if known is not None and known.goes_on(length, most, self._clock()):
            self._follow(session, known, record)
        else:
            self._begin(session, holder, record, length)

    def read_on(self, record: Record, session: str) -> None:
        """Count the answer in a session as running while another request reads it."""
        if (answer := self._answers.get(session)) is not None:
            self._follow(session, answer, record)

    def took(self, holder: str, tokens: int) -> None:
        """Count tokens that a holder has used outside its requests."""
        if (account := self._accounts.get(holder)) is not None:
            account.took(tokens, self._clock())

    def check(self) -> None:
        """Raise `Draining` if the server drains."""
        if self.draining:
            raise Draining

    def ended(self, session: str) -> None:
        """Note that a session will not be continued."""
        if (answer := self._answers.get(session)) is not None:
            answer.finished = True

    def _begin(self, key: object, holder: str, record: Record, length: int) -> None:
        self.check()
        now = self._clock()
        self._forget(now)
        account = self._accounts.setdefault(holder, Account(self._options, now))
        mine = [(name, answer) for name, answer in self._answers.items() if answer.holder == holder]
        for _, answer in mine:
            self._charge(answer)
        account.begin(sum(answer.runs(now) for name, answer in mine if name != key), now)
        answer = RunningAnswer(holder, length, now)
        if (before := self._answers.get(key)) is not None:  # Its requests end as requests of the new one.
            answer.records = before.records
        self._answers[key] = answer
        self._follow(key, answer, record)

    def _follow(self, key: object, answer: RunningAnswer, record: Record) -> None:
        answer.records[record] = 0
        record.at_end.append(lambda: self._left(key, record))

    def _left(self, key: object, record: Record) -> None:
        """A request has ended."""
        answer = self._answers[key]
        self._charge(answer)
        del answer.records[record]
        answer.seen = self._clock()
        if record.length is not None:
            answer.length, answer.finished = record.length, record.finished
        if key is record:
            del self._answers[key]
        else:
            self._answers.move_to_end(key)

    def _charge(self, answer: RunningAnswer) -> None:
        """Charge what its requests have used since the last time."""
        for record, counted in answer.records.items():
            taken = record.tokens
            answer.records[record] = taken
            answer.spent += taken - counted
            if (account := self._accounts.get(answer.holder)) is not None:
                account.took(taken - counted, self._clock())

    def _forget(self, now: float) -> None:
        """Forget answers that are not continued."""
        for key, answer in list(self._answers.items()):
            old = now - answer.seen >= RESUMED_SECONDS or len(self._answers) >= MAX_ANSWERS
            if answer.records:
                continue
            if not old:
                break
            del self._answers[key]


class Gate:
    """ASGI middleware that asks for admission for paths that do not do so themselves."""

    def __init__(self, app: ASGIApp, admission: Admission, metrics: Metrics) -> None:
        self.app, self._admission, self._metrics = app, admission, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["type"] == "http":
                self._enter(scope)
        except NotAdmitted as refused:
            self._metrics.refused.labels(refused.reason).inc()
            await refusal(scope["path"], refused)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _enter(self, scope: Scope) -> None:
        path, method = scope["path"], scope["method"]
        if path in ALWAYS or path in ASKED_THEMSELVES or method == "DELETE":
            return
        if method == "POST":
            self._admission.begin(record_of(scope), scope.get(HOLDER, EVERYONE))
        else:
            self._admission.check()


def refusal(path: str, refused: NotAdmitted) -> Response:
    """The response to a request that is not admitted, in the form that its path uses."""
    limited = isinstance(refused, RateLimited)
    error = Error(code=refused.code, message=str(refused), retry=True)
    if not speaks_openai(path):
        response = Response(encode(error), 429 if limited else 503, media_type=CONTENT_TYPE)
    elif isinstance(refused, RateLimited):
        response = Response(_limited(refused), 429, media_type=JSON)
    else:
        response = Response(error_body(error), 503, media_type=JSON)
    response.headers["Retry-After"] = str(refused.seconds)
    if isinstance(refused, Draining):
        response.headers["Connection"] = "close"
    return response


def _limited(refused: RateLimited) -> bytes:
    """The error in OpenAI's words. Its `type` names the limit."""
    kind = "tokens" if refused.reason == "tokens" else "requests"
    inner = {"message": str(refused), "type": kind, "param": None, "code": "rate_limit_exceeded"}
    return msgspec.json.encode({"error": inner})
