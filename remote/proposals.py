"""The device's end of proposals: asks a model in another process on this device, for the drafting threads.

A draft asks once for each of its levels and waits for each answer, so this is a plain connection that stays open, with
no event loop in between.
"""

from __future__ import annotations

import contextlib
import http.client
import secrets
import socket
import threading
import weakref
from urllib.parse import urlsplit

import numpy as np

from drafter.search import Proposals
from drafter.whole_model import TOP, Growth, ModelAway
from remote.protocol import CONTENT_TYPE, Card, Limits, Propose, Proposed, ProtocolError, decode, encode, pack_tokens
from remote.protocol.fields import T
from remote.wire import common_headers

SILENCE_SECONDS = 60.0
"""Longest wait for an answer. The model may be reading a long conversation for somebody else."""


class Proposer:
    """The model of a server on loopback. Several threads may ask it, one after another."""

    def __init__(self, url: str, token: str | None) -> None:
        place = urlsplit(url)
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=SILENCE_SECONDS)
        self._headers = {**common_headers(token), "content-type": CONTENT_TYPE}
        self._turn = threading.Lock()
        self._over: list[str] = []
        """Conversations that nobody continues."""
        self._limits: Limits | None = None
        self._closed = False

    def begin(self) -> Proposing:
        """Begin a conversation. Raises `ModelAway` if the model does not answer, or takes no trees."""
        if self._limits is None:
            self._limits = self.ask("GET", "/v1/card", Card).limits
        if self._limits.max_nodes == 1:
            raise ModelAway("the model on this device takes no trees")
        while self._over:
            self._request("DELETE", f"/v1/sessions/{self._over.pop()}")
        begun = Proposing(self, self._limits)
        weakref.finalize(begun, self._over.append, begun.session)
        return begun

    def ask(self, method: str, path: str, kind: type[T], body: bytes | None = None) -> T:
        """The answer to a request. Raises `ModelAway`."""
        status, content = self._request(method, path, body)
        if status != 200:
            raise ModelAway(f"the model on this device does not answer: status {status}")
        try:
            return decode(content, kind)
        except ProtocolError as error:
            raise ModelAway(f"the model on this device sent an invalid answer: {error}") from error

    def _request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        with self._turn:
            kept = self._connection.sock is not None
            try:
                try:
                    return self._exchange(method, path, body)
                except ConnectionError:
                    if not kept or self._closed:
                        raise
                    self._connection.close()  # The server has closed it, as it does after a pause.
                    return self._exchange(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                raise ModelAway(f"the model on this device does not answer: {error}") from error

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        self._connection.request(method, path, body, self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        """Close the connection. A call in progress in another thread fails at once."""
        self._closed = True
        with contextlib.suppress(OSError):
            if self._connection.sock is not None:
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class Proposing:
    """One conversation with it. It is a `drafter.whole_model.Ask`."""

    def __init__(self, proposer: Proposer, limits: Limits) -> None:
        self.most_nodes, self.most_tokens = limits.max_nodes, limits.max_tokens - 1
        self.session = secrets.token_urlsafe(16)
        self._proposer = proposer

    def __call__(self, growth: Growth, vocabulary: int) -> Proposals:
        found = self._proposer.ask(
            "POST", "/v1/proposals", Proposed, encode(message_of(self.session, growth, vocabulary))
        )
        try:
            return found.unpack(bool(growth.append) + len(growth.tokens), TOP, vocabulary)
        except ProtocolError as error:
            raise ModelAway(f"the model on this device sent an invalid answer: {error}") from error


def message_of(session: str, growth: Growth, vocabulary: int) -> Propose:
    """What a conversation with the model asks for, as a message."""
    return Propose(
        session=session,
        base=growth.base,
        top=TOP,
        vocabulary=vocabulary,
        path=np.array(growth.path, "<i2").tobytes(),
        append=pack_tokens(growth.append),
        since=growth.since,
        tokens=pack_tokens(growth.tokens),
        parents=np.array(growth.parents, "<i2").tobytes(),
    )
