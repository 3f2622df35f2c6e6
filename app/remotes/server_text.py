"""The tokenizers of verifiers' models, fetched so that verifiers check what a model on this device has written.

That model may have any tokenizer. With the verifier's own, its text goes up in tokens of the verifier's model.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import threading
from functools import cache
from pathlib import Path

import msgspec

from app.remotes.local_drafter import MOST_MADE, layerless_config
from app.sanitise import sanitise
from drafter.runtime import Drafter
from drafter.shelf import UNDER_WAY
from drafter.whole_model import NOBODY
from models.config import DIGEST_BYTES, DrafterError
from models.text.chat_text import ChatText
from models.text.text_side import tokenizer_digest
from remote import LinkDown, RemoteError, VerifierClient
from remote.clock import CLOCK
from remote.delivery import Lied, fetch_tokenizer, tokenizer_files
from remote.protocol import Card
from storage.owner import try_lock

OTHER_SECONDS = 0.5
"""Pause before looking again whether another program has fetched it."""
MOST_LIES = 64
MOST_FILES = 16
"""Most tokenizers that are kept on disk, in case a server has another one each time."""
log = logging.getLogger("outrider.tokenizer")


@cache
def server_texts(shelf: Path) -> ServerTexts:
    """The tokenizers of a folder. All assistants of a program share them, because each takes memory."""
    return ServerTexts(shelf)


class ServerTexts:
    """Makes drafters that know the text of a target and never draft. Thread-safe.

    `shelf`: folder of the tokenizers.
    """

    def __init__(self, shelf: Path) -> None:
        self.shelf = shelf
        self._made: dict[bytes, Drafter] = {}
        """By what is said of the text on the card, so that a conversation keeps its drafter. The one that was used
        last is last."""
        self._lies: dict[tuple[str, Path], None] = {}
        """The servers whose tokenizers are not what they said, the last one last."""
        self._lock = threading.Lock()

    def known(self, card: Card) -> Drafter | None:
        """The drafter for a verifier's model, or None if its tokenizer is not here. Reads files."""
        about = (card.target, card.tokenizer, card.chat_template, card.stop_tokens, card.special_tokens)
        key = hashlib.blake2b(msgspec.msgpack.encode(about), digest_size=DIGEST_BYTES).digest()
        with self._lock:
            made = self._made.pop(key, None) or self._drafter(card, key)
            if made is not None:
                self._made[key] = made
                if len(self._made) > MOST_MADE:
                    del self._made[next(iter(self._made))]
            return made

    def offered(self, client: VerifierClient, card: Card) -> bool:
        """Whether the verifier offers its tokenizer, and has not lied about it."""
        return card.tokenizer_bytes > 0 and card.likeness is not None and self._offer(client, card) not in self._lies

    def _offer(self, client: VerifierClient, card: Card) -> tuple[str, Path]:
        return client.host, tokenizer_files(card, self.shelf)[1]

    async def fetch(self, client: VerifierClient, card: Card) -> Drafter | None:
        """Fetch the tokenizer of a verifier's model, while no other program does; see `known`.

        None if the line breaks, or if it is not what was offered.
        """
        model, host = sanitise(card.target), client.host
        try:
            self.shelf.mkdir(parents=True, exist_ok=True)
            with (self.shelf / "lock").open("ab") as lock:
                with contextlib.suppress(OSError):  # This file system has no locks.
                    while not try_lock(lock):
                        await CLOCK.sleep(OTHER_SECONDS)
                log.info("fetching the tokenizer of %s from %s", model, host)
                self._make_room()
                path = await fetch_tokenizer(client, card, self.shelf)
        except LinkDown as error:
            log.info("the tokenizer of %s is not complete: %s", model, error)
            return None
        except (RemoteError, OSError) as error:
            if isinstance(error, Lied):
                self._lies[self._offer(client, card)] = None
                if len(self._lies) > MOST_LIES:
                    del self._lies[next(iter(self._lies))]
            log.warning("%s answers in plain text: %s", host, error)
            return None
        log.info("the tokenizer of %s is here: %d bytes", model, path.stat().st_size)
        return await asyncio.to_thread(self.known, card)

    def _make_room(self) -> None:
        """Delete the files that were used longest ago, so that there is room for one more of each kind."""
        for kind in ("*.json", "*.tried", "*.new", f"*{UNDER_WAY}"):
            for file in sorted(self.shelf.glob(kind), key=lambda file: file.stat().st_mtime)[: 1 - MOST_FILES]:
                file.unlink()

    def _drafter(self, card: Card, digest: bytes) -> Drafter | None:
        """The drafter with a tokenizer that was tried, or None. A damaged file is deleted, to be fetched again."""
        path, tried = tokenizer_files(card, self.shelf)
        if not tried.is_file():
            return None
        try:
            tokenizer = path.read_bytes()
            if tokenizer_digest(tokenizer) != card.tokenizer:
                path.unlink()
                return None
            text = ChatText(tokenizer, card.chat_template, card.stop_tokens, card.special_tokens)
        except (DrafterError, OSError):
            return None
        with contextlib.suppress(OSError):  # They were not used longest ago.
            for used in (path, tried):
                os.utime(used)
        return Drafter(layerless_config(card, digest), text, NOBODY)
