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
from urllib.parse import urlsplit

import numpy as np

from drafter.search import Proposals
from drafter.whole_model import TOP, Growth, ModelAway
from remote.protocol import CONTENT_TYPE, Card, Propose, Proposed, ProtocolError, decode, encode, pack_tokens
from remote.protocol.fields import T

SILENCE_SECONDS = 60.0
"""Longest wait for an answer. The model may be reading a long conversation for somebody else."""


class Proposer:
    """The model of a server on loopback. Several threads may ask it, one after another."""

    def __init__(self, url: str, token: str | None) -> None:
        place = urlsplit(url)
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=SILENCE_SECONDS)
        self._headers = {"content-type": CONTENT_TYPE} | ({} if token is None else {"authorization": f"Bearer {token}"})
        self._turn = threading.Lock()
        self._most_nodes: int | None = None

    def begin(self) -> Proposing:
        """Begin a conversation. Raises `ModelAway` if the model does not answer, or takes no trees."""
        if self._most_nodes is None:
            self._most_nodes = self.ask("GET", "/v1/card", Card).limits.max_nodes
        if self._most_nodes == 1:
            raise ModelAway("the model on this device takes no trees")
        return Proposing(self, self._most_nodes)

    def ask(self, method: str, path: str, kind: type[T], body: bytes | None = None) -> T:
        """The answer to a request. Raises `ModelAway`."""
        with self._turn:
            try:
                self._connection.request(method, path, body, self._headers)
                answer = self._connection.getresponse()
                content = answer.read()
                if answer.status == 200:
                    return decode(content, kind)
                why = f"status {answer.status}"
            except (OSError, http.client.HTTPException, ProtocolError) as error:
                self._connection.close()
                why = str(error)
        raise ModelAway(f"the model on this device does not answer: {why}")

    def close(self) -> None:
        """Close the connection. A call in progress in another thread fails at once."""
        with contextlib.suppress(OSError):
            if self._connection.sock is not None:
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class Proposing:
    """One conversation with it. It is a `drafter.whole_model.Ask`."""

    def __init__(self, proposer: Proposer, most_nodes: int) -> None:
        self.most_nodes = most_nodes
        self._proposer = proposer
        self._session = secrets.token_urlsafe(16)

    def __call__(self, growth: Growth, vocabulary: int) -> Proposals:
        found = self._proposer.ask(
            "POST", "/v1/proposals", Proposed, encode(message_of(self._session, growth, vocabulary))
        )
        try:
            return found.unpack(bool(growth.append) + len(growth.tokens), TOP, vocabulary)
        except ProtocolError as error:
            raise ModelAway(f"the model on this device answers something else: {error}") from error


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
