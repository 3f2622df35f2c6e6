"""The tokenizers of verifiers' models, fetched so that verifiers check what a model on this device has written.

That model may have any tokenizer. With the verifier's own, its text goes up in tokens of the verifier's model.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from pathlib import Path

import msgspec

from app.remotes.local_drafter import layerless_config
from app.sanitise import sanitise
from drafter.runtime import Drafter
from drafter.whole_model import NOBODY
from models.config import DIGEST_BYTES, DrafterError
from models.text.chat_text import ChatText
from models.text.text_side import tokenizer_digest
from remote import LinkDown, RemoteError, VerifierClient
from remote.clock import CLOCK
from remote.delivery import fetch_tokenizer
from remote.protocol import Card
from storage.owner import try_lock

OTHER_SECONDS = 0.5
"""Pause before looking again whether another program has fetched it."""
log = logging.getLogger("outrider.tokenizer")


class ServerTexts:
    """Makes drafters that know the text of a target and never draft. Thread-safe.

    `shelf`: folder of the tokenizers.
    """

    def __init__(self, shelf: Path) -> None:
        self._shelf = shelf
        self._made: dict[bytes, Drafter] = {}
        """By what is said of the text on the card, so that a conversation keeps its drafter."""
        self._given_up = set[bytes]()
        """Digests of the tokenizers that could not be fetched."""
        self._lock = threading.Lock()

    def known(self, card: Card) -> Drafter | None:
        """The drafter for a verifier's model, or None if its tokenizer is not here. Reads files."""
        path = self._shelf / f"{card.tokenizer.hex()}.json"
        about = (card.target, card.tokenizer, card.chat_template, card.stop_tokens, card.special_tokens)
        key = hashlib.blake2b(msgspec.msgpack.encode(about), digest_size=DIGEST_BYTES).digest()
        with self._lock:
            if key not in self._made and (drafter := _drafter(path, card, key)) is not None:
                self._made[key] = drafter
            return self._made.get(key)

    def offered(self, card: Card) -> bool:
        """Whether the verifier offers its tokenizer, and fetching it has not failed."""
        return card.tokenizer_bytes > 0 and card.likeness is not None and card.tokenizer not in self._given_up

    async def fetch(self, client: VerifierClient, card: Card) -> Drafter | None:
        """Fetch the tokenizer of a verifier's model, while no other program does; see `known`.

        None if the line breaks, or if it is not what was offered.
        """
        model, host = sanitise(card.target), client.host
        try:
            self._shelf.mkdir(parents=True, exist_ok=True)
            with (self._shelf / "lock").open("ab") as lock:
                while not try_lock(lock):
                    await CLOCK.sleep(OTHER_SECONDS)
                log.info("fetching the tokenizer of %s from %s", model, host)
                path = await fetch_tokenizer(client, card, self._shelf)
        except LinkDown as error:
            log.info("the tokenizer of %s is not complete: %s", model, error)
            return None
        except (RemoteError, OSError) as error:
            self._given_up.add(card.tokenizer)
            log.warning("%s answers in plain text: %s", host, error)
            return None
        log.info("the tokenizer of %s is here: %d bytes", model, path.stat().st_size)
        return await asyncio.to_thread(self.known, card)


def _drafter(path: Path, card: Card, digest: bytes) -> Drafter | None:
    """The drafter with the tokenizer in a file, or None. A damaged file is deleted, so that it is fetched again."""
    try:
        tokenizer = path.read_bytes()
        if tokenizer_digest(tokenizer) != card.tokenizer:
            path.unlink()
            return None
        # Whether it reads as the verifier does was tried when it came, which takes as long as opening it.
        text = ChatText(tokenizer, card.chat_template, card.stop_tokens, card.special_tokens)
    except (DrafterError, OSError):
        return None
    return Drafter(layerless_config(card, digest), text, NOBODY)
