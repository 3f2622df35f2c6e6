"""Fetching the tokenizer of a verifier's model: whole, in pieces, damaged, and from a verifier that lies."""

from __future__ import annotations

import json
import os
import zlib
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from starlette.applications import Starlette
from tokenizers import Tokenizer

from models.gguf.header import read_header
from models.gguf.text import write_text_side
from models.text.chat_text import ChatText
from models.text.likeness import likeness
from models.text.text_side import read_text_side, tokenizer_digest
from remote import LinkDown, Refused, VerifierClient
from remote.delivery import SPARE, TOKENIZER_BYTES, Lied, fetch_tokenizer, tokenizer_files
from remote.errors import NotDelivered
from remote.protocol import Card
from remote.verifier.deliveries import TokenizerDelivery
from tests.remote.test_delivery import Line
from tests.remote.test_delivery import client as client_of
from tests.remote.toy_verifier import CARD
from tests.support.gguf_files import byte_level, entries_of, sentencepiece, texts, write_vocabulary
from tests.support.tiny_text import CHAT_TEMPLATE, END, train_tokenizer

TOKENIZER = train_tokenizer().to_str().encode()


def card_of(tokenizer: bytes, template: str = CHAT_TEMPLATE, **about: object) -> Card:
    """The card of a verifier with this tokenizer. `about`: other fields."""
    known = {"chat_template": template, "stop_tokens": (END,), "tokenizer_bytes": len(tokenizer), **about}
    card = msgspec.structs.replace(CARD, tokenizer=tokenizer_digest(tokenizer), **known)
    try:
        alike = likeness(text_of(tokenizer, card))
    except Exception:
        alike = bytes(16)
    return msgspec.structs.replace(card, likeness=alike)


def text_of(tokenizer: bytes, card: Card) -> ChatText:
    return ChatText(tokenizer, card.chat_template, card.stop_tokens, card.special_tokens)


def client(tokenizer: bytes, **faults: object) -> tuple[VerifierClient, Line]:
    delivery = TokenizerDelivery(tokenizer_digest(tokenizer), tokenizer)
    return client_of(Starlette(routes=delivery.routes()), **faults)


async def test_it_arrives_once_and_compressed(tmp_path: Path) -> None:
    asked, line = client(TOKENIZER)
    path = await fetch_tokenizer(asked, card_of(TOKENIZER), tmp_path)
    assert path.read_bytes() == TOKENIZER and [one for one in tmp_path.iterdir() if one.stat().st_size] == [path]
    assert line.carried < len(TOKENIZER) / 2
    assert await fetch_tokenizer(asked, card_of(TOKENIZER), tmp_path) == path and len(line.asked) == 1


@pytest.mark.parametrize(("cut", "damaged"), [(0, False), (1_500, False), (1_500, True)])
async def test_a_broken_line_costs_what_was_in_flight_and_what_was_damaged_since(
    tmp_path: Path, cut: int, damaged: bool
) -> None:
    asked, line = client(TOKENIZER, cut=cut)
    with pytest.raises(LinkDown):
        await fetch_tokenizer(asked, card_of(TOKENIZER), tmp_path)
    for part in tmp_path.iterdir() if damaged else ():
        part.write_bytes(os.urandom(part.stat().st_size))
    assert (await fetch_tokenizer(asked, card_of(TOKENIZER), tmp_path)).read_bytes() == TOKENIZER
    assert line.asked[1].endswith(f"?from={cut // 1000 * 1000}")


async def test_a_part_that_is_longer_than_the_whole_is_fetched_again(tmp_path: Path) -> None:
    asked, line = client(TOKENIZER)
    card = card_of(TOKENIZER)
    (tmp_path / f"{card.tokenizer.hex()}.part").write_bytes(bytes(len(TOKENIZER)))  # Compressed by another library.
    assert (await fetch_tokenizer(asked, card, tmp_path)).read_bytes() == TOKENIZER
    assert len(line.asked) == 2


@pytest.mark.parametrize("kind", [byte_level, sentencepiece])
async def test_both_ends_read_and_write_the_same_tokens(kind: Callable[[], Tokenizer], tmp_path: Path) -> None:
    file = {"general.architecture": "llama", "tokenizer.chat_template": CHAT_TEMPLATE + "{{ eos_token }}"}
    write_text_side(read_header(write_vocabulary(tmp_path / "one.gguf", entries_of(kind()) | file)), tmp_path)
    side = read_text_side(tmp_path)
    assert side.special_tokens
    about = {"special_tokens": dict(side.special_tokens), "stop_tokens": side.stop_tokens}
    card = card_of(side.tokenizer_json, side.chat_template, **about)
    assert card.tokenizer == side.tokenizer and card.likeness == likeness(side.text)
    asked, _ = client(side.tokenizer_json)
    here = text_of((await fetch_tokenizer(asked, card, tmp_path)).read_bytes(), card)
    for said in texts():
        tokens = side.text.encode(said)
        assert here.encode(said) == tokens and here.decode(tokens) == side.text.decode(tokens)
        talk = [("user", said), ("assistant", said), ("user", "and?")]
        assert here.render(talk) == side.text.render(talk)
        assert [here.spelling(token) for token in tokens] == [side.text.spelling(token) for token in tokens]


