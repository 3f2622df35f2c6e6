"""The device's end of the wire: the card of a verifier, its health, and sessions with it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from remote.errors import UPDATE, Incompatible, quoted
from remote.protocol import VERSION, Card, ProtocolError, Struct, decode
from remote.reply_limits import ReplyLimits
from remote.response import Traffic
from remote.session import RemoteSession
from remote.wire import Wire

FILE_TYPE = "application/octet-stream"
DELIVERY_SECONDS = 30.0
"""Seconds without a byte after which the line of a file counts as lost."""
ANY = ReplyLimits()
"""For sessions whose caller has not seen the card."""


class VerifierClient(Wire):
    """One verifier. For the arguments, see `Wire`."""

    async def card(self, timeout: float, *, tokenizer: bytes | None = None) -> Card:
        """Ask the verifier for its card. `tokenizer`: the digest of the device's own tokenizer, which must be the same.

        Raises `LinkDown`, `Refused`, `Incompatible`.
        """
        async with self.within(timeout):
            answer = await self.send("GET", "/v1/card", Traffic(), silence=timeout)
            self.rtt_seconds = time.perf_counter() - answer.sent
            body = await answer.read()
        try:
            version = decode(body, _Version).version
            if version != VERSION:
                older = "the server" if version < VERSION else "outrider on this device"
                raise Incompatible(
                    f"{self.host} speaks version {version} of the protocol, not {VERSION}; update {older}"
                )
            card = decode(body, Card)
        except ProtocolError as error:
            raise Incompatible(f"{self.host} sent {quoted(str(error))}; {UPDATE}") from None
        if tokenizer is not None and tokenizer != card.tokenizer:
            target = f"{quoted(card.target)} of {self.host}"
            raise Incompatible(
                f"the small model on this device was not made for {target}; set `drafter` to one that was"
            )
        return card

    def delivered(self, digest: bytes, name: str | None, begin: int) -> AsyncIterator[bytes]:
        """The bytes of a file of the drafter that the card offers, from `begin` on, or its config without `name`.

        Raises `LinkDown`, `Refused`.
        """
        return self._file(f"/v1/drafters/{digest.hex()}" + ("" if name is None else f"/{name}?from={begin}"))

    def tokenizer(self, digest: bytes, begin: int) -> AsyncIterator[bytes]:
        """The bytes of the target's tokenizer, compressed, from `begin` on. As `delivered`."""
        return self._file(f"/v1/tokenizers/{digest.hex()}?from={begin}")

    async def _file(self, path: str) -> AsyncIterator[bytes]:
        answer = await self.exchange("GET", path, Traffic(), silence=DELIVERY_SECONDS)
        try:
            if answer.status != 200 or answer.content_type != FILE_TYPE or answer.encoding:
                raise await self.refusal(answer)
            async for piece in answer.chunks():
                yield piece
        finally:
            await answer.aclose()

    def session(self, limits: ReplyLimits = ANY) -> RemoteSession:
        """A new conversation, which the verifier sees with its first round. `limits`: what its replies may hold."""
        return RemoteSession(self, limits)


class _Version(Struct, frozen=True):
    """The one field of a card that every version of the protocol can read."""

    version: int
