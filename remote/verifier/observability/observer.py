"""Watches each request from its head to the last byte of its answer: its id, its times, its line in the log.

It wraps everything else, so it also sees what is refused and what fails.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from remote.verifier.holders import SCOPE as HOLDER
from remote.verifier.observability.metrics import Metrics
from remote.verifier.observability.record import CURRENT, SCOPE, Record
from remote.verifier.observability.request_log import log_request

HEADER = "x-request-id"
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""An id that a client may give. It is logged and sent back, so nothing else is accepted."""
OTHER = "other"
"""The route of a path that is not served."""
HUNG_UP = 499
"""The status of a request whose client left before it was answered. Proxies log the same."""


class Observer:
    """ASGI middleware around the whole service."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute], metrics: Metrics) -> None:
        self.app, self._routes, self._metrics = app, routes, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        record = Record(
            given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8), self._route(scope), self._metrics
        )
        status, whole = HUNG_UP, False

        async def watched(message: Message) -> None:
            nonlocal status, whole
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (HEADER.encode(), record.id.encode())]
            elif message["type"] == "http.response.body":
                whole = status != HUNG_UP and not message.get("more_body", False)
            await send(message)

        scope[SCOPE] = record
        known = CURRENT.set(record)
        try:
            await self.app(scope, receive, watched)
        finally:
            CURRENT.reset(known)
            seconds = time.monotonic() - record.arrived
            record.holder = scope.get(HOLDER)
            record.end()
            self._metrics.requests.labels(record.route, str(status)).inc()
            self._metrics.durations.labels(record.route).observe(seconds)
            if record.holder is not None:
                self._metrics.count_holder(record.holder, record.prompt_tokens, record.new_tokens)
            log_request(record, scope["method"], status, seconds, whole)

    def _route(self, scope: Scope) -> str:
        """The pattern of a request's path, which holds nothing that the client chose."""
        for route in self._routes:
            if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE:
                return route.path
        return OTHER