def _flipped(path: str, body: bytes) -> bytes:
    return body[:100] + bytes([body[100] ^ 1]) + body[101:]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_flipped, "it has another checksum"),
        (lambda path, body: os.urandom(300), "it has another checksum"),
        (lambda path, body: zlib.compress(bytes(1 << 21)), "it has another checksum"),
        (lambda path, body: body + bytes(1 << 20), "it is longer than announced"),
    ],
)
async def test_a_verifier_that_sends_something_else_is_found_out(
    tmp_path: Path, change: Callable[[str, bytes], bytes], said: str
) -> None:
    asked, _ = client(TOKENIZER, change=change)
    with pytest.raises(NotDelivered, match=f"the tokenizer that verifier offers is not used: {said}; report"):
        await fetch_tokenizer(asked, card_of(TOKENIZER), tmp_path)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= len(TOKENIZER)


EMPTY = json.dumps({"model": {"type": "BPE", "vocab": {}, "merges": []}}, indent=9).encode()
NESTED = b'{"model": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
LOOPS = "{% for a in range(9999) %}{% for b in range(9999) %}{{ range(9999) | list | length }}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("tokenizer", "said"),
    [
        (b"no JSON" * 10, "it does not work: tokenizer.json cannot be read"),
        (NESTED, "it does not work"),
        (EMPTY, "it tokenizes text differently"),
    ],
    ids=["no JSON", "nested", "empty"],
)
async def test_one_that_does_not_work_is_found_out_in_a_process_of_its_own(
    tmp_path: Path, tokenizer: bytes, said: str
) -> None:
    asked, line = client(tokenizer)
    card = msgspec.structs.replace(card_of(tokenizer), likeness=bytes(16))
    for _ in range(2):
        with pytest.raises(Lied, match=said):
            await fetch_tokenizer(asked, card, tmp_path)
    assert not tokenizer_files(card, tmp_path)[1].exists() and len(line.asked) == 1, "it is not sent twice"


async def test_each_template_is_tried_with_a_tokenizer_that_is_here(tmp_path: Path) -> None:
    asked, line = client(TOKENIZER)
    await fetch_tokenizer(asked, card_of(TOKENIZER), tmp_path)
    other = msgspec.structs.replace(card_of(TOKENIZER), chat_template="{{ messages[9].content }}")
    with pytest.raises(Lied, match="it tokenizes text differently"):
        await fetch_tokenizer(asked, other, tmp_path)
    right = card_of(TOKENIZER, CHAT_TEMPLATE + "\n")
    assert (await fetch_tokenizer(asked, right, tmp_path)).is_file() and len(line.asked) == 1


async def test_one_that_would_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote.delivery.TRIAL_SECONDS", 1)
    asked, _ = client(TOKENIZER)
    card = msgspec.structs.replace(card_of(TOKENIZER), chat_template=LOOPS)
    with pytest.raises(NotDelivered, match="it does not work: it takes too long"):
        await fetch_tokenizer(asked, card, tmp_path)


async def test_what_is_too_large_is_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, line = client(TOKENIZER)
    with pytest.raises(NotDelivered, match="it would be 67 MB"):
        await fetch_tokenizer(asked, card_of(TOKENIZER, tokenizer_bytes=TOKENIZER_BYTES + 1), tmp_path)
    usage = namedtuple("usage", "free")
    monkeypatch.setattr("shutil.disk_usage", lambda place: usage(SPARE))
    with pytest.raises(NotDelivered, match="the tokenizer of verifier takes .* the disk has no room"):
        await fetch_tokenizer(asked, card_of(TOKENIZER), tmp_path)
    assert not line.asked


async def test_what_is_not_offered_is_not_sent(tmp_path: Path) -> None:
    asked, line = client(TOKENIZER)
    with pytest.raises((LinkDown, Refused)):
        await fetch_tokenizer(asked, card_of(TOKENIZER + b" "), tmp_path)
    assert line.carried == len("Not Found")


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    asked, _ = client(TOKENIZER)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotDelivered, match="file.* cannot be written"):
        await fetch_tokenizer(asked, card_of(TOKENIZER), tmp_path / "file")
