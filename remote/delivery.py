"""Fetches what a verifier offers, a drafter or the target's tokenizer: resumes where it broke off, checks and tries it.

A verifier may lie. So nothing longer than the offer says is accepted, every byte is checked against its digest, only a
drafter's files (ONNX, JSON, a template) are taken, and they are first opened in a separate process. A drafter's config
comes first: if its figures show that the drafter is useless, nothing else is fetched.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from drafter.delivery import ALLOWED, NEEDED
from drafter.floors import why_no_drafts
from drafter.shelf import UNDER_WAY
from drafter.trial import TextAbout
from models.config import CONFIG, DrafterConfig, sha256
from models.text.text_side import tokenizer_digest
from remote.client import VerifierClient
from remote.errors import NotDelivered, Refused, Stranger, quoted
from remote.protocol import Card, DrafterOffer

CONFIG_BYTES = 4 << 20
"""Longest config. With a vocabulary of 32,768 tokens it has 250 KB."""
TOKENIZER_BYTES = 64 << 20
"""Largest tokenizer. One with 150,000 tokens has 5 MB, and 2 MB compressed."""
DRAFTER, TEXT = "the small model", "the tokenizer"
"""Names of the downloads, for messages."""
TRIAL_SECONDS = 120
SPARE = 64 << 20
"""Bytes of disk space to leave free."""


async def fetch_drafter(
    client: VerifierClient,
    card: Card,
    shelf: Path,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    known: Path | None = None,
) -> Path:
    """The folder in `shelf` with the drafter that `card` offers; files that are already there are not fetched again.

    `progress` is called with the bytes received so far and the total. `known`: the folder of another drafter, whose
    identical files are not fetched again. Raises `NotDelivered`, `LinkDown`, `Refused`; what has arrived is then kept,
    and the next call resumes from there.
    """
    offer = card.drafter
    if offer is None:
        raise NotDelivered(f"{client.host} offers no small model for this device")
    folder = shelf / offer.digest.hex()
    if (folder / CONFIG).is_file():
        return folder
    part = folder.with_name(folder.name + UNDER_WAY)
    try:
        part.mkdir(parents=True, exist_ok=True, mode=0o700)
        config = await _config(client, card, offer, part)
        if known is not None:
            await asyncio.to_thread(_copy_same, config, known, part)
        here = sum(file.stat().st_size for file in part.iterdir())
        _check_room(part, offer.size, here, DRAFTER, client.host)
        done = sum((part / name).stat().st_size for name in config.files if (part / name).is_file())
        progress(done, offer.size)
        for name in config.files:
            done = await _file(client, offer, config, part, name, done, progress)
        try:
            await _try(part, DRAFTER, client.host)
        except NotDelivered:
            shutil.rmtree(part)
            raise
        os.replace(part, folder)
    except OSError as error:
        raise NotDelivered(f"{error.filename or shelf} cannot be written: {error.strerror}") from None
    return folder


async def fetch_tokenizer(client: VerifierClient, card: Card, shelf: Path) -> Path:
    """The file in `shelf` with the tokenizer that `card` offers, fetched unless it is there already.

    Raises what `fetch_drafter` raises.
    """
    path, tried = tokenizer_files(card, shelf)
    if path.is_file() and tried.is_file():
        return path
    try:
        if not path.is_file():
            await _tokenizer(client, card, path)
        about = TextAbout(card.chat_template, card.stop_tokens, card.special_tokens)
        if card.likeness is None or await _try(path, TEXT, client.host, about) != card.likeness.hex():
            raise _lied(client.host, "it tokenizes text differently from that server", TEXT)
        tried.touch()
    except OSError as error:
        raise NotDelivered(f"{error.filename or shelf} cannot be written: {error.strerror}") from None
    return path


def tokenizer_files(card: Card, shelf: Path) -> tuple[Path, Path]:
    """The file of a tokenizer, and the empty one that is there once it was tried with this card's template."""
    about = card.tokenizer, card.chat_template, card.stop_tokens, card.special_tokens, card.likeness
    tried = hashlib.sha256(msgspec.msgpack.encode(about)).hexdigest()
    return shelf / f"{card.tokenizer.hex()}.json", shelf / f"{tried}.tried"


async def _tokenizer(client: VerifierClient, card: Card, path: Path) -> None:
    """Fetch what is missing of the tokenizer, and check it."""
    if not 0 < card.tokenizer_bytes <= TOKENIZER_BYTES:
        raise _lied(client.host, f"it would be {card.tokenizer_bytes / 1e6:,.0f} MB", TEXT)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _check_room(path.parent, card.tokenizer_bytes, 0, TEXT, client.host)
    part = path.with_suffix(UNDER_WAY)
    while True:
        begin = part.stat().st_size if part.is_file() else 0
        with part.open("ab") as file:
            try:
                async for piece in client.tokenizer(card.tokenizer, begin):
                    file.write(piece)
                    if file.tell() > card.tokenizer_bytes:
                        file.truncate(0)
                        raise _lied(client.host, "it is longer than announced", TEXT)
            except (Stranger, Refused) as error:
                asked_too_far = error.code == "bad_request" if isinstance(error, Refused) else error.status == 400
                if not begin or not asked_too_far:
                    raise  # Otherwise the part is longer than what is sent: it was compressed in another way.
        tokenizer = await asyncio.to_thread(_unpacked, part, card)
        if tokenizer is not None:
            break
        part.unlink()
        if not begin:
            raise _lied(client.host, "it has another checksum", TEXT)
    whole = path.with_suffix(".new")
    whole.write_bytes(tokenizer)
    os.replace(whole, path)
    part.unlink()


