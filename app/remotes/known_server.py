"""What is known of the server at a source: who answers there, and which drafters of this device fit it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from app.remotes.last_seen import LastSeen
from app.remotes.local_drafter import LocalDrafter
from app.remotes.mode_meter import Verifying
from app.remotes.offers import Offer
from app.remotes.peer import Endpoint, Peer, Verifier, choose_model, list_of
from app.remotes.providers import provider_at
from app.remotes.server_text import ServerTexts
from app.remotes.source import Source
from app.remotes.speed import Speed, key_of
from app.remotes.substitute import why_nobody
from app.sanitise import sanitise
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import CompletionsClient, Incompatible
from remote.detect import detect
from remote.errors import quoted
from remote.openai.schema import Model
from remote.protocol import Card


class KnownServer:
    """Greets a server, and remembers what it said while it is away.

    `drafters`: those of this device. A verifier without a matching drafter answers in plain text, if it can. `seen`:
    which models were seen before, or None if nothing is known. `anyway`: the drafter of the settings may substitute for
    any model. `local`: finds the model on this device that may draft. Its argument: whether another drafter of this
    device was made for the server's model and may substitute for it. `texts`: the tokenizers for which servers check
    what such a model writes, or None if it writes for none.
    """

    def __init__(
        self,
        source: Source,
        drafters: Drafters,
        seen: LastSeen | None,
        *,
        anyway: bool,
        local: Callable[[bool], LocalDrafter | None] = lambda _: None,
        texts: Callable[[], ServerTexts | None] = lambda: None,
    ) -> None:
        self.met = False
        self.checks = source.kind not in ("openai", "anthropic")
        """Whether it checks drafts, if known."""
        self.most_read: int | None = None
        """Most tokens of a conversation that its model reads, if known."""
        self.memory = memory_seen(source, seen)
        """Digest of its model's memory, from its card or from the last one seen, or None if it has none."""
        self.fits = source.own or drafters.has(self.memory)
        """Whether a drafter of this device was made for that model, and drafts well enough for it."""
        self.no_substitute = why_nobody(drafters, self.memory, own=source.own, anyway=anyway)
        """Why no drafter may substitute for that model, as a sentence, or None if one may."""
        self.drafter: Drafter | None = None
        """The drafter for its model, once it is known."""
        self.drafters: Sequence[Drafter] = ()
        """Those from which it is chosen; the one that was made for its model comes first."""
        self.takes_local = False
        """Whether a model on this device drafts for it, or would with the right tokenizer."""
        self.offer: Offer | None = None
        """The drafter that it offers for its model and that is not here."""
        self.unread: Verifier | None = None
        """The server as a verifier, if the tokenizer that it offers were here."""
        self._local, self._texts = local, texts
        self._source, self._drafters, self._seen, self._anyway = source, drafters, seen, anyway

    def choose_drafter(self, speed: Speed, modes: Sequence[Verifying] | None, length: int) -> Drafter | None:
        """Choose who drafts the next answer. Returns who should, which may have to be started first, or None.

        `modes`: those in which it may draft, or None while nobody checks drafts. `length`: tokens of the conversation,
        as far as known.
        """
        if not self.drafters:
            return None
        wanted = 0 if modes is None else speed.drafters.choose(speed.link.rtt_seconds or 0.0, modes)
        reads = self.drafters[wanted].reads(length)
        used = wanted if reads and self.drafters[wanted].runs else 0
        self.drafter = self.drafters[used]
        speed.use(used)
        speed.modes.learnt.uses += modes is not None
        return self.drafters[wanted] if reads else None

    @property
    def reads_tokens(self) -> bool:
        """Whether it checks drafts in the tokens of a drafter of this device, as far as known."""
        return self.checks if self.met else self.fits

    async def learn_to_read(self) -> Drafter | None:
        """Fetch the tokenizer of an `unread` server's model. Returns the drafter that knows it, or None."""
        unread, texts = self.unread, self._texts()
        return None if unread is None or texts is None else await texts.fetch(unread.client, unread.card)

    def check_with(self, drafter: Drafter, speed: Speed) -> Verifier:
        """Let an `unread` server check drafts in the tokens of this drafter, which itself drafts nothing."""
        assert self.unread is not None
        peer, self.unread, self.drafter, self.drafters = self.unread, None, drafter, [drafter]
        speed.begin_anew()
        speed.greeted(peer.client.rtt_seconds)
        self.checks, self.most_read = peer.checks, peer.most_read
        return peer

    async def greet(self, patience: float, speed: Speed) -> Peer:
        """Ask, within `patience` seconds, who is there and what it can do. Raises `RemoteError` and `SourceFailed`."""
        peer = await self._greet(patience, speed)
        self.met, self.checks, self.most_read = True, peer.checks, peer.most_read
        return peer

    async def _greet(self, patience: float, speed: Speed) -> Peer:
        source = self._source
        client, chat = await source.client(), source.chat
        self.offer = self.unread = None
        try:
            found = await detect(client, chat, patience, kind=source.kind, model=source.model)
        except Incompatible:
            await self._note(None)
            raise
        if isinstance(found, tuple):
            assert chat is not None
            await self._note(None)
            return self._endpoint(chat, found, speed)
        memory = None if found.memory is None else found.memory.digest
        await self._note(memory)  # A drafter may be here but not good enough.
        await self._find_drafters(found, memory, source.name or client.host)
        if not self.drafters and (texts := self._texts()) is not None:
            reader = await asyncio.to_thread(texts.known, found)
            self.drafters = [] if reader is None else [reader]
            self.unread = (
                Verifier(client, found, source.name) if reader is None and texts.offered(client, found) else None
            )
        if not self.drafters:
            self.drafter = None
            return await self._in_plain_text(found, chat, patience, speed)
        self.drafter = self.drafters[0]
        speed.greeted(client.rtt_seconds)
        await speed.recall(*(key_of(source.address, found, one.config) for one in self.drafters))
        for meter, one in zip(speed.drafters.modes, self.drafters):
            meter.drafts = found.drafts
            small = "this device" if len(self.drafters) == 1 else "the small model"
            meter.drafter = sanitise(one.runtime) if one.is_model else small
        return Verifier(client, found, source.name)

    async def _find_drafters(self, card: Card, memory: bytes | None, name: str) -> None:
        """Find the drafters here that can draft for a verifier, and what it offers if none was made for its model."""
        drafter = await asyncio.to_thread(self._drafters.fitting, card.tokenizer, card.vocabulary, memory)
        made_for_it = drafter is not None and drafter.memory_digest == memory
        if card.drafter is not None and not made_for_it:
            self.offer = Offer(card, name)
        # With a recipe, only its own drafter reads what its model reads.
        self.takes_local = drafter is None or not made_for_it or drafter.prompt is None
        local = None
        if self.takes_local and (maker := self._local(made_for_it and self.no_substitute is None)) is not None:
            local = await asyncio.to_thread(maker.fitting, card, drafter.text if made_for_it and drafter else None)
        both = (drafter, local) if made_for_it else (local or drafter,)
        self.drafters = [one for one in both if one is not None]

    def _endpoint(self, chat: CompletionsClient, models: tuple[Model, ...], speed: Speed) -> Endpoint:
        speed.greeted(chat.rtt_seconds)
        if (provider := provider_at(self._source.address or "")) is not None:
            models = provider.chatting(models, self._source.model) or models
        return Endpoint(chat, choose_model(models, self._source.model), self._source.name, list_of(models))

    async def _in_plain_text(
        self, card: Card, chat: CompletionsClient | None, patience: float, speed: Speed
    ) -> Endpoint:
        """A verifier for whose model this device has no drafter, used as the plain chat server that it also is.

        Raises `Incompatible` if only a verifier may be there.
        """
        if chat is None:
            unfit = f"the small model on this device was not made for {quoted(card.target)}"
            raise Incompatible(f"{unfit}; set `drafter` to one that was")
        return self._endpoint(chat, await chat.models(patience, wanted=self._source.model), speed)

    async def _note(self, memory: bytes | None) -> None:
        """Remember which model is there, by the digest of its memory, or None if it has none or another vocabulary."""
        self.memory = memory
        self.fits = await asyncio.to_thread(self._drafters.has, memory)
        judged = asyncio.to_thread(why_nobody, self._drafters, memory, own=False, anyway=self._anyway)
        self.no_substitute = await judged
        if self._seen is not None and self._source.address is not None:
            await asyncio.to_thread(self._seen.note, self._source.address, memory)  # May block on the disk.


def memory_seen(source: Source | None, seen: LastSeen | None) -> bytes | None:
    """Digest of the memory of the model last seen at a source, or None if it had none or is unknown."""
    return None if seen is None or source is None or source.address is None else seen.memory(source.address)
