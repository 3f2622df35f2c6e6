"""The device's end of proposals: asks a model in another process on this device, for the drafting thread.

A draft asks once for each of its levels and waits for each answer, so this is a plain connection that stays open, with
no event loop in between.
"""

from __future__ import annotations

import http.client
import secrets
from urllib.parse import urlsplit

import numpy as np

from drafter.search import Proposals
from drafter.whole_model import TOP, Growth, ModelAway
from remote.protocol import CONTENT_TYPE, Propose, Proposed, ProtocolError, decode, encode, pack_tokens

SILENCE_SECONDS = 60.0
"""Longest wait for an answer. The model may be reading a long conversation for somebody else."""


class Proposer:
    """One conversation with the model of a server on loopback, at most `most_nodes` nodes at a time."""

    def __init__(self, url: str, token: str | None, most_nodes: int) -> None:
        place = urlsplit(url)
        self.most_nodes = most_nodes
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=SILENCE_SECONDS)
        self._headers = {"content-type": CONTENT_TYPE} | ({} if token is None else {"authorization": f"Bearer {token}"})
        self._session = secrets.token_urlsafe(16)

    def __call__(self, growth: Growth, vocabulary: int) -> Proposals:
        message = Propose(
            session=self._session,
            base=growth.base,
            top=TOP,
            vocabulary=vocabulary,
            path=np.array(growth.path, "<i2").tobytes(),
            append=pack_tokens(growth.append),
            since=growth.since,
            tokens=pack_tokens(growth.tokens),
            parents=np.array(growth.parents, "<i2").tobytes(),
        )
        try:
            if self._connection.sock is None:
                self._connection.connect()
            self._connection.request("POST", "/v1/proposals", encode(message), self._headers)
            answer = self._connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise ModelAway(f"the model on this device answered with status {answer.status}")
            return decode(body, Proposed).unpack(bool(growth.append) + len(growth.tokens), TOP, vocabulary)
        except (OSError, http.client.HTTPException, ProtocolError) as error:
            raise ModelAway(f"the model on this device does not answer: {error}") from error
        except BaseException:
            self._connection.close()
            raise
