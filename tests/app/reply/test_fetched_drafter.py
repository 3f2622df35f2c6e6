"""A server whose model this device has no drafter for: plain text at first, then drafts, also without a line."""

from __future__ import annotations

import shutil
from pathlib import Path

from app.config import Settings
from app.remotes.last_seen import LastSeen
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters, kept, remove
from models.config import GRAPH, TOKENIZER
from models.guide.names import MARKS
from storage import Store
from tests.support.conversing import ask, until_connected, until_mode
from tests.support.serving import VerifierProcess


def unmarked(text: str) -> str:
    """A text without the marks of names, which this pair says and nobody is shown."""
    return "".join(letter for letter in text if letter not in MARKS)


async def test_it_answers_in_plain_text_until_its_drafter_is_fetched(
    drafter: Drafter, other_pair: Path, tmp_path: Path
) -> None:
    settings, seen = Settings(max_tokens=24, temperature=0), LastSeen(tmp_path / "servers.json")
    shelf = tmp_path / "shelf"

    def opened_on(store: Store, url: str | None) -> Assistant:
        source = None if url is None else AddressSource(url)
        return Assistant(store, Options(Drafters(drafter, shelf), source, settings, modes=("edge",), seen=seen))

    with Store.open(tmp_path / "outrider.db") as store:
        with VerifierProcess(other_pair) as serving:
            async with opened_on(store, serving.url) as opened:
                await until_connected(opened)
                plain = await ask(opened, "hello there")
                assert plain.text and "hosted" in plain.modes and opened.status().checks is False
                offer = opened.offer
                assert offer is not None and "offers a small model for target: 1 MB" in offer.question

                seen_bytes: list[int] = []
                await opened.fetch_offered(lambda done, total: seen_bytes.append(done))
                await until_mode(opened, "edge")
                assert seen_bytes and opened.offer is None and opened.backend.routing.fits
                conversation = store.conversations.create("with its drafter").id
                drafted = await ask(opened, "hello there", conversation)
                assert drafted.text == unmarked(plain.text), "the same model answers"
                assert drafted.done.stats.tau > 1

                serving.kill()
                alone = await ask(opened, "and then", conversation)
                assert "offline" in alone.modes and alone.text

        async with opened_on(store, None) as opened:
            of_other = Drafters(drafter, shelf).of_memory(store.memory.last_used(conversation))
            assert of_other is not None and of_other is not drafter
            again = await ask(opened, "and then", conversation)
            mine = await ask(opened, "and then")
            tokens = [store.messages.get(heard.message).tokens for heard in (again, mine)]
            assert unmarked(of_other.text.decode(tokens[0])) == again.text, "its own drafter went on with it"
            assert drafter.text.decode(tokens[1]) == mine.text, "and the first one began a new one"


async def test_one_that_was_removed_is_not_used(tiny_pair: Path, tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    folder = shutil.copytree(tiny_pair / "drafter", shelf / ("ab" * 32))
    ((found, config),) = kept(shelf)
    assert found == folder and config.target
    assert not remove(shelf, "") and not remove(shelf, "cd") and folder.is_dir()
    assert remove(shelf, "abab") and not folder.exists() and not list(kept(shelf))


def test_a_damaged_one_counts_as_none(drafter: Drafter, other_pair: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(other_pair / "drafter", tmp_path / ("cd" * 32))
    other = Drafter.load(folder)
    found = Drafters(drafter, tmp_path)
    assert found.has(other.memory_digest) and not found.has(None) and not found.has(bytes(16))
    fits = found.fitting(other.text.digest, other.config.vocabulary, other.memory_digest)
    assert fits is not None and fits.memory_digest == other.memory_digest
    (folder / GRAPH).write_bytes(b"junk")
    (tmp_path / ("ef" * 32)).mkdir()
    assert Drafters(drafter, tmp_path).of_memory(other.memory_digest) is None
    assert Drafters(drafter, tmp_path).fitting(other.text.digest, other.config.vocabulary, other.memory_digest) is None
    assert (folder / TOKENIZER).is_file(), "it is left for the person"


def test_a_drafter_of_the_same_tokens_drafts_for_a_stranger(drafter: Drafter) -> None:
    found = Drafters(drafter)
    assert found.fitting(drafter.text.digest, drafter.config.vocabulary, bytes(16)) is drafter
    assert found.fitting(drafter.text.digest, drafter.config.vocabulary, None) is drafter
    assert found.fitting(bytes(16), drafter.config.vocabulary, drafter.memory_digest) is None