def _unpacked(part: Path, card: Card) -> bytes | None:
    """The tokenizer in a file that has arrived, or None if it is another one, or only a part."""
    with contextlib.suppress(zlib.error):
        tokenizer = zlib.decompressobj().decompress(part.read_bytes(), card.tokenizer_bytes)
        if tokenizer_digest(tokenizer) == card.tokenizer:
            return tokenizer
    return None


async def _config(client: VerifierClient, card: Card, offer: DrafterOffer, part: Path) -> DrafterConfig:
    """The config, checked against the offer and the card, and written into `part`."""
    path = part / CONFIG
    if not path.is_file() or sha256(path) != offer.digest.hex():
        body = bytearray()
        async for piece in client.delivered(offer.digest, None, 0):
            body += piece
            if len(body) > min(CONFIG_BYTES, offer.size):
                raise _lied(client.host, "its config is too long")
        if hashlib.sha256(body).digest() != offer.digest:
            raise _lied(client.host, "its config has another checksum")
        path.write_bytes(body)
    try:
        config = msgspec.json.decode(path.read_bytes(), type=DrafterConfig)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        path.unlink()
        raise _lied(client.host, f"its config cannot be read ({quoted(str(error))})") from None
    names = set(config.files)
    if not set(NEEDED) <= names <= set(ALLOWED) or config.prompt_recipe is not msgspec.UNSET:
        raise _lied(client.host, "it does not have the files of a small model")
    fits = config.vocabulary == card.vocabulary and config.tokenizer == card.tokenizer.hex()
    if not fits or card.memory is None or config.memory != card.memory.digest.hex():
        raise _lied(client.host, "it was made for another model")
    if (why := why_no_drafts(config)) is not None:
        shutil.rmtree(part)
        raise NotDelivered(f"the small model that {client.host} offers is not fetched: {why}")
    return config


async def _file(
    client: VerifierClient,
    offer: DrafterOffer,
    config: DrafterConfig,
    part: Path,
    name: str,
    done: int,
    progress: Callable[[int, int], None],
) -> int:
    """Fetch the missing part of one file and check it. Returns the bytes of all files received so far."""
    path = part / name
    while not await _whole(path, config.files[name]):
        begin = path.stat().st_size if path.is_file() else 0
        with path.open("ab") as file:
            async for piece in client.delivered(offer.digest, name, begin):
                done += len(piece)
                if done > offer.size:
                    file.truncate(0)
                    raise _lied(client.host, f"{name} is longer than announced")
                file.write(piece)
                progress(done, offer.size)
        if not await _whole(path, config.files[name]):
            done -= path.stat().st_size
            path.unlink()
            if not begin:
                raise _lied(client.host, f"{name} has another checksum")
    return done


def _copy_same(config: DrafterConfig, known: Path, part: Path) -> None:
    for name, checksum in config.files.items():
        if (known / name).is_file() and sha256(known / name) == checksum:
            shutil.copyfile(known / name, part / name)


async def _whole(path: Path, checksum: str) -> bool:
    return path.is_file() and await asyncio.to_thread(sha256, path) == checksum


def _check_room(place: Path, size: int, here: int, what: str, host: str) -> None:
    if shutil.disk_usage(place).free < size - here + SPARE:
        takes = f"takes {size / 1e6:.0f} MB, and the disk has no room for it; free some space"
        raise NotDelivered(f"{what} of {host} {takes}")


async def _try(place: Path, what: str, host: str, about: TextAbout | None = None) -> str:
    """Use it once in a separate process with limited memory and time, because the files may be anything.

    Returns what `drafter.trial` prints.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "drafter.trial", str(place)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(PACKAGES), os.getenv("PYTHONPATH")]))},
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(msgspec.json.encode(about)), TRIAL_SECONDS)
    except (TimeoutError, asyncio.CancelledError) as error:
        process.kill()
        await process.wait()
        if isinstance(error, asyncio.CancelledError):
            raise
        said = b"it takes too long"
    told = quoted(said.decode("utf-8", "replace").strip())
    if process.returncode != 0:
        raise _lied(host, f"it does not work: {told or 'it takes too much memory, or ends the program'}", what)
    return told


PACKAGES = Path(__file__).resolve().parents[1]


class Lied(NotDelivered):
    """The download differs from what the verifier announced, so a retry is pointless."""


def _lied(host: str, why: str, what: str = DRAFTER) -> Lied:
    return Lied(f"{what} that {host} offers is not used: {why}; report this to whoever runs that server")
